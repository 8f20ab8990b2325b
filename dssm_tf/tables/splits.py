"""A log in two: what is learnt from, and what judges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import polars as pl
from polars import col

from dssm_tf.common.errors import UserError
from dssm_tf.tables.batches import LINE
from dssm_tf.tables.click_log import FILE, SCHEMA, TIMESTAMP
from dssm_tf.tables.judgments import CorpusTitle, Judgment, judgments_from_clicks
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.read import open_table
from dssm_tf.tables.text_columns import fingerprints, normal_forms
from dssm_tf.tables.times import Clock
from dssm_tf.text.fingerprint import unit_interval
from dssm_tf.text.rules import FOLDED

HELD_OUT = "benchmark"
"""The purpose for which `split_by_query` holds out queries, see `is_held_out`."""


class Split(NamedTuple):
    """Rows to learn from, and rows to judge by."""

    train: pl.DataFrame
    test: pl.DataFrame

    def summary(self) -> str:
        """How much is learned from and how much judges, in one line."""
        return "; ".join(
            f"{part} {len(rows):,} rows with {rows['clicks'].sum():,} clicks"
            for part, rows in zip(("learned from", "judged by"), self, strict=True)
        )


def check_fractions(judge_later: float | None, hold_out_queries: float | None) -> None:
    """Raises UserError if both are given."""
    if None not in (judge_later, hold_out_queries):
        raise UserError("expected one of --judge-later, --hold-out-queries.")


def check_has_times(paths: Iterable[Path], layout: Layout) -> None:
    """Looks for the time stamps that `split_by_time` needs, before a log is read.

    Raises:
        UserError: a file has none.
    """
    for path in paths:
        with open_table(path, layout=layout) as table:
            if table.names and TIMESTAMP not in table.names:
                raise UserError(
                    f"{path} has no column {layout.name_in_file(TIMESTAMP)!r}, which --judge-later "
                    "needs; name it with --columns timestamp=NAME, or split the log by query: "
                    f"--hold-out-queries 0.2. It has the columns {table.listed}."
                )


def split_log(
    rows: pl.DataFrame, judge_later: float | None, hold_out_queries: float | None
) -> Split:
    """By time or by query, whichever fraction is given; see `check_fractions`."""
    if judge_later is not None:
        return split_by_time(rows, judge_later)
    return split_by_query(rows, hold_out_queries or 0.0)


def split_by_time(rows: pl.DataFrame, fraction: float) -> Split:
    """The earlier rows and the later fraction of them; rows of equal time by a hash of their texts.

    Args:
        rows: of the log.
        fraction: of the rows, however many clicks each stands for.

    Raises:
        UserError: naming file and line: a time stamp is missing or cannot be read, or they are of
            several kinds.
    """
    times = rows.unique("timestamp", keep="first", maintain_order=True)
    clock, order = Clock(), []
    for row in times.iter_rows(named=True):
        try:
            order.append(clock(row["timestamp"]))
        except UserError as error:
            location = f"{row[FILE]}:{row[LINE]}: " if FILE in row else ""
            raise UserError(
                f"{location}{str(error).rstrip('.')}, or split the log by query: "
                "--hold-out-queries."
            ) from None
    ranks = {time: rank for rank, time in enumerate(sorted({*order}))}
    times = times.select(
        "timestamp", time=pl.Series([ranks[time] for time in order], dtype=pl.Int64)
    )
    # Of equal time by a hash: a log's own order may say what was clicked most.
    texts = rows.select(pl.concat_str("query", "title", separator="\t")).to_series()
    ordered = (
        rows.with_columns(text=fingerprints(texts).reinterpret(signed=True))
        .join(times, on="timestamp", maintain_order="left")
        .sort("time", "text", *SCHEMA)
        .drop("time", "text")
    )
    cut = round(len(rows) * (1 - fraction))
    return Split(ordered[:cut], ordered[cut:])


def split_by_query(rows: pl.DataFrame, fraction: float) -> Split:
    """The rows of most queries, and those of a fraction of the queries, see `is_held_out`."""
    queries = rows["query"].unique()
    held_out = [query for query in queries if is_held_out(query, fraction, HELD_OUT)]
    return split_by_mask(rows, rows["query"].is_in(held_out))


def split_by_mask(rows: pl.DataFrame, test: pl.Series) -> Split:
    """The rows of which a mask does not hold, and those of which it does."""
    return Split(rows.filter(~test), rows.filter(test))


class ClickJudgments(NamedTuple):
    """Judgments made of clicks.

    Args:
        judgments: by query.
        corpus: the titles to rank.
        notes: what could not be joined, in sentences.
    """

    judgments: list[Judgment]
    corpus: Sequence[CorpusTitle]
    notes: list[str]


def judged_by_clicks(split: Split, corpus: Sequence[CorpusTitle] | None) -> ClickJudgments:
    """Judgments of clicks on titles of the corpus; other clicks judge nothing.

    A title is found in the corpus by the log's `doc_id`, else by its text, else by its text as
    models read it. It then has the corpus's id and text.

    Args:
        split: whose later part judges.
        corpus: the titles; None makes one of the titles of both parts, under the ids of the log.

    Raises:
        UserError: nothing is left to learn from, or no row to judge by has a click on a title of
            the corpus.
    """
    if corpus is None:
        corpus = _logged_titles(pl.concat([part.select(*SCHEMA) for part in split]))
    titles = pl.DataFrame([*corpus], {"doc_id": pl.String, "title": pl.String}, orient="row")
    titles = titles.unique("doc_id", keep="first", maintain_order=True)
    titles = titles.rename({"doc_id": "id", "title": "text"})
    rows = _joined(split.test.select(*SCHEMA), titles)
    known = rows.filter(col.id.is_not_null()).sort("query", "text", "id", *SCHEMA)
    judgments = judgments_from_clicks(
        known.select("query", "id", col.clicks.cast(pl.Float64)).iter_rows(),
        FOLDED,
        dict(titles.iter_rows()),
    )
    notes = _notes(rows)
    more = "".join(f": {note}" for note in notes[:1])
    if not (judgments and len(split.train)):
        raise UserError(
            f"{len(split.train):,} rows are left to learn from and {len(split.test):,} to "
            f"judge by, {len(known):,} of them with a title of the corpus; choose another "
            f"fraction, or use the same doc_id or the same titles in both{more}."
        )
    return ClickJudgments(judgments, corpus, notes)


def _joined(rows: pl.DataFrame, titles: pl.DataFrame) -> pl.DataFrame:
    """Rows with the `id` and the `text` of their title in a corpus, null where it has none."""
    strip = pl.col("id").str.strip_chars()
    by_id = titles.select("id", doc_id=strip).unique("doc_id", keep="first")
    by_text = titles.select("id", title="text").unique("title", keep="first", maintain_order=True)
    forms = normal_forms(titles["text"], FOLDED)
    by_form = titles.select("id", form=forms).filter(col.form != "").unique("form", keep="first")
    distinct = rows.select("title").unique()
    distinct = (
        distinct.with_columns(form=normal_forms(distinct["title"], FOLDED))
        .join(by_text, on="title", how="left")
        .join(by_form, on="form", how="left", suffix="_by_form")
        .select("title", by_title=pl.coalesce("id", "id_by_form"))
    )
    return (
        rows.join(by_id, on="doc_id", how="left")
        .join(distinct, on="title", how="left")
        .with_columns(id=pl.coalesce("id", "by_title"))
        .drop("by_title")
        .join(titles, on="id", how="left")
    )


def _notes(rows: pl.DataFrame) -> list[str]:
    """What the clicks of joined rows lost, and what they are under another title."""
    notes = []
    clicked = rows.filter(col.clicks > 0)
    unknown = clicked.filter(col.id.is_null())
    if len(unknown):
        notes.append(
            f"{unknown['clicks'].sum():,} of {clicked['clicks'].sum():,} clicks to judge by were "
            f"left out: the corpus has neither their doc_id nor their title, such as "
            f"{_examples(unknown)}"
        )
    known = clicked.filter(col.id.is_not_null() & (col.doc_id == col.id.str.strip_chars()))
    forms = known.select(
        renamed=normal_forms(known["title"], FOLDED) != normal_forms(known["text"], FOLDED)
    )
    renamed = known.filter(forms["renamed"])
    if len(renamed):
        row = renamed.row(0, named=True)
        notes.append(
            f"{renamed['clicks'].sum():,} clicks to judge by have another title in the corpus, "
            f"which counts: doc_id {row['doc_id']} is {row['title']!r} in the log and "
            f"{row['text']!r} in the corpus"
        )
    return notes


def _examples(rows: pl.DataFrame) -> str:
    """The titles with most clicks, and their ids."""
    most = rows.group_by("title", "doc_id").agg(col.clicks.sum())
    most = most.sort("clicks", "title", "doc_id", descending=[True, False, False]).head(3)
    return ", ".join(
        f"{title!r}" + (f" (doc_id {doc_id})" if doc_id else "")
        for title, doc_id, _ in most.iter_rows()
    )


def _logged_titles(rows: pl.DataFrame) -> list[CorpusTitle]:
    """The titles of a log under its ids; an id with two titles has the one with most clicks.

    Ids that have to be made follow the alphabet, not the log, whose order may tell what was
    clicked most.
    """
    clicks = rows.group_by("doc_id", "title").agg(col.clicks.sum())
    with_id = clicks.filter(col.doc_id != "").sort(
        "doc_id", "clicks", "title", descending=[False, True, False]
    )
    named = with_id.unique("doc_id", keep="first", maintain_order=True).select("doc_id", "title")
    without = clicks.filter(col.doc_id == "").select("title").unique().sort("title")
    without = without.join(with_id.select("title").unique(), on="title", how="anti").sort("title")
    numbers = (f"t{number:06d}" for number in count(1))
    taken = {*named["doc_id"]}
    free = (id for id in numbers if id not in taken)
    unnamed = [CorpusTitle(next(free), title) for title in without["title"]]
    known = map(CorpusTitle._make, named.iter_rows())
    return sorted([*known, *unnamed], key=lambda title: (title.title, title.doc_id))


def is_held_out(query: str, fraction: float, purpose: str) -> bool:
    """Whether a query is in the held-out fraction: by its normalised text, the same in every run.

    Args:
        query: as logged.
        fraction: from 0 to 1.
        purpose: why queries are held out; two purposes hold out different queries.
    """
    return unit_interval(FOLDED.key(query), purpose) < fraction
