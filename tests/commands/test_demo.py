"""`dssm demo`: its data, the directories it replaces, and (slow) a complete run."""

from __future__ import annotations

import json
import re

import pytest

from dssm_tf.commands import demo as demonstration
from dssm_tf.common.errors import UserError
from dssm_tf.tables.judgments import read_corpus, read_judgments


def test_the_log_has_no_judged_question(tmp_path):
    demonstration.write_data(tmp_path)
    log = [line.split("\t") for line in (tmp_path / "clicks.tsv").read_text("utf-8").splitlines()]
    judgments = read_judgments(tmp_path / "judgments.tsv")
    assert log[0] == ["query", "title"]
    assert len(judgments) > 1000
    assert not {query for query, _ in log} & {row.query for row in judgments}
    # The corpus has exactly the titles of the log and the judgments.
    assert {title for _, title in log[1:]} | {row.title for row in judgments} == {
        row.title for row in read_corpus(tmp_path / "corpus.tsv")
    }


def test_only_an_earlier_demo_is_overwritten(tmp_path, monkeypatch):
    monkeypatch.setattr(demonstration, "_COMMANDS", "")
    earlier = tmp_path / "demo"
    earlier.touch()
    with pytest.raises(UserError, match="exists already"):
        demonstration.demo(out=earlier)
    earlier.unlink()
    demonstration.demo(out=earlier)
    other = tmp_path / "other"
    other.mkdir()
    for folder in (other, earlier):
        (folder / "thesis.txt").write_text("precious")
        with pytest.raises(UserError, match=r"did not write thesis\.txt"):
            demonstration.demo(out=folder)
        (folder / "thesis.txt").unlink()
    (earlier / "runs" / "lstm").mkdir(parents=True)
    demonstration.demo(out=earlier)
    assert sorted(path.name for path in earlier.iterdir()) == [
        ".dssm-demo", "data", "report.html", "report.md",
    ]  # fmt: skip


def test_the_demo_stops_at_a_failed_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demonstration, "_COMMANDS", "train --data nowhere")
    with pytest.raises(UserError, match="dssm train failed; its message is above"):
        demonstration.demo(out=tmp_path / "demo")
    assert "--out is required" in capsys.readouterr().err


@pytest.mark.slow
def test_the_rankers_of_the_demo_are_better_than_bm25(tmp_path, capfd):
    out = tmp_path / "demo"
    demonstration.demo(out=out)
    systems = json.loads((out / "evaluation" / "metrics.json").read_text("utf-8"))["systems"]
    # Slightly less than measured, because values vary with the seed.
    for name, cutoff, minimum in (
        ("dssm", "ndcg@1", 0.93), ("dssm", "ndcg@3", 0.95), ("dssm", "ndcg@10", 0.955),
        ("lstm", "ndcg@1", 0.89), ("lstm", "ndcg@3", 0.92), ("lstm", "ndcg@10", 0.92),
    ):  # fmt: skip
        assert systems[name][cutoff] >= minimum, (name, cutoff)
        assert systems[name][cutoff] > systems["bm25"][cutoff]
    for name in ("dssm", "lstm"):
        assert (out / "export" / name / "1" / "saved_model.pb").exists()
    links = re.findall(r'href="([^"#]*)"', (out / "report.html").read_text("utf-8"))
    assert len(links) > 8
    assert all((out / link).exists() for link in links)
    text = capfd.readouterr().out
    for expected in (
        "report.html",
        "dssm benchmark --clicks CLICKS.tsv",
        "Query: capital of austrailia",
    ):
        assert expected in text
