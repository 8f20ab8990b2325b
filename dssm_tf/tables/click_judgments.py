"""Judgments from all clicks of a log, for other tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import SCHEMA
from dssm_tf.tables.judgments import CorpusTitle, Judgment, judgments_from_clicks
from dssm_tf.tables.splits import join_corpus, join_notes, titles_of_log
from dssm_tf.tables.text_columns import normal_forms
from dssm_tf.text.rules import FOLDED, Key

RULE = (
    "grade 3 for the most clicked title of a query, 2 for at least half of its clicks, 1 for any "
    "other clicked title, 0 for a title that was displayed often and never clicked"
)
"""The grades, in words."""


class LogJudgments(NamedTuple):
    """Judgments of a log.

    Attributes:
        judgments: sorted by query id, then by grade, best first, then by doc id.
        notes: sentences about clicks and queries that were left out.
    """

    judgments: list[Judgment]
    notes: list[str]


def judge_log(
    rows: pl.DataFrame,
    corpus: Sequence[CorpusTitle] | None,
    *,
    weights: NDArray[np.float64] | None = None,
    min_clicks: int = 1,
    min_impressions: int = 10,
) -> LogJudgments:
    """Grades the titles of a log by their clicks, see `RULE`.

    A click at a position that users examine with probability p counts 1/p, and an impression there
    counts p, the expected number of users who have examined the title. Clicked titles are graded by
    `judgments_from_clicks`. A title without clicks has grade 0 if its impressions sum up to
    `min_impressions`. Other titles have no judgment.

    Args:
        rows: rows of the log.
        corpus: the titles; clicks are joined as in `derive_judgments`. None uses the titles of the
            log with its doc ids.
        weights: 1/p of each row, `(rows,)`; None counts each click and impression once.
        min_clicks: queries with fewer clicks are left out.
        min_impressions: minimum impressions of a title of grade 0.

    Raises:
        UserError: there is neither a corpus nor a `doc_id` for each title, or no judgment is left.
    """
    if corpus is None:
        corpus = _titles_with_ids(rows)
    titles = pl.DataFrame([*corpus], {"doc_id": pl.String, "title": pl.String}, orient="row")
    titles = titles.unique("doc_id", keep="first", maintain_order=True)
    titles = titles.rename({"doc_id": "id", "title": "text"})
    weight = np.ones(len(rows)) if weights is None else weights
    # A row without clicks is one impression, if the log does not count them.
    impressions = pl.max_horizontal("impressions", col.clicks == 0)
    weighted = rows.select(*SCHEMA).with_columns(
        weighted_clicks=col.clicks * pl.lit(weight), examined=impressions / pl.lit(weight)
    )
    joined = join_corpus(weighted, titles)
    notes = join_notes(joined, "clicks")
    joined = joined.filter(col.id.is_not_null())
    forms = normal_forms(joined["query"], FOLDED)
    joined = joined.with_columns(form=forms).filter(col.form != "")
    joined = joined.sort("form", "query", "id", *SCHEMA)
    clicks_of_query = col.clicks.sum().over("form")
    rare = joined.filter((clicks_of_query > 0) & (clicks_of_query < min_clicks))["form"].n_unique()
    if rare:
        notes.append(f"{rare:,} queries with fewer than {min_clicks} clicks were left out")
    frequent = joined.filter(clicks_of_query >= max(1, min_clicks))
    texts: dict[str, str] = dict(titles.iter_rows())
    clicked = judgments_from_clicks(
        frequent.select("query", "id", "weighted_clicks").iter_rows(), FOLDED, texts
    )
    if not clicked:
        raise UserError(
            f"the log has no query with {max(1, min_clicks)} clicks on titles of the corpus; use "
            "the same doc_id or the same titles in the log and the corpus, or a smaller "
            f"--min-clicks{''.join(f': {note}' for note in notes[:1])}."
        )
    judgments = [*clicked, *_judge_unclicked(frequent, clicked, texts, min_impressions)]
    judgments.sort(key=lambda row: (row.query_id, -row.grade, row.doc_id))
    return LogJudgments(judgments, notes)


def _judge_unclicked(
    rows: pl.DataFrame, clicked: Sequence[Judgment], texts: dict[str, str], min_impressions: int
) -> list[Judgment]:
    """Judgments of grade 0, of titles that users examined and did not click."""
    queries: dict[Key, Judgment] = {FOLDED.key(row.query): row for row in clicked}
    pairs = rows.group_by("form", "id").agg(
        col.query.first(), col.clicks.sum(), col.examined.sum()
    )  # fmt: skip
    # Sums of reciprocals are rounded: ten times 1/3 and so on must reach a whole number.
    unclicked = pairs.filter((col.clicks == 0) & (col.examined >= min_impressions - 1e-9))
    return [
        Judgment(judged.query_id, judged.query, doc_id, texts[doc_id], 0.0)
        for query, doc_id in unclicked.select("query", "id").iter_rows()
        if (judged := queries.get(FOLDED.key(query)))
    ]


def _titles_with_ids(rows: pl.DataFrame) -> list[CorpusTitle]:
    """The titles of a log with its ids.

    Raises:
        UserError: a title has no id.
    """
    titles = titles_of_log(rows.select(*SCHEMA))
    ids = {*rows["doc_id"].unique()}
    without_id = [title for title in titles if title.doc_id not in ids]
    if without_id:
        raise UserError(
            f"{len(without_id):,} titles of the log have no doc_id, such as "
            f"{without_id[0].title!r}; other tools find documents by their id. Give --corpus, a "
            "table with doc_id and title, or name the column: --columns doc_id=NAME."
        )
    return titles
