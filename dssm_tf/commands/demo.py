"""`dssm demo`: click log to served ranker on bundled questions, by the commands that one types."""

from __future__ import annotations

import shlex
import shutil
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path

from dssm_tf.common.command_line import run
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import refuse_others
from dssm_tf.common.terminal import say

_MODELS = ("dssm", "lstm")
_QUERIES = ("capital of austrailia", "where is the grand canion")
_WRITTEN = (
    ".dssm-demo", "data", "preprocessed", "runs", "evaluation", "report", "export", ".*",
)  # fmt: skip
_LAST = """
Data: WebQuestions, Berant, Chou, Frostig and Liang 2013, CC BY 4.0.
  look   {out}/evaluation/report.html and {out}/report/report.html
  serve  dssm serve {out}/export
  yours  dssm benchmark --clicks CLICKS.tsv --corpus TITLES.tsv --judge-later 0.2 \
--systems bm25,dssm --out BENCH"""


def demo(*, out: Path = Path("build/demo")) -> None:
    """Try everything on bundled data, from a click log to a served ranker.

    Runs the usual commands on WebQuestions and shows each: preprocesses, trains dssm and lstm,
    evaluates them against BM25, reports, exports and searches.

        dssm demo --out demo

    Args:
        out: directory to write; what an earlier demo wrote there is replaced.

    Raises:
        UserError: `out` holds something else, or a command failed.
    """
    refuse_others(out, _WRITTEN)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / _WRITTEN[0]).touch()
    write_data(out / "data")
    for number, words in enumerate(_commands(out), start=1):
        say("", f"{number}. dssm {shlex.join(words)}")
        command = getattr(import_module(f"dssm_tf.commands.{words[0]}"), words[0])
        if run(f"dssm {words[0]}", command, words[1:]):
            raise UserError(f"dssm {words[0]} failed; its message is above.")
    say(_LAST.format(out=out))


def _commands(out: Path) -> list[list[str]]:
    """What to type, in order."""
    clicks, data, runs = f"{out}/data/clicks.tsv", f"{out}/preprocessed", f"{out}/runs"
    corpus = ["--corpus", f"{out}/data/corpus.tsv"]
    judged = ["--judgments", f"{out}/data/judgments.tsv", *corpus]
    models = [word for name in _MODELS for word in ("--model", f"{runs}/{name}")]
    dssm, lstm = (f"{runs}/{name}" for name in _MODELS)
    return [
        ["preprocess", "--input", clicks, *corpus, "--output", data],
        *(["train", "--config", m, "--data", data, "--out", f"{runs}/{m}"] for m in _MODELS),
        ["evaluate", *models, *judged, "--out", f"{out}/evaluation"],
        ["report", "--model", dssm, "--beside", lstm, *judged, "--out", f"{out}/report"],
        *(["export", "--model", run, "--out", f"{out}/export"] for run in (dssm, lstm)),
        ["search", "--model", dssm, *corpus, "--k", "3", *_QUERIES],
    ]


def write_data(directory: Path) -> None:
    """Writes the log, of all questions but the test's, these as judgments, and all titles."""
    from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus, write_judgments
    from dssm_tf.tables.reader import read_rows
    from dssm_tf.tables.writer import write_table

    with as_file(files("dssm_tf.datasets") / "webquestions" / "pairs.tsv") as table:
        rows = [row for _, row in read_rows(table, ("query_id", "split", "query", "title"))]
    ids = {title: f"wq{i:05d}" for i, title in enumerate(dict.fromkeys(row[3] for row in rows), 1)}
    clicks = ((query, title) for _, split, query, title in rows if split != "test")
    write_table(directory / "clicks.tsv", ("query", "title"), clicks)
    judged = dict.fromkeys(
        Judgment(query_id, query, ids[title], title, 1.0)
        for query_id, split, query, title in rows
        if split == "test"
    )
    write_judgments(directory / "judgments.tsv", list(judged))
    write_corpus(directory / "corpus.tsv", [CorpusTitle(ids[title], title) for title in ids])
