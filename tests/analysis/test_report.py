"""`dssm report`: the page of a run, for every tower."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from dssm_tf.analysis.report import report
from dssm_tf.cli import main
from dssm_tf.tables.judgments import Judgment
from dssm_tf.towers import TOWERS
from tests.choices import small
from tests.clicks import Click, click_log, write_data
from tests.runs import finished_run

JUDGMENTS = [
    Judgment("1", "red <fox>", "a", "red fox", 1.0),
    Judgment("1", "red <fox>", "b", "blue owl", 0.0),
    Judgment("2", "?!", "b", "blue owl", 1.0),
    Judgment("2", "?!", "c", "green bear", 0.0),
]


class Reader(HTMLParser):
    """Headings and text of a page; every element must be closed."""

    def __init__(self, html):
        super().__init__()
        self.heads, self.text, self._open = [], "", []
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag, attributes):
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self._open and self._open[-1] == "h2":
            self.heads.append(data)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reported")
    data = write_data(folder / "data", [*click_log(), Click("red fox", "red fox", 2)])

    def run(name):
        if not (folder / name).exists():
            tower = {"name": name, **small(TOWERS[name])}
            finished_run(folder / name, data, {"tower": tower})
        return folder / name

    return run


@pytest.mark.parametrize("name", TOWERS)
def test_a_run_s_page_has_what_its_tower_can_show(runs, name):
    page = Reader(report(runs(name), JUDGMENTS, words=["fox", "red"]))
    expected = ["Training", "How well it ranks", "Best queries, explained",
                "Worst queries, explained"]  # fmt: skip
    if name not in ("dssm", "clsm"):
        expected.append("What its cells stand for")
    if name != "dssm":
        expected.append("The same word in different titles")
    assert page.heads == [*expected, "Nearest words in the first layer", "A map of titles"]
    assert "red <fox>" in page.text
    assert "the query '?!' holds no word" in page.text
    assert "These means rest on 2 queries, fewer than 200" in page.text


def test_without_judgments_nothing_is_measured_and_another_run_s_curve_stands_beside(
    runs, tmp_path, capsys
):
    arguments = ["--model", str(runs("rnn")), "--beside", f"other={runs('dssm')}"]
    assert main(["report", *arguments, "--out", str(tmp_path / "page")]) == 0
    page = Reader((tmp_path / "page" / "report.html").read_text("utf-8"))
    assert "How well it ranks" not in page.heads
    assert "other" in page.text
    assert str(tmp_path / "page" / "report.html") in capsys.readouterr().out.replace("\n", "")
    assert main(["report", *arguments[:2], "--out", str(tmp_path / "page")]) == 1  # another report
