"""Sums over one bucket of queries or of titles: the plain functions inside the pipeline's steps.

A bucket holds all that is known of its queries (or titles) and nothing of the others; a worker
holds one at a time. What comes out does not depend on how many buckets there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

from dssm_tf.positions.curve import UNIT
from dssm_tf.text.fingerprint import fingerprint64, unit_interval
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import Rules
from pipelines.cleaning import FEW_CLICKS, PairCount
from pipelines.options import TRAIN, VALIDATION, PreprocessOptions

FROM_CORPUS = -1
"""In place of a bucket of queries: the titles come from the corpus."""


def bucket_of(text: str, buckets: int) -> int:
    """The bucket of a normalised text: the same on every machine."""
    return crc32(text.encode("utf-8", "surrogatepass")) % buckets


class QueryClicks(NamedTuple):
    """What the log says of one query.

    Args:
        text: as logged.
        split: the part it belongs to.
        clicks: clicks of each pair to learn from, weighted, by normalised title.
        clicked: normalised titles clicked too seldom to learn from, or by machines only, and no
            negatives either.
        shown: normalised titles shown and never clicked for the query.
    """

    text: str
    split: str
    clicks: dict[str, float]
    clicked: list[str]
    shown: list[str]

    def clicked_ids(self) -> tuple[int, ...]:
        """Fingerprints of every title that was clicked for the query, in their order."""
        return tuple(sorted(fingerprint64(title) for title in {*self.clicks, *self.clicked}))


@dataclass
class TitleCounts:
    """What one bucket of queries says of a title.

    Args:
        texts: clicks by title as logged.
        clicks, queries: of the training part, the former weighted, in thousandths.
        all_clicks: of all parts, likewise.
    """

    texts: dict[str, int] = field(default_factory=dict)
    clicks: int = 0
    queries: int = 0
    all_clicks: int = 0

    def __reduce__(self) -> tuple[type, tuple[dict[str, int], int, int, int]]:
        return TitleCounts, (self.texts, self.clicks, self.queries, self.all_clicks)

    def add(self, other: TitleCounts) -> None:
        """Adds another bucket's counts."""
        add_counts(self.texts, other.texts)
        self.clicks += other.clicks
        self.queries += other.queries
        self.all_clicks += other.all_clicks


@dataclass
class QueryBucket:
    """What `sum_queries` finds in a bucket.

    Args:
        queries: by normalised query.
        titles: by normalised title, counted over these queries.
        words: occurrences of words in the training part's queries and titles, one a pair.
        counts: for the report.
        dropped: rows dropped, by reason.
    """

    queries: dict[str, QueryClicks] = field(default_factory=dict)
    titles: dict[str, TitleCounts] = field(default_factory=dict)
    words: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


class _Sums:
    """Sums of one query while its bucket is read."""

    __slots__ = ("of_machines", "texts", "titles")

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.titles: dict[str, list[int]] = {}  # title -> [clicks, rows, weighted]
        self.of_machines: set[str] = set()  # titles that dropped sessions clicked


def _split_of(query: str, options: PreprocessOptions) -> str:
    """The part a normalised query belongs to, by its hash and the seed."""
    at = unit_interval(query, f"split {options.seed}")
    return VALIDATION if at < options.validation_fraction else TRAIN


def sum_queries(blocks: Iterable[Iterable[PairCount]], options: PreprocessOptions) -> QueryBucket:
    """Sums a bucket's pairs, drops those with few clicks and splits by query."""
    sums: dict[str, _Sums] = {}
    title_texts: dict[str, dict[str, int]] = {}
    for block in blocks:
        for query, title, query_text, title_text, clicks, rows, weighted in block:
            one = sums.get(query)
            if one is None:
                one = sums[query] = _Sums()
            if not rows:
                one.of_machines.add(title)
                continue
            one.texts[query_text] = one.texts.get(query_text, 0) + clicks
            total = one.titles.get(title)
            if total is None:
                one.titles[title] = [clicks, rows, weighted]
            else:
                total[0] += clicks
                total[1] += rows
                total[2] += weighted
            texts = title_texts.get(title)
            if texts is None:
                title_texts[title] = {title_text: clicks}
            else:
                texts[title_text] = texts.get(title_text, 0) + clicks
    found = QueryBucket()
    for query in sorted(sums):
        _add_query(query, sums[query], title_texts, found, options)
    return found


