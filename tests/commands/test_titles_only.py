"""The commands on the data of a corpus without a log, and on a run that was trained on it."""

from __future__ import annotations

import shlex

import pytest

from dssm_tf.cli import main
from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus, write_judgments
from pipelines import preprocess
from tests.clicks import Data, catalog
from tests.pipelines.written import WrittenData
from tests.runs import finished_run

CONFIG = {
    "tower": {"name": "lstm", "cells": 6},
    "training": {"epochs": 1, "batch_size": 64, "xla": False, "title_queries": 1},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, its preprocessed directory, a run of random weights, and judgments."""
    folder = tmp_path_factory.mktemp("titles")
    titles = [CorpusTitle(f"d{number}", title) for number, title in enumerate(catalog(60))]
    write_corpus(folder / "corpus.tsv", titles)
    judgments = [
        Judgment(f"q{number}", " ".join(title.title.split()[::2]), title.doc_id, title.title, 1)
        for number, title in enumerate(titles[:20])
    ]
    write_judgments(folder / "judgments.tsv", judgments)
    arguments = ["--corpus", folder / "corpus.tsv", "--output", folder / "data"]
    assert not preprocess.run(list(map(str, arguments)))
    written = WrittenData(folder / "data")
    data = Data(written.path, written.vocabulary, written.spec, [*written.titles], {})
    finished_run(folder / "run", data, CONFIG, prior_weight=0.0)
    return folder


def run(folder, command: str, code: int = 0) -> None:
    """Runs a command; `{0}` is the folder."""
    assert main(shlex.split(command.format(shlex.quote(str(folder))))) == code


def test_evaluate_measures_the_run_and_baselines_that_need_no_clicks(folder, capsys):
    command = "evaluate --model {0}/run --judgments {0}/judgments.tsv --corpus {0}/corpus.tsv"
    run(folder, f"{command} --data {{0}}/data --baselines bm25,ulm --out {{0}}/evaluation")
    # No system learned from clicks, so no query can be in a training log.
    output = capsys.readouterr().out
    assert "Means over 20 queries" in output
    assert "training log" not in output
    run(folder, f"{command} --data {{0}}/data --baselines ptm --out {{0}}/none", code=1)
    assert (
        "ptm learns from clicks; the log has no click with a word in both the query and the title. "
        "Give --data, a directory that preprocess wrote from a click log."
        in capsys.readouterr().err
    )


def test_the_report_has_the_topics_of_all_titles(folder):
    run(folder, "report --model {0}/run --out {0}/report")
    report = (folder / "report" / "report.md").read_text("utf-8")
    assert "60 titles, none of which was clicked" in report
    assert "each of 60 texts" in report


@pytest.mark.long
def test_exports_indexes_and_searches_work(folder, capsys):
    run(folder, "export --model {0}/run --out {0}/export")
    run(folder, "index --model {0}/run --corpus {0}/corpus.tsv --out {0}/index")
    capsys.readouterr()
    title = catalog(60)[0]
    run(folder, f"search --index {{0}}/index '{title}'")
    assert title in capsys.readouterr().out
    run(folder, f"explain --model {{0}}/export/lstm --query '{title}' --title '{title}'")
    run(folder, "embed --model {0}/run --input {0}/corpus.tsv --out {0}/vectors.parquet")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("mine --data {0}/data --bm25 --out {0}/mined.tsv", "has no queries to mine for"),
        ("teach --data {0}/data --model {0}/run --out {0}/scores.tsv", "has no queries to score"),
    ],
)
def test_commands_that_need_queries_refuse_in_one_line(folder, capsys, command, message):
    capsys.readouterr()
    run(folder, command, code=1)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("dssm ")]
    assert message in line
    assert "give preprocess --input" in line
    assert not [*folder.glob("*d.tsv"), *folder.glob("scores*")]


@pytest.mark.long
def test_tune_compares_settings_on_queries_made_from_titles(folder):
    pytest.importorskip("optuna")
    (folder / "mine.yaml").write_text(
        "tower: {name: dssm, widths: [6]}\n"
        "training: {epochs: 1, batch_size: 64, xla: false, title_queries: 1}\n",
        "utf-8",
    )
    command = "tune --config {0}/mine.yaml --data {0}/data --out {0}/tuned --grid loss.gamma=5,10"
    run(folder, command)
    best = (folder / "tuned" / "best.yaml").read_text("utf-8")
    assert "queries made from titles, fewer than 200" in best
