"""How much of a log cannot be read, by rows and by clicks; a log is refused if it is too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import THOUSANDS, between_thousands
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

    def accept(self, clicks: int = 1) -> None:
        """Counts a good row."""
        self.rows += 1
        self.clicks += clicks

    def reject(self, file: str, row: Reject) -> None:
        """Counts a bad row."""
        self.accept(row.clicks)
        self.reasons[row.reason] += 1
        self.rejected_clicks += row.clicks
        self.largest = nlargest(_SHOWN, [*self.largest, (file, row)], lambda one: one[1].clicks)

    @property
    def rejected(self) -> int:
        """Bad rows."""
        return self.reasons.total()

    @property
    def _shares(self) -> str:
        """The bad rows' share of the rows, and of the clicks where that is another."""
        rows, clicks = self.shares
        said = f"{rows:.1%} of the rows"
        return said if clicks in (rows, 0) else f"{said} and {clicks:.1%} of the clicks"

    def _reasons(self) -> str:
        counts = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{number:,} {reason}" for reason, number in counts)

    def _examples(self) -> str:
        rows = "; ".join(
            f"{file}:{row.line}: {row.text.strip()[:_SHOWN_TEXT]}" for file, row in self.largest
        )
        many = any(row.clicks > 1 for _, row in self.largest)
        return f"{'the largest' if many else 'the first'}: {rows}"

    def _flags(self) -> list[str]:
        """What would read bad rows."""
        names = "clicks", "impressions"
        found = [
            f"give --thousands {sign!r}"
            for sign in THOUSANDS
            if any(self.reasons[between_thousands(name, sign)] for name in names)
        ]
        return found + ["give --encoding, such as cp1252"] * ("bad UTF-8" in self.reasons)