def _add_query(
    query: str,
    sums: _Sums,
    title_texts: Mapping[str, dict[str, int]],
    found: QueryBucket,
    options: PreprocessOptions,
) -> None:
    kept: dict[str, int] = {}
    clicked, shown = [], []
    for title, (clicks, rows, _) in sums.titles.items():
        if clicks >= options.min_clicks:
            kept[title] = clicks
        elif clicks:
            clicked.append(title)
            found.dropped[FEW_CLICKS] += rows
            found.counts["pairs dropped"] += 1
        else:
            shown.append(title)
    for title in [title for title in shown if title in sums.of_machines]:
        shown.remove(title)
        found.dropped["no click"] += sums.titles[title][1]
    if not kept:
        for title in shown:
            found.dropped["no click"] += sums.titles[title][1]
        return
    split, rules = _split_of(query, options), options.rules
    words = query.split(" ")
    counts = found.counts
    counts[f"queries {split}"] += 1
    counts[f"pairs {split}"] += len(kept)
    query_clicks = sum(kept.values())
    counts[f"clicks {split}"] += query_clicks
    counts[f"query words {len(words)}"] += 1
    counts[f"clicks a query {_power_of_two(query_clicks)}"] += 1
    weighted = {title: sums.titles[title][2] for title in kept}
    clicks_of = {title: _in_clicks(weighted[title]) for title in kept}
    for title in kept:
        title_words = rules.words(title)[: rules.max_words]
        counts["rows used"] += sums.titles[title][1]
        counts[f"pair clicks {split} {clicks_of[title]}"] += 1
        counts[f"clicked words {split} {len(title_words)}"] += 1
        totals = _title(found, title, title_texts)
        totals.all_clicks += weighted[title]
        if split == TRAIN:
            totals.clicks += weighted[title]
            totals.queries += 1
            found.words.update(title_words)
    for title in shown:
        counts["rows used"] += sums.titles[title][1]
        _title(found, title, title_texts)
    if split == TRAIN:
        for word in words[: rules.max_words]:
            found.words[word] += len(kept)
    found.queries[query] = QueryClicks(
        _representative(sums.texts),
        split,
        dict(sorted(clicks_of.items())),
        sorted({*clicked, *sums.of_machines} - kept.keys()),
        sorted(shown),
    )


def _title(
    found: QueryBucket, title: str, title_texts: Mapping[str, dict[str, int]]
) -> TitleCounts:
    totals = found.titles.get(title)
    if totals is None:
        totals = found.titles[title] = TitleCounts(title_texts[title])
    return totals


def count_ngrams(words: Mapping[str, int], rules: Rules) -> dict[str, int]:
    """Occurrences of letter trigrams, from occurrences of words."""
    counts: dict[str, int] = {}
    for word, times in words.items():
        for ngram in letter_ngrams(word, rules.max_letters):
            counts[ngram] = counts.get(ngram, 0) + times
    return counts


TitleTotal = tuple[tuple[str, int, int], int]
"""(title as logged, clicks and pairs of the training part), clicks of all parts."""


class TitleSums(NamedTuple):
    """What `sum_titles` finds in a bucket.

    Args:
        totals: by normalised title.
        wanted: the titles that each bucket of queries wants to know.
        corpus: the titles that the corpus holds.
    """

    totals: dict[str, TitleTotal]
    wanted: dict[int, list[str]]
    corpus: set[str]


def sum_titles(blocks: Iterable[tuple[int, Mapping[str, Any]]]) -> TitleSums:
    """Sums a bucket's titles.

    Args:
        blocks: (bucket of queries, its `TitleCounts` by normalised title), or (`FROM_CORPUS`,
            texts by normalised title). A title that the log has keeps the log's text.
    """
    sums: dict[str, TitleCounts] = {}
    wanted: dict[int, list[str]] = {}
    corpus: dict[str, str] = {}
    for source, titles in blocks:
        if source == FROM_CORPUS:
            for title, text in titles.items():
                corpus[title] = min(text, corpus.get(title, text))
            continue
        wanted[source] = [*wanted.get(source, ()), *titles]
        for title, counts in titles.items():
            known = sums.get(title)
            if known is None:
                sums[title] = TitleCounts(dict(counts.texts), *counts.__reduce__()[1][1:])
            else:
                known.add(counts)
    totals = {
        title: (
            (_representative(one.texts), round(one.clicks / UNIT), one.queries),
            round(one.all_clicks / UNIT),
        )
        for title, one in sums.items()
    }
    for title, text in corpus.items():
        totals.setdefault(title, ((text, 0, 0), 0))
    return TitleSums(totals, wanted, set(corpus))


def _representative(texts: Mapping[str, int]) -> str:
    """The text with most clicks; the smallest of equals."""
    if len(texts) == 1:
        return next(iter(texts))
    return min(texts, key=lambda text: (-texts[text], text))


def add_counts(total: dict[str, int], other: Mapping[str, int]) -> None:
    """Adds counts key by key."""
    for key, count in other.items():
        total[key] = total.get(key, 0) + count


def _in_clicks(thousandths: int) -> float:
    """Weighted clicks as a record has them: of three digits, so that few numbers are distinct.

    >>> _in_clicks(3000), _in_clicks(12345), _in_clicks(1234567), _in_clicks(1234567000)
    (3, 12.3, 1230, 1234567)
    """
    if not thousandths % UNIT:
        return thousandths // UNIT
    found = float(f"{thousandths / UNIT:.3g}")
    return int(found) if found.is_integer() else found


def _power_of_two(number: int) -> int:
    """The smallest power of two that is not below a positive number."""
    return 1 << (number - 1).bit_length()
