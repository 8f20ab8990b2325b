"""How much of a log cannot be read, by rows and by clicks; a log is refused if it is too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.tables.layout import Reject

MAX_REJECTED = 0.1
"""The fraction of rows or clicks beyond which a log is refused unless another is asked for."""
_EXAMPLES = 3
_EXAMPLE_TEXT = 120


@dataclass
class Tally:
    """What was read of a log.

    A rejected row whose clicks cannot be read counts as many as the row with most: nothing tells
    that it had fewer.

    Args:
        good_rows: that were read.
        good_clicks: of these rows.
        most_clicks: of any row, good or bad.
        unknown: bad rows whose clicks cannot be read.
        reasons: bad rows by reason.
        largest: of the bad rows those with most clicks, the first of equals, each with its file.
    """

    good_rows: int = 0
    good_clicks: int = 0
    most_clicks: int = 0
    known_lost: int = 0
    unknown: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    largest: list[tuple[str, Reject]] = field(default_factory=list)

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
            self.unknown += row.clicks is None
            self.known_lost += row.clicks or 0
            self.most_clicks = max(self.most_clicks, row.clicks or 0)
        several = [*self.largest, *((file, row) for row in rows)]
        self.largest = nlargest(_EXAMPLES, several, _order)

    @property
    def rows(self) -> int:
        """Good and bad rows."""
        return self.good_rows + self.rejected

    @property
    def clicks(self) -> int:
        """Clicks of all rows."""
        return self.good_clicks + self.rejected_clicks

    @property
    def rejected(self) -> int:
        """Bad rows."""
        return self.reasons.total()

    @property
    def rejected_clicks(self) -> int:
        """Clicks of bad rows."""
        return self.known_lost + self.unknown * max(self.most_clicks, 1)

    @property
    def fractions(self) -> tuple[float, float]:
        """The fraction of the rows that is bad, and of the clicks."""
        return self.rejected / (self.rows or 1), self.rejected_clicks / (self.clicks or 1)

    def refuse(self, limit: float) -> None:
        """Refuses a log of which too much is bad.

        Args:
            limit: the fraction of rows, and of clicks, that may be bad.

        Raises:
            UserError: saying how much and why, with the largest rows.
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
        """What to say of the bad rows at a terminal; nothing if there are none."""
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

    def described(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "in": self.rows,
            "rejected": dict(self.reasons),
            "clicks": self.clicks,
            "rejected_clicks": self.rejected_clicks,
        }


def _order(example: tuple[str, Reject]) -> float:
    """The clicks of a row; those that cannot be read may be many."""
    clicks = example[1].clicks
    return float("inf") if clicks is None else clicks
