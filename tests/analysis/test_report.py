"""`dssm report`: the page of a run, for every tower."""

import re
from dataclasses import replace
from html import unescape

import pytest

from dssm_tf.analysis.explanation import explain
from dssm_tf.analysis.rendering import markdown
from dssm_tf.analysis.report import report as inside
from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.common.markdown import html
from dssm_tf.tables.judgments import Judgment
from tests.components import TOWER_CONFIGS

JUDGMENTS = [
    Judgment("1", "red <fox>", "a", "red fox", 1.0),
    Judgment("1", "red <fox>", "b", "blue owl", 0.0),
    Judgment("2", "?!", "b", "blue owl", 1.0),
    Judgment("2", "?!", "c", "green bear", 0.0),
]


def heads_of(page):
    return re.findall(r"<h2>(.*?)</h2>", page)


def text_of(page):
    """What a reader of a page sees."""
    return unescape(re.sub(r"<[^>]*>", "", page))


@pytest.mark.parametrize("name", TOWER_CONFIGS)
def test_a_run_s_page_has_what_its_tower_can_show(runs, name):
    page = html(inside(runs(name), JUDGMENTS)[0])
    expected = ["Training", "How well it ranks", "Best queries, explained",
                "Worst queries, explained"]  # fmt: skip
    if name not in ("dssm", "clsm"):
        expected.append("What its cells stand for")
    assert heads_of(page) == [*expected, "Configuration"]
    best, worst, *again = map(float, re.findall(r"<h3>.* ([\d.]+)</h3>", page))
    assert best >= worst
    assert again == [worst, best]  # two queries, each among the best and the worst
    assert "red <fox>" in text_of(page)
    assert "the query '?!' has no word" in text_of(page)
    assert "These means rest on 2 queries, fewer than 200" in text_of(page)


def test_without_judgments_nothing_is_measured_and_another_run_s_curve_stands_beside(
    runs, tmp_path, capsys
):
    arguments = ["--model", str(runs("rnn")), "--beside", f"other={runs('dssm')}"]
    assert main(["report", *arguments, "--out", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "report.html").read_text("utf-8")
    assert "How well it ranks" not in heads_of(page)
    assert "other" in text_of(page)
    assert str(tmp_path / "page" / "report.html") in capsys.readouterr().out.replace("\n", "")
    assert main(["report", *arguments[:2], "--out", str(tmp_path / "page")]) == 1  # another report


def test_an_rnn_s_neurons_stand_under_an_lstm_s_cells_as_in_tables_v_to_viii(runs, rankers):
    text, _ = inside(runs("bilstm"), JUDGMENTS, beside={"plain": runs("rnn")})
    found = [explain(rankers(name), "red fox", "red fox") for name in ("bilstm", "rnn")]
    forwards, backwards = (one.moved() for one in found[0].query.readings)
    (neurons,) = (one.moved() for one in found[1].query.readings)
    assert forwards[0] is backwards[1] is neurons[0] is None
    shown = markdown(found[0], [replace(found[1], model="plain")])
    assert shown in text
    head, _, *rows = ([cell.strip() for cell in line.split("|")] for line in shown.splitlines()[:4])
    assert head[5] == "cells moved of 4, right to left"
    assert head[9] == "plain: cells moved of 4, left to right"
    for row, moved in zip(rows, zip(forwards, backwards, neurons, strict=True), strict=True):
        expected = ["-" if count is None else str(count or "") for count in moved]
        assert [row[4], row[5], row[9]] == expected
    assert f"Cosine: bilstm {found[0].cosine:.3f}, plain {found[1].cosine:.3f}." in shown


def test_a_run_beside_needs_a_name_of_its_own(runs):
    with pytest.raises(UserError, match="--beside rnn: the run itself is called so"):
        inside(runs("rnn"), beside={"rnn": runs("lstm")})
