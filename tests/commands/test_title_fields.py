"""Titles joined from several columns, in evaluations, reports and exports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dssm_tf.cli import main
from dssm_tf.commands.export import export_model
from dssm_tf.commands.flags import TableFlags
from dssm_tf.common.errors import UserError
from tests.clicks import click_log, write_data
from tests.runs import finished_run

JUDGMENTS = (
    "query_id\tsearch_term\tdoc_id\tproduct\tbrand\tgrade\n"
    "q1\tsony\td2\tlamp\tsony\t1\nq2\tlamp\td1\tlamp\tapple\t1\n"
)
CORPUS = "doc_id\tproduct\tbrand\nd1\tlamp\tapple\nd2\tlamp\tsony\nd3\tphone\tnokia\n"
CUSTOM_TABLES = TableFlags(title_fields="title,brand", columns="query=search_term,title=product")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose titles are joined from two columns."""
    folder = tmp_path_factory.mktemp("fields")
    data = write_data(folder / "data", click_log())
    replace(data.spec, title_fields=("product", "brand")).save(data.path)
    return finished_run(folder / "run", data, {"tower": {"name": "dssm", "widths": [4]}})


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    """Writes judgments and a corpus to the working directory of the command."""
    monkeypatch.chdir(tmp_path)
    Path("j.tsv").write_text(JUDGMENTS, "utf-8")
    Path("c.tsv").write_text(CORPUS, "utf-8")


def test_bm25_reads_custom_fields_and_columns_in_corpus_and_judgments(evaluate):
    evaluation = evaluate(corpus="c.tsv", tables=CUSTOM_TABLES)
    assert evaluation.values["bm25"]["ndcg@1"][evaluation.task.queries.index("sony")] == 1
    assert "lamp␟sony" in evaluation.task.titles


def test_judgments_without_a_field_are_refused(evaluate):
    with pytest.raises(UserError, match="missing: size"):
        evaluate(tables=replace(CUSTOM_TABLES, title_fields="title,size"))


@pytest.mark.parametrize("corpus", ["", "--corpus c.tsv"])
def test_a_report_reads_the_title_fields_of_the_run(run, corpus):
    """It once read the column `title` instead, and the metrics were wrong."""
    Path("j.tsv").write_text(JUDGMENTS.replace("search_term", "query"), "utf-8")
    assert main(f"report --model {run} --judgments j.tsv {corpus} --out page".split()) == 0
    assert "lamp␟sony" in Path("page/report.md").read_text("utf-8")


@pytest.mark.parametrize("kind", ["run", "saved_model", "compact"])
def test_the_default_title_fields_are_those_of_the_first_model(run, tmp_path, kind):
    model, other = run, tmp_path / "other"
    if kind != "run":
        model = tmp_path / kind
        export_model(model=run, out=model, format=kind)
    card = (run / "MODEL_CARD.md").read_text("utf-8")
    assert "| a title is | `product␟brand`, fields separated by U+241F |" in card
    assert TableFlags().layout(other, model).title_fields == ("product", "brand")
    assert TableFlags(title_fields="name").layout(model).title_fields == ("name",)
    assert TableFlags().layout(other).title_fields == ("title",)
