"""A log in two: what is learnt from, and what is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import LogRow
from dssm_tf.text.fingerprint import fingerprint64, unit_interval
from dssm_tf.text.normalize import normalize


def split_by_time(rows: Sequence[LogRow], share: float) -> tuple[list[LogRow], list[LogRow]]:
    """The earlier rows and the later share of them; rows of equal time by a hash of their texts.

    Raises:
        UserError: the log has no time stamps, or nothing is left on one side.
    """
    missing = sum(not row.timestamp for row in rows)
    if missing:
        raise UserError(
            f"--judge-later: {missing:,} of {len(rows):,} rows have no timestamp; give every row "
            "one (a number, or text such as 2024-01-31 12:00 that sorts by time)."
        )
    times: Sequence[Any] = [row.timestamp for row in rows]
    with suppress(ValueError):  # dates, which sort as text
        times = [float(time) for time in times]
    order = sorted(range(len(rows)), key=lambda at: (times[at], *_hashed(rows[at])))
    cut = round(len(rows) * (1 - share))
    if not 0 < cut < len(rows):
        raise UserError(
            f"--judge-later {share:g}: of {len(rows):,} rows {cut:,} are left to learn from and "
            f"{len(rows) - cut:,} to judge by; choose another share."
        )
    ordered = [rows[place] for place in order]
    return ordered[:cut], ordered[cut:]


def _hashed(row: LogRow) -> tuple[int, LogRow]:
    """What rows of equal time are sorted by: a log's own order may say what was clicked most."""
    return fingerprint64(f"{row.query}\t{row.title}"), row


def is_held_out(query: str, share: float, purpose: str) -> bool:
    """Whether a query is in the held-out share: by its normalised text, the same in every run.

    Args:
        query: as logged.
        share: from 0 to 1.
        purpose: whose shares they are; two purposes hold out different queries.
    """
    return unit_interval(normalize(query), purpose) < share
