"""Titles of several columns, in what ranks and measures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dssm_tf.commands.export import export
from dssm_tf.commands.flags import Tables
from dssm_tf.common.errors import UserError
from tests.clicks import click_log, write_data
from tests.runs import finished_run

JUDGMENTS = "query_id\tquery\tdoc_id\ttitle\tgrade\nq1\tsony\td2\tlamp\t1\nq2\tlamp\td1\tlamp\t1\n"
CORPUS = "doc_id\ttitle\tbrand\nd1\tlamp\tapple\nd2\tlamp\tsony\nd3\tphone\tnokia\n"
FIELDS = Tables(title_fields="title,brand")


def test_bm25_reads_the_fields_of_the_corpus_and_of_judgments(evaluate):
    judgments = JUDGMENTS.replace("title", "title\tbrand").replace("d2\tlamp", "d2\tlamp\tsony")
    Path("j.tsv").write_text(judgments.replace("d1\tlamp", "d1\tlamp\tapple"), "utf-8")
    Path("c.tsv").write_text(CORPUS, "utf-8")
    found = evaluate(corpus="c.tsv", tables=FIELDS)
    assert found.values["bm25"]["ndcg@1"][found.task.queries.index("sony")] == 1
    assert "lamp␟sony" in found.task.titles


def test_columns_of_ones_own_are_read_in_judgments_and_corpus(evaluate):
    written = []
    for columns, query, title in (
        ("", "query", "title"),
        ("query=search_term,title=product", "search_term", "product"),
    ):
        _, rows = JUDGMENTS.split("\n", 1)
        Path("j.tsv").write_text(f"query_id\t{query}\tdoc_id\t{title}\tgrade\n{rows}", "utf-8")
        Path("c.tsv").write_text(f"doc_id\t{title}\nd1\tlamp\n", "utf-8")
        evaluate(corpus="c.tsv", out=title, tables=Tables(columns=columns))
        written.append(Path(title, "per_query.tsv").read_text("utf-8"))
    assert written[0] == written[1]


def test_a_corpus_without_a_field_is_refused(evaluate):
    Path("j.tsv").write_text(JUDGMENTS, "utf-8")
    with pytest.raises(UserError, match="missing: brand"):
        evaluate(tables=FIELDS)


@pytest.mark.parametrize("kind", ["run", "export", "compact"])
def test_titles_are_made_of_the_columns_that_the_model_learned_from(tmp_path, kind):
    data = write_data(tmp_path / "data", click_log())
    replace(data.spec, title_fields=("title", "brand")).save(data.path)
    model = finished_run(tmp_path / "run", data, {"tower": {"name": "dssm", "widths": [4]}})
    if kind != "run":
        model = tmp_path / kind
        export(model=tmp_path / "run", out=model, format={"export": "saved_model"}.get(kind, kind))
    card = (tmp_path / "run" / "MODEL_CARD.md").read_text("utf-8")
    assert "| a title is | `title␟brand`, fields with U+241F between |" in card
    other = tmp_path / "other"
    assert Tables().layout(other, model).title_fields == ("title", "brand")
    assert Tables(title_fields="name").layout(model).title_fields == ("name",)
    assert Tables().layout(other).title_fields == ("title",)
