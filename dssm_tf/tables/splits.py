"""Splits a log into rows for training and rows whose clicks become judgments."""

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
from dssm_tf.tables.times import TimeParser
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.stable_hash import hash_to_unit_interval

BENCHMARK_SPLIT = "benchmark"
"""Purpose of the queries that `split_by_query` holds out; see `is_held_out`."""


class Split(NamedTuple):
    """Rows for training, and rows whose clicks become judgments."""

    train: pl.DataFrame
    test: pl.DataFrame

    def summary(self) -> str:
        """The rows and clicks of both splits, in one line."""
        return "; ".join(
            f"{name}: {len(rows):,} rows with {rows['clicks'].sum():,} clicks"
            for name, rows in zip(("training", "test"), self, strict=True)
        )


def check_fractions(judge_later: float | None, hold_out_queries: float | None) -> None:
    """Raises UserError if both fractions are set."""
    if None not in (judge_later, hold_out_queries):
        raise UserError("received --judge-later and --hold-out-queries; expected one of them.")


def check_has_times(paths: Iterable[Path], layout: Layout) -> None:
    """Checks that logs have the timestamps that `split_by_time` needs, before reading them.

    Raises:
        UserError: a file has no column of timestamps.
    """
    for path in paths:
        with open_table(path, layout=layout) as table:
            if table.names and TIMESTAMP not in table.names:
                raise UserError(
                    f"{path} has no column {layout.name_in_file(TIMESTAMP)!r}, which --judge-later "
                    "needs; name it with --columns timestamp=NAME, or split the log by query: "
                    f"--hold-out-queries 0.2. It has the columns {table.listed_names}."
                )


def split_log(
    rows: pl.DataFrame, judge_later: float | None, hold_out_queries: float | None
) -> Split:
    """Splits by time or by query, whichever fraction is set; see `check_fractions`."""
    if judge_later is not None:
        return split_by_time(rows, judge_later)
    return split_by_query(rows, hold_out_queries or 0.0)


def split_by_time(rows: pl.DataFrame, fraction: float) -> Split:
    """Splits rows by time; rows of equal time are ordered by a hash of their texts.

    Args:
        rows: rows of the log.
        fraction: fraction of the rows, not of the clicks, that become the test split.

    Raises:
        UserError: a timestamp is missing, cannot be read or has another format than earlier ones.
            The message has file and line.
    """
    times = rows.unique("timestamp", keep="first", maintain_order=True)
    parse_time, parsed = TimeParser(), []
    for row in times.iter_rows(named=True):
        try:
            parsed.append(parse_time(row["timestamp"]))
        except UserError as error:
            location = f"{row[FILE]}:{row[LINE]}: " if FILE in row else ""
            raise UserError(
                f"{location}{str(error).rstrip('.')}, or split the log by query: "
                "--hold-out-queries."
            ) from None
    ranks = {time: rank for rank, time in enumerate(sorted({*parsed}))}
    times = times.select(
        "timestamp", time=pl.Series([ranks[time] for time in parsed], dtype=pl.Int64)
    )
    # A hash orders rows of equal time, because the order of a log may depend on clicks.
    texts = rows.select(pl.concat_str("query", "title", separator="\t")).to_series()
    ordered = (
        rows.with_columns(text=fingerprints(texts).reinterpret(signed=True))
        .join(times, on="timestamp", maintain_order="left")
        .sort("time", "text", *SCHEMA)
        .drop("time", "text")
    )
    train_rows = round(len(rows) * (1 - fraction))
    return Split(ordered[:train_rows], ordered[train_rows:])


def split_by_query(rows: pl.DataFrame, fraction: float) -> Split:
    """Splits rows by query: a fraction of the queries is held out, see `is_held_out`."""
    queries = rows["query"].unique()
    held_out = [query for query in queries if is_held_out(query, fraction, BENCHMARK_SPLIT)]
    return split_by_mask(rows, rows["query"].is_in(held_out))


def split_by_mask(rows: pl.DataFrame, test: pl.Series) -> Split:
    """Splits rows by a mask, which is True for the test split."""
    return Split(rows.filter(~test), rows.filter(test))


class ClickJudgments(NamedTuple):
    """Judgments derived from clicks.

    Args:
        judgments: ordered by query.
        corpus: the titles to rank.
        notes: sentences about clicks that could not be joined.
    """

    judgments: list[Judgment]
    corpus: Sequence[CorpusTitle]
    notes: list[str]


