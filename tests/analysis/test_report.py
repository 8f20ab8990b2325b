"""`dssm report`: the report of a run, for every tower."""

import re
from dataclasses import replace
from html import unescape

import pytest

from dssm_tf.analysis.explanation import explain
from dssm_tf.analysis.rendering import markdown
from dssm_tf.analysis.report import report
from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.model.load_run import load_run
from dssm_tf.reports.markdown import html
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
    """The visible text of an HTML page."""
    return unescape(re.sub(r"<[^>]*>", "", page))


@pytest.mark.long
@pytest.mark.parametrize("name", [*TOWER_CONFIGS, "maxsim"])
def test_a_report_has_the_sections_of_its_tower(runs, name):
    page = html(report(runs(name), JUDGMENTS)[0])
    expected = ["Training", "How well it ranks", "Best queries, explained",
                "Worst queries, explained"]  # fmt: skip
    if name not in ("dssm", "clsm", "words", "maxsim"):
        expected.append("Topics of its cells")
    assert heads_of(page) == [*expected, "Configuration"]
    best, worst, *reversed_order = map(float, re.findall(r"<h3>.* ([\d.]+)</h3>", page))
    assert best >= worst
    assert reversed_order == [worst, best]  # two queries, each among the best and the worst
    assert "red <fox>" in text_of(page)
    assert "the query '?!' has no word" in text_of(page)
    assert ("Keywords are bold." in text_of(page)) == (name not in ("dssm", "words", "maxsim"))
    assert "These means are based on 2 queries, fewer than 200" in text_of(page)


def test_titles_and_queries_of_a_megabyte_make_a_small_report(runs):
    title, query = f"red fox {'x' * 10**6}", f"green bear {'y' * 10**6}"
    judgments = [
        *JUDGMENTS,
        Judgment("3", query, "d", title, 1.0),
        Judgment("3", query, "c", "green bear", 0.0),
    ]
    text = report(runs("dssm"), judgments)[0]
    assert f"**{title[:199]}…** (" in text
    assert f"### {query[:199]}…: NDCG@10 " in text
    assert len(text) < 60_000


def test_a_report_states_the_overlap_with_the_training_log_first(runs):
    # The log has the query "red fox" with the title "red fox", and no query without a word.
    section = report(runs("dssm"), JUDGMENTS)[0].partition("## How well it ranks")[2]
    counted = "has 1 of the 2 measured queries and 1 of the 2 relevant pairs"
    assert counted in section
    assert section.index(counted) < section.index("| Metric")
    assert re.search(r"NDCG@10\s+\|\s+[\d.]+†", section)


def test_a_report_without_judgments_has_no_metrics_and_shows_curves_of_a_second_run(
    runs, tmp_path, capsys
):
    arguments = ["--model", str(runs("rnn")), "--beside", f"other={runs('dssm')}"]
    assert main(["report", *arguments, "--out", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "report.html").read_text("utf-8")
    assert "How well it ranks" not in heads_of(page)
    assert "other" in text_of(page)
    assert str(tmp_path / "page" / "report.html") in capsys.readouterr().out.replace("\n", "")
    assert (
        main(["report", *arguments[:2], "--out", str(tmp_path / "page")]) == 1
    )  # the report exists


def test_a_report_compares_an_lstm_s_cells_with_an_rnn_s_as_in_tables_v_to_viii(runs, rankers):
    text, _ = report(runs("bilstm"), JUDGMENTS, beside={"plain": runs("rnn")})
    lstm, rnn = (explain(rankers(name), "red fox", "red fox") for name in ("bilstm", "rnn"))
    forwards, backwards = (reading.changed_cell_counts() for reading in lstm.query.readings)
    (neurons,) = (reading.changed_cell_counts() for reading in rnn.query.readings)
    assert forwards[0] is backwards[1] is neurons[0] is None
    section = markdown(lstm, [replace(rnn, name="plain")])
    assert section in text
    lines = section.splitlines()[:4]
    head, _, *rows = ([cell.strip() for cell in line.split("|")] for line in lines)
    assert head[5] == "cells changed of 4, right to left"
    assert head[9] == "plain: cells changed of 4, left to right"
    for row, counts in zip(rows, zip(forwards, backwards, neurons, strict=True), strict=True):
        expected = ["-" if count is None else str(count or "") for count in counts]
        assert [row[4], row[5], row[9]] == expected
    similarities = f"bilstm {lstm.similarity:.3f} (cosine), plain {rnn.similarity:.3f} (cosine)"
    assert f"- Without the prior: {similarities}." in section


def test_a_report_shows_a_model_with_the_score_maxsim_beside_one_with_vectors(runs, rankers):
    text, _ = report(runs("maxsim"), JUDGMENTS, beside={"plain": runs("dssm")})
    of_words = explain(load_run(runs("maxsim")), "red <fox>", "red fox")
    of_vectors = replace(explain(rankers("dssm"), "red <fox>", "red fox"), name="plain")
    section = markdown(of_words, [of_vectors])
    assert section in text
    assert "- 'red' is in the title" in section
    head = [cell.strip() for cell in section.splitlines()[0].split("|")[1:-1]]
    assert head == ["query", *of_words.query.columns(), "plain: adds", "plain: lost without"]
    similarities = (
        f"maxsim {of_words.similarity:.3f} (maxsim), plain {of_vectors.similarity:.3f} (cosine)"
    )
    assert f"- Without the prior: {similarities}." in section


def test_a_second_run_with_the_same_name_is_rejected(runs):
    with pytest.raises(UserError, match="--beside rnn: the reported run has this name"):
        report(runs("rnn"), beside={"rnn": runs("lstm")})
