"""Counts good and malformed rows of a log, and refuses a log with too many malformed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.layout import Reject

MAX_REJECTED = 0.1
"""Default of the fraction of rows or clicks that may be malformed."""
_MAX_EXAMPLES = 3
_MAX_EXAMPLE = 120  # characters


class RejectedFractions(NamedTuple):
    """The fractions of the rows and of the clicks that are bad."""

    rows: float
    clicks: float


@dataclass
class Tally:
    """Counts of the good and the malformed rows of a log, and of their clicks.

    A malformed row without a readable number of clicks counts as the largest number of clicks of a
    row.

    Args:
        good_rows: number of good rows.
        good_clicks: clicks of the good rows.
        most_clicks: maximum clicks of a row, good or bad.
        rejected_known_clicks: clicks of the bad rows whose clicks can be read.
        rejected_unknown: number of bad rows whose clicks cannot be read.
        reasons: number of bad rows by reason.
        largest: the bad rows with most clicks, each with its file; ties go to the first.
        examples: the first bad row of each reason, with its file.
    """

    good_rows: int = 0
    good_clicks: int = 0
    most_clicks: int = 0
    rejected_known_clicks: int = 0
    rejected_unknown: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    largest: list[tuple[str, Reject]] = field(default_factory=list)
    examples: dict[str, tuple[str, Reject]] = field(default_factory=dict)

    def add(self, rows: int, clicks: int, most_clicks: int) -> None:
        """Counts good rows, their clicks, and the maximum clicks of one row."""
        self.good_rows += rows
        self.good_clicks += clicks
        self.most_clicks = max(self.most_clicks, most_clicks)

    def reject(self, file: str, rows: Iterable[Reject]) -> None:
        """Counts bad rows of a file."""
        rows = [*rows]
        for row in rows:
            self.reasons[row.reason] += 1
            self.examples.setdefault(row.reason, (file, row))
            self.rejected_unknown += row.clicks is None
            self.rejected_known_clicks += row.clicks or 0
            self.most_clicks = max(self.most_clicks, row.clicks or 0)
        candidates = [*self.largest, *((file, row) for row in rows)]
        self.largest = nlargest(_MAX_EXAMPLES, candidates, _sort_key)

    @property
    def rows(self) -> int:
        """Number of good and bad rows."""
        return self.good_rows + self.rejected

    @property
    def clicks(self) -> int:
        """Clicks of all rows."""
        return self.good_clicks + self.rejected_clicks

    @property
    def rejected(self) -> int:
        """Number of bad rows."""
        return self.reasons.total()

    @property
    def rejected_clicks(self) -> int:
        """Clicks of bad rows."""
        return self.rejected_known_clicks + self.rejected_unknown * max(self.most_clicks, 1)

    @property
    def rejected_fractions(self) -> RejectedFractions:
        """The fractions of the rows and of the clicks that are bad."""
        return RejectedFractions(
            self.rejected / (self.rows or 1), self.rejected_clicks / (self.clicks or 1)
        )

    def check_reject_fraction(self, limit: float) -> None:
        """Checks the fraction of bad rows and clicks.

        Args:
            limit: maximum fraction of rows, and of clicks, that may be bad.

        Raises:
            UserError: the fraction is larger; the message has counts, reasons and the largest
                bad rows.
        """
        if max(self.rejected_fractions) > limit:
            reasons, *examples = self.lines()
            raise UserError(
                f"{self.rejected:,} of {self.rows:,} rows are malformed, with "
                f"{self.rejected_clicks:,} of {self.clicks:,} clicks; the limit is {limit:.1%}. "
                f"{reasons}; {'; '.join(examples)}. Fix the file, give its --encoding, such as "
                "cp1252, or raise --max-reject-fraction where a command has it."
            )

    def lines(self) -> list[str]:
        """Lines about the bad rows for the terminal; none without bad rows."""
        if not self.rejected:
            return []
        rows, clicks = self.rejected_fractions
        counts = self.reasons.most_common()
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in counts)
        examples = "; ".join(
            f"{file}:{row.line}: {row.text.strip()[:_MAX_EXAMPLE]}" for file, row in self.largest
        )
        lines = [
            f"rejected: {reasons} ({rows:.1%} of the rows, {clicks:.1%} of the clicks)",
            f"the largest: {examples}",
        ]
        if self.rejected_unknown and self.most_clicks > 1:
            lines.append(
                f"{self.rejected_unknown:,} of them have no readable number of clicks and "
                f"count as {self.most_clicks:,} each, the maximum of a row"
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The counts for `report.json`."""
        return {
            "in": self.rows,
            "rejected": dict(self.reasons),
            "clicks": self.clicks,
            "rejected_clicks": self.rejected_clicks,
        }


def _sort_key(example: tuple[str, Reject]) -> float:
    """Sort key: the clicks of a row, infinite if they cannot be read."""
    clicks = example[1].clicks
    return float("inf") if clicks is None else clicks
