"""Records of one query, and one shard of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.aggregation import QueryClicks
from pipelines.negatives import NegativePool, pair_stream
from pipelines.options import TRAIN, VALIDATION, PreprocessOptions
from pipelines.progress import Progress
from pipelines.writing import gzipped, tfrecord, write_part

SAMPLES = 12
_MAX_COVERED_WORDS = 100_000


TitleRow = tuple[str, int, int]
"""A title as logged, its clicks and its pairs in the training part."""

PairRecord = tuple[int, str, float, tuple[TitleRow, ...]]
"""A pair with its negatives, before hashing: key, query as logged, clicks of the pair, the clicked
title and the negatives.

The key is a hash of the seed and the pair: its shard and its place in it. Plain tuples, since
millions of them are pickled.
"""


def record_order(record: PairRecord) -> tuple[int, str, str]:
    """The order of records in a shard: by their keys, which shuffles them."""
    return record[0], record[1], record[3][0][0]


def query_records(
    query: str,
    clicks: QueryClicks,
    titles: Mapping[str, TitleRow],
    pool: NegativePool,
    options: PreprocessOptions,
) -> Iterator[PairRecord]:
    """The records of one query, one a clicked title.

    Args:
        query: normalised.
        clicks: what the log says of it.
        titles: at least its own titles, by normalised text.
        pool: where negatives come from.
        options: how many negatives, and from where.
    """
    clicked = {*clicks.clicks, *clicks.clicked}
    for title, number in clicks.clicks.items():
        stream = pair_stream(options.seed, query, title)
        key = next(stream)
        negatives: list[TitleRow] = []
        excluded = clicked
        if options.negatives_from != "log" and clicks.shown:
            chosen = sorted((next(stream), shown) for shown in clicks.shown)[: options.negatives]
            negatives = [titles[shown] for _, shown in chosen]
            excluded = clicked | {shown for _, shown in chosen}
        if options.negatives_from != "impressions":
            wanted = options.negatives - len(negatives)
            negatives += pool.draw(wanted, excluded, stream, training=clicks.split == TRAIN)
        yield key, clicks.text, number, (titles[title], *negatives)


@dataclass
class WrittenShard:
    """What became of a shard.

    Args:
        path: of the file.
        records: in it.
        samples: the first records, for the report.
        coverage: see `Coverage`.
    """

    path: str
    records: int
    samples: list[PairRecord]
    coverage: Coverage


@dataclass
class Coverage:
    """How much of the validation part's text the vocabulary knows.

    Args:
        counts: occurrences of trigrams, all and known.
        words: (fingerprint, whether all its trigrams are known) of distinct words; the smallest
            fingerprints only when there are more than `_MAX_COVERED_WORDS`.
    """

    counts: dict[str, int] = field(default_factory=dict)
    words: dict[int, bool] = field(default_factory=dict)

    def trim(self) -> Coverage:
        """Forgets words beyond the limit, the same ones in any order of merging."""
        if len(self.words) > _MAX_COVERED_WORDS:
            self.words = dict(sorted(self.words.items())[:_MAX_COVERED_WORDS])
        return self


def write_shard(
    split: str,
    records: list[PairRecord],
    encoder: RecordEncoder,
    directory: str,
    progress: Progress,
) -> WrittenShard:
    """Writes records in the order of their keys."""
    records.sort(key=record_order)
    path = write_part(directory, split, gzipped(_framed(records, encoder, progress)))
    coverage = _coverage(records, encoder.vocabulary) if split == VALIDATION else Coverage()
    return WrittenShard(path, len(records), records[:SAMPLES] if split == TRAIN else [], coverage)


def _framed(
    records: Sequence[PairRecord], encoder: RecordEncoder, progress: Progress
) -> Iterator[bytes]:
    for number, (_, query, clicks, titles) in enumerate(records, start=1):
        yield tfrecord(encoder.encode(query, titles, clicks))
        if not number % 4096:
            progress.add("records written", 4096)
    progress.add("records written", len(records) % 4096)


def _coverage(records: Sequence[PairRecord], vocabulary: Vocabulary) -> Coverage:
    occurrences: Counter[str] = Counter()
    for _, query, _, titles in records:
        occurrences.update(vocabulary.words(query))
        occurrences.update(vocabulary.words(titles[0][0]))
    known_ngrams = frozenset(vocabulary.ngrams)
    total = known = 0
    words: dict[int, bool] = {}
    for word, times in occurrences.items():
        ngrams = letter_ngrams(word, vocabulary.rules.max_letters)
        found = sum(ngram in known_ngrams for ngram in ngrams)
        total += times * len(ngrams)
        known += times * found
        words[fingerprint64(word)] = found == len(ngrams)
    return Coverage({"ngrams": total, "ngrams known": known}, words).trim()