def derive_judgments(split: Split, corpus: Sequence[CorpusTitle] | None) -> ClickJudgments:
    """Derives judgments from clicks of the test split on titles of the corpus.

    A clicked title is looked up in the corpus by the `doc_id` of the log, else by its text, else by
    its normal form. The judgment has the id and the text of the corpus. Clicks on titles that the
    corpus lacks are left out.

    Args:
        split: split of a log.
        corpus: the titles to rank; None uses the titles of both splits, with the ids of the log.

    Raises:
        UserError: the training split is empty, or no click of the test split is on a title of the
            corpus.
    """
    if corpus is None:
        corpus = titles_of_log(pl.concat([rows.select(*SCHEMA) for rows in split]))
    titles = pl.DataFrame([*corpus], {"doc_id": pl.String, "title": pl.String}, orient="row")
    titles = titles.unique("doc_id", keep="first", maintain_order=True)
    titles = titles.rename({"doc_id": "id", "title": "text"})
    rows = join_corpus(split.test.select(*SCHEMA), titles)
    matched = rows.filter(col.id.is_not_null()).sort("query", "text", "id", *SCHEMA)
    judgments = judgments_from_clicks(
        matched.select("query", "id", col.clicks.cast(pl.Float64)).iter_rows(),
        FOLDED,
        dict(titles.iter_rows()),
    )
    notes = join_notes(rows)
    first_note = "".join(f": {note}" for note in notes[:1])
    if not (judgments and len(split.train)):
        raise UserError(
            f"the split has {len(split.train):,} rows for training and {len(split.test):,} for "
            f"judgments, {len(matched):,} of them with a title of the corpus; choose another "
            "fraction, or use the same doc_id or the same titles in the log and the corpus"
            f"{first_note}."
        )
    return ClickJudgments(judgments, corpus, notes)


def join_corpus(rows: pl.DataFrame, titles: pl.DataFrame) -> pl.DataFrame:
    """Adds the `id` and the `text` of each title in a corpus; null if the corpus lacks it."""
    stripped_id = pl.col("id").str.strip_chars()
    by_id = titles.select("id", doc_id=stripped_id).unique("doc_id", keep="first")
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


def join_notes(rows: pl.DataFrame, name: str = "test clicks") -> list[str]:
    """Sentences about clicks on titles that the corpus lacks or that it has with another text.

    Args:
        rows: rows of `join_corpus`.
        name: noun for the clicks in the sentences.
    """
    notes = []
    clicked = rows.filter(col.clicks > 0)
    unmatched = clicked.filter(col.id.is_null())
    if len(unmatched):
        notes.append(unmatched_note(unmatched, clicked, name))
    matched = clicked.filter(col.id.is_not_null() & (col.doc_id == col.id.str.strip_chars()))
    forms = matched.select(
        renamed=normal_forms(matched["title"], FOLDED) != normal_forms(matched["text"], FOLDED)
    )
    renamed = matched.filter(forms["renamed"])
    if len(renamed):
        row = renamed.row(0, named=True)
        notes.append(
            f"{renamed['clicks'].sum():,} {name} have another title in the corpus, which is "
            f"used: doc_id {row['doc_id']} is {row['title']!r} in the log and "
            f"{row['text']!r} in the corpus"
        )
    return notes


def unmatched_note(rows: pl.DataFrame, all_rows: pl.DataFrame, name: str) -> str:
    """A sentence about clicks on titles that a corpus lacks.

    Args:
        rows: the rows with these clicks; at least one.
        all_rows: all rows of the log.
        name: noun for the clicks in the sentence.
    """
    return (
        f"{rows['clicks'].sum():,} of {all_rows['clicks'].sum():,} {name} were left out: the "
        f"corpus has neither their doc_id nor their title, such as {_examples(rows)}"
    )


def _examples(rows: pl.DataFrame) -> str:
    """The three titles with most clicks, with their ids."""
    most = rows.group_by("title", "doc_id").agg(col.clicks.sum())
    most = most.sort("clicks", "title", "doc_id", descending=[True, False, False]).head(3)
    return ", ".join(
        f"{title!r}" + (f" (doc_id {doc_id})" if doc_id else "")
        for title, doc_id, _ in most.iter_rows()
    )


def titles_of_log(rows: pl.DataFrame) -> list[CorpusTitle]:
    """The titles of a log with its ids; of two titles with one id, the one with more clicks.

    Titles without an id are numbered in alphabetical order, because the order of the log may depend
    on clicks.
    """
    clicks = rows.group_by("doc_id", "title").agg(col.clicks.sum())
    with_id = clicks.filter(col.doc_id != "").sort(
        "doc_id", "clicks", "title", descending=[False, True, False]
    )
    titles_with_id = with_id.unique("doc_id", keep="first", maintain_order=True)
    titles_with_id = titles_with_id.select("doc_id", "title")
    without_id = clicks.filter(col.doc_id == "").select("title").unique()
    without_id = without_id.join(with_id.select("title").unique(), on="title", how="anti")
    used_ids = {*titles_with_id["doc_id"]}
    new_ids = (id for number in count(1) if (id := f"t{number:06d}") not in used_ids)
    numbered = [CorpusTitle(next(new_ids), title) for title in without_id["title"].sort()]
    with_log_id = map(CorpusTitle._make, titles_with_id.iter_rows())
    return sorted([*with_log_id, *numbered], key=lambda title: (title.title, title.doc_id))


def is_held_out(query: str, fraction: float, purpose: str) -> bool:
    """Whether a query is in the held-out fraction, by a hash of its normalized text.

    Args:
        query: the query of the log.
        fraction: held-out fraction of the queries, from 0 to 1.
        purpose: name of the split; splits with different names hold out different queries.
    """
    return hash_to_unit_interval(FOLDED.key(query), purpose) < fraction
