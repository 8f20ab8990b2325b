"""`dssm evaluate --fail-if-worse`: its exit code, its line and its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dssm_tf.cli import main
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.stable_hash import pair_fingerprints
from dssm_tf.text.vocabulary import Vocabulary
from tests.clicks import Click, write_data
from tests.commands.models import replace_load_run, write_run

QUERIES = 30


class Model:
    """Replaces a trained model. `good` ranks title n first for query n, `bad` ranks it last."""

    vocabulary = Vocabulary(["#qu"], FOLDED)

    def __init__(self, path):
        self.name, self.sign = path.name, 1 if "good" in path.name else -1

    def score_matrix(self, queries, titles):
        same = [[query.split()[1] == title.split()[1] for title in titles] for query in queries]
        return np.array(same, float) * self.sign


def write_model(name, learned=()):
    """Writes the files of a run that has learned the clicks of the queries with these numbers."""
    run = Path(name)
    write_run(run, [f"query {n}" for n in learned])
    titles = np.array([FOLDED.id(f"title {n}") for n in learned], np.int64)
    np.save(run / "pair_ids.npy", pair_fingerprints(np.load(run / "query_ids.npy"), titles))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Writes judgments, a corpus, models and a run to the working directory."""
    monkeypatch.chdir(tmp_path)
    replace_load_run(monkeypatch, Model)
    rows = [f"q{n}\tquery {n}\td{n}\ttitle {n}\t1" for n in range(QUERIES)]
    Path("j.tsv").write_text("\n".join(["query_id\tquery\tdoc_id\ttitle\tgrade", *rows, ""]))
    titles = [f"d{n}\ttitle {n}" for n in range(QUERIES)]
    Path("c.tsv").write_text("\n".join(["doc_id\ttitle", *titles, ""]))
    Path("engine.trec").write_text("".join(f"q{n} Q0 d{n} 1 1 t\n" for n in range(QUERIES)))
    for name in ("good", "bad"):
        write_model(name)


@pytest.fixture
def gate(capsys):
    def run(flags, min_queries=20):
        command = "evaluate --judgments j.tsv --corpus c.tsv --baselines= --out G --min-queries"
        code = main([*command.split(), str(min_queries), *flags.split()])
        return code, capsys.readouterr()

    return run


def test_a_worse_model_exits_with_3_and_one_line_and_writes_its_files(gate):
    code, output = gate("--model bad --against good --fail-if-worse")
    assert code == 3
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("dssm evaluate: worse: ndcg@10 of bad 0.000, of good 1.000")
    assert "<failure" in Path("G/gate.xml").read_text("utf-8")
    assert Path("G/gate.md").exists()
    assert Path("G/report.html").exists()


def test_a_better_model_exits_with_0_and_one_line_also_if_quiet(gate):
    code, output = gate("--quiet --model new=good --against live=bad --fail-if-worse mrr@5")
    assert code == 0
    assert output.err == ""
    assert output.out.count("\n") == 1
    assert output.out.startswith("not worse: mrr@5 of new 1.000, of live 0.000, difference +1.000")


def test_the_live_system_can_be_a_run_of_an_engine(gate):
    assert gate("--model bad --against engine.trec --fail-if-worse")[0] == 3


def test_clicks_that_the_live_model_has_learned_do_not_count(gate):
    write_model("live/good", learned=range(24))
    code, output = gate("--model bad --against live=live/good --fail-if-worse")
    assert code == 1
    assert "6 of 30 judged queries have only clicks that neither bad nor live has" in output.err
    code, output = gate("--model bad --against live=live/good --fail-if-worse", 6)
    # Six equal differences: the exact test gives p = 2 / 2 ** 6; five would not be significant.
    assert code == 3
    assert "on 6 queries; 24 with learned clicks are left out" in output.err


def test_a_model_without_a_record_of_its_clicks_needs_the_flag_learned(gate, tmp_path):
    Path("bad/query_ids.npy").unlink()
    code, output = gate("--model good --against bad --fail-if-worse")
    assert code == 1
    assert "bad does not record which clicks it has learned" in output.err
    write_data(tmp_path / "data", [Click("query 0", "title 0"), Click("query 1", "title 9")])
    code, output = gate("--model good --against bad --fail-if-worse --learned data")
    assert code == 0
    assert "on 29 queries; 1 with learned clicks" in output.out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--model good --fail-if-worse", "received 1 --model and no --against"),
        ("--against good --fail-if-worse", "received 0 --model and an --against"),
        ("--model good --against bad --fail-if-worse ndgc@10", "metric 'ndgc@10': expected one"),
        ("--model good --against bad --fail-if-worse judged@10", "it does not measure quality"),
        ("--model good --against nothing", "there is no nothing; expected a directory"),
        ("--model good --against good=bad", "two entries have the name 'good'"),
        ("--model good --against bad --fail-if-worse --learned j.tsv", "records no clicks"),
    ],
)
def test_unusable_flags_are_refused_in_one_line(gate, flags, message):
    code, output = gate(flags)
    assert code == 1
    assert message in output.err
    assert output.err.count("\n") == 1
    assert not Path("G").exists()


def test_without_a_gate_the_table_compares_with_the_live_system(gate):
    code, output = gate("--model good --against bad")
    assert code == 0
    assert "NDCG@10" in output.out
    assert not Path("G/gate.xml").exists()
