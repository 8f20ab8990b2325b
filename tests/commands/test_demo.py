"""`dssm demo`: its data, its page, and (slow) the whole of it."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from dssm_tf.commands.demo import steps as demonstration
from dssm_tf.common.errors import UserError
from dssm_tf.tables.judgments import read_corpus, read_judgments


class Balanced(HTMLParser):
    """Fails where a tag is closed that was not opened last."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in ("meta", "br", "img", "line", "polyline", "link", "input", "hr", "col"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_log_holds_no_question_that_is_judged(tmp_path):
    judgments, corpus = demonstration._write_data(tmp_path)
    log = [line.split("\t") for line in (tmp_path / "clicks.tsv").read_text("utf-8").splitlines()]
    assert log[0] == ["query", "title"]
    assert len(judgments) > 1000
    # The whole of the table is used: its titles are the corpus.
    assert {title for _, title in log[1:]} | {one.title for one in judgments} == {
        one.title for one in corpus
    }
    assert read_judgments(tmp_path / "judgments.tsv") == judgments
    assert read_corpus(tmp_path / "corpus.tsv") == corpus


def test_something_else_is_not_overwritten_but_an_earlier_demo_is(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match=r"did not write thesis\.txt"):
        demonstration._start(tmp_path)
    assert (tmp_path / "thesis.txt").exists()
    earlier = demonstration._start(tmp_path / "demo")
    (earlier / "notes.txt").write_text("precious")
    with pytest.raises(UserError, match=r"did not write notes\.txt"):
        demonstration._start(earlier)
    (earlier / "notes.txt").rename(earlier / "metrics.json")
    (earlier / "runs" / "lstm").mkdir(parents=True)
    assert [path.name for path in demonstration._start(earlier).iterdir()] == [".dssm-demo"]


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "demo").write_text("a file")
    with pytest.raises(UserError, match="exists already"):
        demonstration._start(tmp_path / "demo")


@pytest.mark.slow
def test_the_demo_ends_with_rankers_that_beat_bm25(tmp_path, capsys):
    out = tmp_path / "demo"
    demonstration.run(out)
    systems = json.loads((out / "metrics.json").read_text("utf-8"))["systems"]
    # What prototypes reached, less what a seed may cost.
    for name, cutoff, least in (
        ("dssm", "ndcg@1", 0.93), ("dssm", "ndcg@3", 0.95), ("dssm", "ndcg@10", 0.955),
        ("lstm", "ndcg@1", 0.89), ("lstm", "ndcg@3", 0.92), ("lstm", "ndcg@10", 0.92),
    ):  # fmt: skip
        assert systems[name][cutoff] >= least, (name, cutoff)
        assert systems[name][cutoff] > systems["bm25"][cutoff]
    page = (out / "report.html").read_text("utf-8")
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert not [link for link in parser.links if "//" in link]
    for name in ("dssm", "lstm"):
        assert (out / "export" / name / "1" / "saved_model.pb").exists()
    assert "CC BY 4.0" in page
    text = capsys.readouterr().out
    for query in demonstration.LIVE_QUERIES:
        assert query in text
        assert query in page
    assert "dssm benchmark --clicks CLICKS.tsv" in text
    assert "dssm benchmark --clicks CLICKS.tsv" in page
    for link in parser.links:
        assert link.startswith("#") or (out / link).exists(), link
