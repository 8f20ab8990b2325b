"""`dssm report`: the page of a run, for every tower."""

import re
from dataclasses import replace
from html import unescape

import pytest

from dssm_tf.analysis.explanation import explain
from dssm_tf.analysis.report import report as inside
from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.common.markdown import html
from dssm_tf.tables.judgments import Judgment
from dssm_tf.towers import TOWERS
from tests.choices import small
from tests.clicks import click_log, write_data
from tests.runs import finished_run

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


@pytest.mark.parametrize("name", TOWERS)
def test_a_run_s_page_has_what_its_tower_can_show(runs, name):
    page = html(inside(runs(name), JUDGMENTS)[0])
    expected = ["Training", "How well it ranks", "Best queries, explained",
                "Worst queries, explained"]  # fmt: skip
    if name not in ("dssm", "clsm"):
        expected.append("What its cells stand for")
    assert heads_of(page) == [*expected, "Configuration"]
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
    page = text_of(html(text))
    for head in ("cells moved of 4, right to left", "plain: cells moved of 4, left to right"):
        assert head in page
    for place, word in enumerate(["red", "fox"]):
        moved = [forwards[place], backwards[place], neurons[place]]
        said = ["-" if count is None else str(count or "") for count in moved]
        row = next(line for line in page.split("\n\n\n") if line.split()[:1] == [word])
        assert [one for one in said if one] == [one for one in row.split() if one in said][-3:]
    scores = f"Cosine: bilstm {found[0].cosine:.3f}, plain {found[1].cosine:.3f}."
    assert scores in page
    assert found[0].parts() in page


def test_a_run_beside_needs_a_name_of_its_own(runs):
    with pytest.raises(UserError, match="--beside rnn: the run itself is called so"):
        inside(runs("rnn"), beside={"rnn": runs("lstm")})


@pytest.mark.parametrize("corpus", [None, "corpus.tsv"])
def test_titles_are_read_from_the_columns_that_the_run_learned_from(tmp_path, corpus):
    """Once by the column `title`, whatever the run learned from: a wrong figure, silently."""
    data = write_data(tmp_path / "data", click_log())
    replace(data.spec, title_fields=("name", "brand")).save(data.path)
    tower = {"name": "dssm", **small(TOWERS["dssm"])}
    run = finished_run(tmp_path / "run", data, {"tower": tower})
    (tmp_path / "corpus.tsv").write_text(
        "doc_id\tname\tbrand\na\tred fox\tacme\nb\tblue owl\tbolt\n"
    )
    (tmp_path / "judgments.tsv").write_text(
        "query_id\tquery\tdoc_id\tname\tbrand\tgrade\n"
        "1\tred\ta\tred fox\tacme\t1\n1\tred\tb\tblue owl\tbolt\t0\n"
    )
    flags = ["--model", str(run), "--judgments", str(tmp_path / "judgments.tsv")]
    flags += ["--corpus", str(tmp_path / "corpus.tsv")] if corpus else []
    assert main(["report", *flags, "--out", str(tmp_path / "page")]) == 0
    assert "red fox␟acme" in (tmp_path / "page" / "report.md").read_text("utf-8")
