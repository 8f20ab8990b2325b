"""How much of a log cannot be read, by rows and by clicks; a log is refused if it is too much."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.tables.layout import Reject

MAX_REJECTED = 0.1
"""The share of rows or clicks beyond which a log is refused unless another is asked for."""
_SHOWN = 3
_SHOWN_TEXT = 120


@dataclass
class Tally:
    """What was read of a log.

    Args:
        rows: good and bad ones.
        clicks: of all rows; a bad row's as far as anybody can tell, else 1.
        rejected_clicks: of the bad ones.
        reasons: bad rows by reason.
        largest: of the bad rows those with most clicks, the first of equals, each with its file.
    """

    rows: int = 0
    clicks: int = 0
    rejected_clicks: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    largest: list[tuple[str, Reject]] = field(default_factory=list)

    def reject(self, file: str, row: Reject) -> None:
        """Counts a bad row."""
        self.rows += 1
        self.clicks += row.clicks
        self.reasons[row.reason] += 1
        self.rejected_clicks += row.clicks
        self.largest = nlargest(_SHOWN, [*self.largest, (file, row)], lambda one: one[1].clicks)

    @property
    def rejected(self) -> int:
        """Bad rows."""
        return self.reasons.total()

    @property
    def shares(self) -> tuple[float, float]:
        """The share of the rows that is bad, and of the clicks."""
        return self.rejected / (self.rows or 1), self.rejected_clicks / (self.clicks or 1)

    def refuse(self, limit: float) -> None:
        """Refuses a log of which too much is bad.

        Args:
            limit: the share of rows, and of clicks, that may be bad.

        Raises:
            UserError: saying how much and why, with the largest rows.
        """
        if max(self.shares) > limit:
            reasons, examples = self.lines()
            raise UserError(
                f"{self.rejected:,} of {self.rows:,} rows are malformed; allowed are {limit:.1%}. "
                f"{reasons}; {examples}. Please mend the file, give its --encoding, such as "
                "cp1252, or raise --max-reject-fraction where a command has it."
            )

    def lines(self) -> list[str]:
        """What to say of the bad rows at a terminal; nothing if there are none."""
        if not self.rejected:
            return []
        rows, clicks = self.shares
        counts = self.reasons.most_common()
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in counts)
        examples = "; ".join(
            f"{file}:{row.line}: {row.text.strip()[:_SHOWN_TEXT]}" for file, row in self.largest
        )
        return [
            f"rejected: {reasons} ({rows:.1%} of the rows, {clicks:.1%} of the clicks)",
            f"the largest: {examples}",
        ]

    def described(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "in": self.rows,
            "rejected": dict(self.reasons),
            "clicks": self.clicks,
            "rejected_clicks": self.rejected_clicks,
        }
