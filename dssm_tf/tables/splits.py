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
    """Rows to learn from, rows to judge by, and the times of both, first and last, if known."""

    learned: list[LogRow]
    judging: list[LogRow]
    learned_times: str = ""
    judging_times: str = ""

    def in_words(self) -> str:
        """How much is learned from and how much judges, in one line."""
        return "; ".join(
            f"{part} {len(rows):,} rows with {sum(row.clicks for row in rows):,} clicks{times}"
            for part, rows, times in (
                ("learned from", self.learned, self.learned_times),
                ("judged by", self.judging, self.judging_times),
            )
        )


def split_by_time(rows: Sequence[LogRow], share: float, time_format: str | None = None) -> Split:
    """The earlier rows and the later share of them; rows of equal time by a hash of their texts.

    Args:
        rows: of the log.
        share: from 0 to 1.
        time_format: of the time stamps, see `Clock`.

    Raises:
        UserError: time stamps are missing, cannot be read or are of several kinds, or nothing is
            left on one side.
    """
    missing = sum(not row.timestamp for row in rows)
    if missing:
        raise UserError(
            f"--judge-later: {missing:,} of {len(rows):,} rows have no timestamp; give every row "
            "one, such as 2024-01-31 12:00 or 1706702400."
        )
    times = Clock(time_format).all(row.timestamp for row in rows)
    order = sorted(range(len(rows)), key=lambda at: (times[at], *_hashed(rows[at])))
    cut = round(len(rows) * (1 - share))
    split = Split([rows[at] for at in order[:cut]], [rows[at] for at in order[cut:]])
    _both_sides(split, f"--judge-later {share:g}")
    learned, judging = (f", {part[0].timestamp} to {part[-1].timestamp}" for part in split[:2])
    return split._replace(learned_times=learned, judging_times=judging)


def _hashed(row: LogRow) -> tuple[int, LogRow]:
    """What rows of equal time are sorted by: a log's own order may say what was clicked most."""
    return fingerprint64(f"{row.query}\t{row.title}"), row


def split_by_query(rows: Sequence[LogRow], share: float) -> Split:
    """The rows of most queries, and those of a share of the queries, see `is_held_out`.

    Raises:
        UserError: nothing is left on one side.
    """
    held_out = cache(lambda query: is_held_out(query, share, HELD_OUT))
    split = Split(
        [row for row in rows if not held_out(row.query)],
        [row for row in rows if held_out(row.query)],
    )
    return _both_sides(split, f"--hold-out-queries {share:g}")


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
        UserError: no row has a click on a title of the corpus.
    """
    if corpus is None:
        texts = sorted({row.title for rows in split[:2] for row in rows})
        corpus = [CorpusTitle(f"t{n:06d}", title) for n, title in enumerate(texts, start=1)]
    ids = {one.title: one.doc_id for one in reversed(corpus)}
    known = sorted(row for row in split.judging if row.title in ids)
    judgments = judgments_from_clicks(
        ((row.query, row.title, float(row.clicks)) for row in known), FOLDED, ids
    )
    if not judgments:
        raise UserError(
            f"none of the {len(split.judging):,} rows to judge by clicks a title of the corpus; "
            "use the same titles in both."
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


def _both_sides(split: Split, option: str) -> Split:
    if not split.learned or not split.judging:
        raise UserError(
            f"{option}: {len(split.learned):,} rows are left to learn from and "
            f"{len(split.judging):,} to judge by; choose another share."
        )
    return split
