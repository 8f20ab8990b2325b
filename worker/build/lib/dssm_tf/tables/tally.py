"""How much of a log cannot be read, by rows and by clicks; a log is refused if it is too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import THOUSANDS, between_thousands
from dssm_tf.tables.layout import Reject

MAX_REJECTED = 0.1
"""The share of rows or clicks beyond which a log is refused unless another is asked for."""
_COUNTS = ("clicks", "impressions")
_SHOWN = 3
_SHOWN_TEXT = 120


class Placed(NamedTuple):
    """A rejected row and the file that it stands in."""

    file: str
    reject: Reject


@dataclass
class Tally:
    """What was read of a log.

    Args:
        rows: good and bad ones.
        clicks: of all rows; a bad row's as far as anybody can tell, else 1.
        rejected_clicks: of the bad ones.
        reasons: bad rows by reason.
        largest: of the bad rows those with most clicks, the first of equals.
    """

    rows: int = 0
    clicks: int = 0
    rejected_clicks: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    largest: list[Placed] = field(default_factory=list)

    def accept(self, clicks: int = 1) -> None:
        """Counts a good row."""
        self.rows += 1
        self.clicks += clicks

    def reject(self, file: str, row: Reject) -> None:
        """Counts a bad row."""
        self.reasons[row.reason] += 1
        self.rejected_clicks += row.clicks
        self.clicks += row.clicks
        self.rows += 1
        if len(self.largest) < _SHOWN or row.clicks > self.largest[-1].reject.clicks:
            self.largest = largest([*self.largest, Placed(file, row)])

    @property
    def rejected(self) -> int:
        """Bad rows."""
        return self.reasons.total()

    @property
    def share(self) -> float:
        """The share of the rows that is bad, or of the clicks if that is more."""
        of_rows = self.rejected / self.rows if self.rows else 0.0
        return max(of_rows, self.rejected_clicks / self.clicks if self.clicks else 0.0)

    def refuse(self, limit: float, flag: str = "", kept: str = "") -> None:
        """Refuses a log of which too much is bad.

        Args:
            limit: the share of rows, and of clicks, that may be bad.
            flag: what raises the limit, if anything does.
            kept: where the bad rows are listed.

        Raises:
            UserError: saying how much and why, with the largest rows.
        """
        if self.share <= limit:
            return
        ways = [*self._flags(), "mend the file", *([f"raise {flag}"] if flag else [])]
        do = " or ".join(ways)
        raise UserError(
            f"{self.rejected:,} of {self.rows:,} rows are malformed ({self.shares()}; allowed are "
            f"{limit:.1%}): {self._reasons()}; {self._examples()}."
            + (f" They are listed in {kept}." if kept else "")
            + f" {do[0].upper()}{do[1:]}."
        )

    def lines(self) -> list[str]:
        """What to say of the bad rows at a terminal; nothing if there are none."""
        if not self.rejected:
            return []
        said = [f"rejected: {self._reasons()} ({self.shares()})", self._examples()]
        return said + [f"to read them, {' or '.join(self._flags())}"] * bool(self._flags())

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Tally:
        """What `described` returned."""
        rejects = [dict(one) for one in described["largest_rejected"]]
        return cls(
            described["in"],
            described["clicks"],
            described["rejected_clicks"],
            Counter(described["rejected"]),
            [Placed(one.pop("file"), Reject(**one)) for one in rejects],
        )

    def described(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "in": self.rows,
            "rejected": dict(self.reasons),
            "clicks": self.clicks,
            "rejected_clicks": self.rejected_clicks,
            "largest_rejected": [{"file": file, **row._asdict()} for file, row in self.largest],
        }

    def shares(self) -> str:
        """The bad rows' share of the rows, and of the clicks where that is another."""
        rows = self.rejected / self.rows if self.rows else 0.0
        said = f"{rows:.1%} of the rows"
        if self.clicks and self.rejected_clicks * self.rows != self.rejected * self.clicks:
            said += f" and {self.rejected_clicks / self.clicks:.1%} of the clicks"
        return said

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
        found = [
            f"give --thousands {sign!r}"
            for sign in THOUSANDS
            if any(self.reasons[between_thousands(name, sign)] for name in _COUNTS)
        ]
        return found + ["give --encoding, such as cp1252"] * ("bad UTF-8" in self.reasons)


def largest(rows: Iterable[Placed]) -> list[Placed]:
    """The rejected rows with most clicks, the first of equals."""
    return nlargest(_SHOWN, rows, key=lambda row: row.reject.clicks)
