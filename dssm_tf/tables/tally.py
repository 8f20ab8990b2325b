"""Counts good and malformed rows of a log, and refuses a log with too many malformed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.tables.layout import Reject

MAX_REJECTED = 0.1
"""Default of the fraction of rows or clicks that may be malformed."""
_EXAMPLES = 3
_EXAMPLE_TEXT = 120


@dataclass
class Tally:
    """Counts of the good and the malformed rows of a log, and of their clicks.

    A malformed row whose clicks cannot be read counts as many clicks as the row with most.

    Args:
        good_rows: number of good rows.
        good_clicks: clicks of the good rows.
        most_clicks: maximum clicks of a row, good or bad.
        known_lost: clicks of the bad rows whose clicks can be read.
        unknown: number of bad rows whose clicks cannot be read.
        reasons: number of bad rows by reason.
        largest: the bad rows with most clicks, in case of ties the first, each with its file.
        examples: the first bad row of each reason, with its file.
    """

    good_rows: int = 0
    good_clicks: int = 0
    most_clicks: int = 0
    known_lost: int = 0
    unknown: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    largest: list[tuple[str, Reject]] = field(default_factory=list)
    examples: dict[str, tuple[str, Reject]] = field(default_factory=dict)

    def add(self, rows: int, clicks: int, most_clicks: int) -> None:
        """Counts good rows, their clicks, and the clicks of the row with most."""
        self.good_rows += rows
        self.good_clicks += clicks
        self.most_clicks = max(self.most_clicks, most_clicks)

    def reject(self, file: str, rows: Iterable[Reject]) -> None:
        """Counts bad rows of a file."""
        rows = [*rows]
        for row in rows:
            self.reasons[row.reason] += 1
            self.examples.setdefault(row.reason, (file, row))
            self.unknown += row.clicks is None
            self.known_lost += row.clicks or 0
            self.most_clicks = max(self.most_clicks, row.clicks or 0)
        candidates = [*self.largest, *((file, row) for row in rows)]
        self.largest = nlargest(_EXAMPLES, candidates, _order)

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
        return self.known_lost + self.unknown * max(self.most_clicks, 1)

    @property
    def fractions(self) -> tuple[float, float]:
        """The fractions of the rows and of the clicks that are bad."""
        return self.rejected / (self.rows or 1), self.rejected_clicks / (self.clicks or 1)

    def refuse(self, limit: float) -> None:
        """Checks the fraction of bad rows and clicks.

        Args:
            limit: maximum fraction of rows, and of clicks, that may be bad.

        Raises:
            UserError: more is bad; the message has counts, reasons and the largest bad rows.
        """
        if max(self.fractions) > limit:
            reasons, *examples = self.lines()
            raise UserError(
                f"{self.rejected:,} of {self.rows:,} rows are malformed, with "
                f"{self.rejected_clicks:,} of {self.clicks:,} clicks; allowed are {limit:.1%}. "
                f"{reasons}; {'; '.join(examples)}. Fix the file, give its --encoding, such as "
                "cp1252, or raise --max-reject-fraction where a command has it."
            )

    def lines(self) -> list[str]:
        """Lines about the bad rows for the terminal; none without bad rows."""
        if not self.rejected:
            return []
        rows, clicks = self.fractions
        counts = self.reasons.most_common()
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in counts)
        examples = "; ".join(
            f"{file}:{row.line}: {row.text.strip()[:_EXAMPLE_TEXT]}" for file, row in self.largest
        )
        lines = [
            f"rejected: {reasons} ({rows:.1%} of the rows, {clicks:.1%} of the clicks)",
            f"the largest: {examples}",
        ]
        if self.unknown and self.most_clicks > 1:
            lines.append(
                f"{self.unknown:,} of them have no readable number of clicks and count as "
                f"{self.most_clicks:,} each, as many as the row with most"
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


def _order(example: tuple[str, Reject]) -> float:
    """Sort key: the clicks of a row, infinite if they cannot be read."""
    clicks = example[1].clicks
    return float("inf") if clicks is None else clicks
