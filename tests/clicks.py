"""A tiny click log as the directory preprocess writes, made without Beam, and read by hand."""

from __future__ import annotations

import gzip
import struct
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from dssm_tf.common.checksums import write_checksums
from dssm_tf.data.clicked_titles import CLICKED_TITLES, HEADER
from dssm_tf.data.counts import RECORD_COUNTS, RecordCounts, load_record_counts, save_record_counts
from dssm_tf.data.example_pb2 import Example
from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.data.schema import FEATURE_SPEC, TITLES, VOCABULARY, FeatureSpec, Title
from dssm_tf.text.growth import grow
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED, Rules
from dssm_tf.text.vocabulary import Vocabulary

COLORS = ("red", "green", "blue", "black", "white")
ANIMALS = ("fox", "owl", "bear", "horse", "whale", "tiger")
ALPHA = 0.75


class Click(NamedTuple):
    """A (query, title) pair of a log and how often it was clicked."""

    query: str
    title: str
    clicks: int = 1


class ClickExample(NamedTuple):
    """A record before it is hashed, and what was clicked for its query in the whole log."""

    query: str
    titles: Sequence[Title]
    clicks: float
    clicked_ids: Sequence[int]

    def serialize(self, vocabulary: Vocabulary) -> bytes:
        return RecordEncoder(vocabulary).encode(self.query, self.titles, self.clicks)


@dataclass(frozen=True)
class Data:
    """A written directory and what is in it."""

    path: Path
    vocabulary: Vocabulary
    spec: FeatureSpec
    examples: dict[str, list[ClickExample]]

    @property
    def titles(self) -> list[str]:
        return (self.path / TITLES).read_text("utf-8").split("\n")[1:-1]


def click_log(pairs: int = 48, seed: int = 0) -> list[Click]:
    """Queries such as `fox red 3` that name the animal and colour of the title they click.

    30 titles of one to four words; some queries click two titles, some pairs many times.
    """
    random = Random(seed)
    titles = [
        " ".join(["the"] * (i % 2) + [color, animal] + ["story"] * (i % 3 == 0))
        for i, (color, animal) in enumerate((c, a) for c in COLORS for a in ANIMALS)
    ]
    found: dict[tuple[str, str], Click] = {}
    number = 0
    while len(found) < pairs:
        # Low numbers are drawn more often: a few titles are popular.
        title = titles[int(len(titles) * random.random() ** 2)]
        color, animal = [word for word in FOLDED.words(title) if word not in ("the", "story")]
        query = random.choice([f"{animal} {color} {number}", f"{color} {animal}s", animal])
        number += 1
        found.setdefault((query, title), Click(query, title, random.choice([1, 1, 2, 3, 9])))
    return list(found.values())


