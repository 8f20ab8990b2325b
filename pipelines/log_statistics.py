"""Statistics of a log that can be merged: sums, histograms, maxima and the largest examples.

Each step of the pipeline yields the statistics of its bucket or of its piece. Merging is
associative and commutative, so no result depends on bundles, workers, or the order of rows. The
size is bounded: a histogram of clicks has at most about `sqrt(2 clicks)` entries, because the
numbers of clicks in it are distinct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, NamedTuple

import polars as pl
from apache_beam.pvalue import TaggedOutput
from polars import col

MAX_EXAMPLES = 20
"""Maximum number of examples of each kind; those with the largest numbers are kept."""
_MAX_SPELLINGS = 4
_MAX_TEXT = 200
"""Maximum length of an example in characters."""


class TextExample(NamedTuple):
    """A query or title of the log, to show in the report.

    Args:
        number: number by which examples are sorted, such as clicks; the largest ones are kept.
        texts: the text; for merged titles, the spellings.
        sessions: number of sessions with a click on it; 0 if it is not needed.
    """

    number: int
    texts: tuple[str, ...]
    sessions: int = 0


@dataclass
class LogStatistics:
    """Statistics of a part of a log.

    Args:
        sums: sums by name.
        maxima: maxima by name.
        days: clicks by day, such as `2024-01-31`.
        histograms: histograms by name, such as `queries`: the number of texts by their clicks.
        examples: examples by name, at most `MAX_EXAMPLES` of each, the largest first.
    """

    sums: Counter[str] = field(default_factory=Counter)
    maxima: dict[str, int] = field(default_factory=dict)
    days: Counter[str] = field(default_factory=Counter)
    histograms: dict[str, Counter[int]] = field(default_factory=dict)
    examples: dict[str, list[TextExample]] = field(default_factory=dict)

    def count(self, sums: Mapping[str, Any]) -> None:
        """Adds to the sums; zeros are left out."""
        self.sums.update({name: int(number) for name, number in sums.items() if number})

    def add_examples(self, name: str, examples: Iterable[TextExample]) -> None:
        """Adds examples; if two have equal texts, the one with the larger number stays."""
        best: dict[tuple[str, ...], TextExample] = {}
        for example in (*self.examples.get(name, ()), *examples):
            if best.get(example.texts, example) <= example:
                best[example.texts] = example
        if best:
            self.examples[name] = nsmallest(MAX_EXAMPLES, best.values(), key=_sort_key)

    def add_example_rows(self, name: str, rows: pl.DataFrame) -> None:
        """Adds examples from the columns `text`, `number` and, if it exists, `sessions`."""
        # The largest number, then the smallest text, as `_sort_key`.
        rows = rows.sort("number", "text", descending=[True, False]).head(MAX_EXAMPLES)
        sessions = rows["sessions"].to_list() if "sessions" in rows.columns else [0] * len(rows)
        columns = rows["number"].to_list(), rows["text"].to_list(), sessions
        self.add_examples(
            name,
            (
                TextExample(number, (text[:_MAX_TEXT],), session_count)
                for number, text, session_count in zip(*columns, strict=True)
            ),
        )

    def add_histogram(self, name: str, clicks: pl.Series) -> None:
        """Counts texts by their clicks."""
        counts = clicks.rename("clicks").value_counts(name="texts").iter_rows()
        self.histograms.setdefault(name, Counter()).update(dict(counts))

    def merge(self, other: LogStatistics) -> None:
        """Adds the statistics of another part of the log."""
        self.sums.update(other.sums)
        self.days.update(other.days)
        for name, maximum in other.maxima.items():
            self.maxima[name] = max(maximum, self.maxima.get(name, 0))
        for name, histogram in other.histograms.items():
            self.histograms.setdefault(name, Counter()).update(histogram)
        for name, examples in other.examples.items():
            self.add_examples(name, examples)

    def to_json(self) -> dict[str, Any]:
        """As plain data, in an order that depends on the content only."""
        return {
            "sums": dict(sorted(self.sums.items())),
            "maxima": dict(sorted(self.maxima.items())),
            "days": dict(sorted(self.days.items())),
            "histograms": {
                name: sorted(histogram.items())
                for name, histogram in sorted(self.histograms.items())
            },
            "examples": dict(sorted(self.examples.items())),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> LogStatistics:
        """Reads the result of `to_json`.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: `saved` is not such a result.
        """
        return cls(
            Counter(_numbers(saved["sums"])),
            _numbers(saved["maxima"]),
            Counter(_numbers(saved["days"])),
            {
                str(name): Counter({int(clicks): int(texts) for clicks, texts in histogram})
                for name, histogram in saved["histograms"].items()
            },
            {
                str(name): [
                    TextExample(int(number), tuple(map(str, texts)), int(sessions))
                    for number, texts, sessions in examples
                ]
                for name, examples in saved["examples"].items()
            },
        )


def _numbers(saved: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): int(number) for name, number in saved.items()}


def _sort_key(example: TextExample) -> tuple[int, tuple[str, ...]]:
    return -example.number, example.texts


def merge_statistics(parts: Iterable[LogStatistics]) -> LogStatistics:
    """Merges the statistics of the parts of a log."""
    total = LogStatistics()
    for part in parts:
        total.merge(part)
    return total


def statistics_output(statistics: LogStatistics) -> TaggedOutput:
    """The element of a step's `statistics` output."""
    return TaggedOutput("statistics", statistics)


def spellings(texts: pl.DataFrame) -> list[TextExample]:
    """The spellings of each fingerprint with several ones, as examples with their clicks.

    Args:
        texts: the distinct texts, columns `fingerprint`, `text` and `clicks`.
    """
    groups = (
        texts.sort("clicks", "text", descending=[True, False])
        .group_by("fingerprint", maintain_order=True)
        .agg(col.clicks.sum(), col.text.head(_MAX_SPELLINGS), spellings=pl.len())
        .filter(col.spellings > 1)
        .sort("clicks", col.text.list.first(), descending=[True, False])
        .head(MAX_EXAMPLES)
    )
    return [
        TextExample(clicks, tuple(text[:_MAX_TEXT] for text in group))
        for clicks, group in groups.select("clicks", "text").iter_rows()
    ]
