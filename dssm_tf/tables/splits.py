"""A log in two: what is learnt from, and what judges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import LogRow
from dssm_tf.tables.judgments import CorpusTitle, Judgment, judgments_from_clicks
from dssm_tf.tables.times import Clock
from dssm_tf.text.fingerprint import fingerprint64, unit_interval
from dssm_tf.text.rules import FOLDED

HELD_OUT = "benchmark"
"""Whose shares of queries `split_by_query` holds out, see `is_held_out`."""


class Split(NamedTuple):
    """Rows to learn from, and rows to judge by."""

    learned: list[LogRow]
    judging: list[LogRow]

    def in_words(self) -> str:
        """How much is learned from and how much judges, in one line."""
        return "; ".join(
            f"{part} {len(rows):,} rows with {sum(row.clicks for row in rows):,} clicks"
            for part, rows in zip(("learned from", "judged by"), self, strict=True)
        )


def check_shares(judge_later: float | None, hold_out_queries: float | None) -> None:
    """Raises UserError if both are given."""
    if None not in (judge_later, hold_out_queries):
        raise UserError("expected one of --judge-later, --hold-out-queries.")


def split_log(
    rows: Sequence[LogRow], judge_later: float | None, hold_out_queries: float | None
) -> Split:
    """By time or by query, whichever share is given; see `check_shares`."""
    if judge_later is not None:
        return split_by_time(rows, judge_later)
    return split_by_query(rows, hold_out_queries or 0.0)


def split_by_time(rows: Sequence[LogRow], share: float) -> Split:
    """The earlier rows and the later share of them; rows of equal time by a hash of their texts.

    Args:
        rows: of the log.
        share: from 0 to 1.

    Raises:
        UserError: a time stamp is missing or cannot be read, or they are of several kinds.
    """
    clock = Clock()
    # Of equal time by a hash: a log's own order may say what was clicked most.
    ordered = sorted(
        rows,
        key=lambda row: (clock(row.timestamp), fingerprint64(f"{row.query}\t{row.title}"), row),
    )
    cut = round(len(rows) * (1 - share))
    return Split(ordered[:cut], ordered[cut:])


def split_by_query(rows: Sequence[LogRow], share: float) -> Split:
    """The rows of most queries, and those of a share of the queries, see `is_held_out`."""
    held_out = cache(lambda query: is_held_out(query, share, HELD_OUT))
    return Split(
        [row for row in rows if not held_out(row.query)],
        [row for row in rows if held_out(row.query)],
    )


def judged_by_clicks(
    split: Split, corpus: Sequence[CorpusTitle] | None
) -> tuple[list[Judgment], Sequence[CorpusTitle]]:
    """Judgments of clicks on titles of the corpus; other clicks judge nothing.

    Args:
        split: whose later part judges.
        corpus: the titles; None makes one of the titles of both parts.

    Returns:
        The judgments and the corpus. Ids that are made follow the alphabet, not the log, whose
        order may tell what was clicked most.

    Raises:
        UserError: nothing is left to learn from, or no row to judge by has a click on a title of
            the corpus.
    """
    if corpus is None:
        texts = sorted({row.title for rows in split for row in rows})
        corpus = [CorpusTitle(f"t{n:06d}", title) for n, title in enumerate(texts, start=1)]
    ids = {one.title: one.doc_id for one in reversed(corpus)}
    known = sorted(row for row in split.judging if row.title in ids)
    judgments = judgments_from_clicks(
        ((row.query, row.title, float(row.clicks)) for row in known), FOLDED, ids
    )
    if not (judgments and split.learned):
        raise UserError(
            f"{len(split.learned):,} rows are left to learn from and {len(split.judging):,} to "
            f"judge by, {len(known):,} of them with a title of the corpus; choose another share, "
            "or use the same titles in both."
        )
    return judgments, corpus


def is_held_out(query: str, share: float, purpose: str) -> bool:
    """Whether a query is in the held-out share: by its normalised text, the same in every run.

    Args:
        query: as logged.
        share: from 0 to 1.
        purpose: whose shares they are; two purposes hold out different queries.
    """
    return unit_interval(FOLDED.key(query), purpose) < share