def write_data(
    directory: Path,
    log: Sequence[Click],
    *,
    validation: Collection[str] | float = 0.2,
    negatives: int = 4,
    shards: int = 2,
    seed: int = 0,
    rules: Rules = FOLDED,
    known: Vocabulary | None = None,
) -> Data:
    """Writes what preprocess writes for a log.

    Args:
        directory: made.
        log: distinct pairs.
        validation: queries of the validation part, or the share of them.
        negatives: recorded a pair; fewer where no more titles are left.
        shards: files a split.
        seed: of the negatives and of the share.
        rules: of the texts.
        known: an earlier vocabulary, which this one goes on from.
    """
    random = Random(seed)
    queries = list(dict.fromkeys(click.query for click in log))
    if isinstance(validation, float):
        validation = set(random.sample(queries, int(validation * len(queries))))
    training = [click for click in log if click.query not in validation]
    clicks: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    for click in training:
        clicks[click.title] += click.clicks
        pairs[click.title] += 1
    clicks = Counter({title: round(number) for title, number in clicks.items()})  # weighted ones
    titles = sorted(dict.fromkeys(click.title for click in log), key=lambda t: (-clicks[t], t))
    clicked = defaultdict(set)
    for click in log:
        clicked[rules.key(click.query)].add(rules.id(click.title))

    def example(click: Click) -> ClickExample:
        seen = clicked[rules.key(click.query)]
        others = [title for title in titles if rules.id(title) not in seen]
        drawn = random.sample(others, min(negatives, len(others)))
        texts = [Title(t, clicks[t], pairs[t]) for t in (click.title, *drawn)]
        return ClickExample(click.query, texts, float(click.clicks), sorted(seen))

    counts: Counter[str] = Counter()
    for click in training:
        for word in (*rules.words(click.query), *rules.words(click.title)):
            counts.update(letter_ngrams(word))
    if known is None:
        vocabulary = Vocabulary.from_counts(counts, 10_000, rules)
    else:
        vocabulary = grow(known, counts, 10_000)
    examples = {
        "train": [example(click) for click in training],
        "validation": [example(click) for click in log if click.query in validation],
    }
    spec = FeatureSpec(
        negatives=negatives,
        negative_alpha=ALPHA,
        vocabulary_size=vocabulary.size,
        vocabulary_fingerprint=vocabulary.fingerprint,
        records={split: len(records) for split, records in examples.items()},
        clicks=sum(clicks.values()),
        pairs=len(training),
        rules=vocabulary.rules,
    )
    directory.mkdir(parents=True)
    vocabulary.save(directory / VOCABULARY)
    spec.save(directory)
    rows = [f"{title}\t{clicks[title]}\t{pairs[title]}\n" for title in titles]
    (directory / TITLES).write_text("title\tclicks\tqueries\n" + "".join(rows), "utf-8")
    ids = [(rules.id(click.query), rules.id(click.title)) for click in log]
    rows = [f"{query}\t{title}\n" for query, title in ids]
    table = gzip.compress(HEADER + "".join(rows).encode(), mtime=0)
    (directory / CLICKED_TITLES).write_bytes(table)
    counts = {}
    for split, records in examples.items():
        size = -(-len(records) // shards)
        for shard in range(shards if records else 0):
            part = records[shard * size : (shard + 1) * size]
            path = directory / f"{split}-{shard:05d}-of-{shards:05d}.tfrecord.gz"
            write_records(path, [record.serialize(vocabulary) for record in part])
        counts[split] = RecordCounts(
            {},  # see `count_bytes`
            dict(Counter(record.clicks for record in records)),
            dict(Counter(len(vocabulary.words(r.titles[0].text)) for r in records)),
            dict(Counter(len(record.titles) - 1 for record in records)),
        )
    save_record_counts(counts, directory)
    seal(directory)
    return Data(directory, vocabulary, spec, examples)


def seal(directory: Path) -> None:
    """Writes the checksums of what stands beside the records, as it is now."""
    names = (FEATURE_SPEC, VOCABULARY, TITLES, CLICKED_TITLES, RECORD_COUNTS)
    write_checksums(directory, names)


def count_bytes(directory: Path) -> None:
    """Adds the sizes of the shards to the counts, by which a training knows damaged ones at once.

    `write_data` leaves them out, so that a test may put other records in a shard.
    """
    counts = load_record_counts(directory)
    for split, one in counts.items():
        sizes = {path.name: path.stat().st_size for path in directory.glob(f"{split}-*")}
        counts[split] = replace(one, file_bytes=sizes)
    save_record_counts(counts, directory)
    seal(directory)


def write_records(path: Path, records: Iterable[bytes]) -> None:
    """A gzip TFRecord file: length, its checksum, bytes, their checksum."""
    framed = b"".join(
        length + _masked(length) + record + _masked(record)
        for record in records
        for length in [struct.pack("<Q", len(record))]
    )
    path.write_bytes(gzip.compress(framed, mtime=0))


def read_examples(path: Path) -> list[dict[str, list]]:
    """The records of a gzip TFRecord file as plain lists, without TensorFlow."""
    data = gzip.decompress(path.read_bytes())
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        feature = Example.FromString(data[at + 12 : at + 12 + length]).features.feature
        found.append(
            {
                name: list(getattr(value, value.WhichOneof("kind")).value)
                for name, value in feature.items()
            }
        )
        at += length + 16
    return found


def frames(data: bytes) -> list[tuple[int, int]]:
    """Where each record's bytes start and end in decompressed TFRecord data."""
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append((at + 12, at + 12 + length))
        at += length + 16
    return found


def _masked(data: bytes) -> bytes:
    """TFRecord's masked CRC-32C."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _crc_table()


# What a row of a batch means, whatever the layout of the tensors: the trigrams of its query and
# of its clicked title, and how heavily each title counts as a candidate beside it.

Text = tuple[tuple[int, ...], ...]  # trigram ids, word after word


class Row(NamedTuple):
    """One query of a batch."""

    query: Text
    clicked: Text
    positive: float
    """exp(correction) of the clicked title, the target."""
    rivals: dict[Text, float]
    """Sum of exp(correction) of each other candidate that is not masked."""
    weight: float


def texts_of(inputs, size: int) -> tuple[list[Text], list[Text]]:
    """The queries and the titles of a batch of so many rows."""

    def rows(parts) -> list[tuple[int, ...]]:
        parts = parts if isinstance(parts, tuple) else (parts,)
        return [tuple(int(i) for i in row if i) for part in parts for row in part.numpy()]

    def texts(batch) -> list[Text]:
        table, tokens = rows(batch["word_ngrams"]), rows(batch["tokens"])
        order = batch["rows"].numpy() if "rows" in batch else range(len(tokens))
        return [tuple(table[t] for t in tokens[row]) for row in order]

    if "texts" in inputs:
        both = texts(inputs["texts"])
        return both[:size], both[size:]
    return texts(inputs["query"]), texts(inputs["titles"])


def rows_of(inputs, labels, weights) -> list[Row]:
    """The rows of a batch's tensors."""
    queries, titles = texts_of(inputs, len(weights))
    mask, correction, targets = (labels[k].numpy() for k in ("mask", "correction", "targets"))
    heaviness = np.where(mask, np.exp(correction.astype(np.float64)), 0.0)
    found = []
    for i, columns in enumerate(inputs["candidates"].numpy()):
        (clicked,) = np.flatnonzero(targets[i])
        assert targets[i, clicked] == 1
        rivals: dict[Text, float] = defaultdict(float)
        for place in np.flatnonzero(heaviness[i]):
            if place != clicked:
                rivals[titles[columns[place]]] += heaviness[i, place]
        positive, weight = heaviness[i, clicked], float(weights[i])
        found.append(Row(queries[i], titles[columns[clicked]], positive, dict(rivals), weight))
    return found


def text_of(record: dict[str, list], side: str, position: int = 0) -> Text:
    """The words of a record's query, or of one of its titles, as trigram ids."""
    counts, ids = record[f"{side}_word_ngrams"], record[f"{side}_ngrams"]
    words_, at = [], 0
    for count in counts:
        words_.append(tuple(ids[at : at + count]))
        at += count
    if side == "query":
        return tuple(words_)
    lengths = record["title_lengths"]
    start = sum(lengths[:position])
    return tuple(words_[start : start + lengths[position]])
