"""A tiny click log as the directory preprocess writes, made without Beam, and read by hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dssm_tf.common.checksums import sha256_of
from dssm_tf.data.format import KINDS, VOCABULARY, Spec, file_name
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.growth import grow
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED, Rules
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.records import pair_records, word_records

COLORS = ("red", "green", "blue", "black", "white")
ANIMALS = ("fox", "owl", "bear", "horse", "whale", "tiger")
ALPHA = 0.75


class Click(NamedTuple):
    """A (query, title) pair of a log and how often it was clicked."""

    query: str
    title: str
    clicks: int = 1


@dataclass(frozen=True)
class Data:
    """A written directory and what is in it."""

    path: Path
    vocabulary: Vocabulary
    spec: Spec
    titles: list[str]
    """By number."""
    pairs: dict[str, list[Click]]
    """By part."""


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
    queries, titles, _ = zip(*log, strict=True)
    if isinstance(validation, float):
        distinct = list(dict.fromkeys(queries))
        validation = set(random.sample(distinct, int(validation * len(distinct))))
    pairs: dict[str, list[Click]] = {"train": [], "validation": []}
    for click in log:
        pairs["validation" if click.query in validation else "train"].append(click)
    clicks, times, ngrams = Counter(), Counter(), Counter()
    for query, title, count in pairs["train"]:
        clicks[rules.key(title)] += count
        times[rules.key(title)] += 1
        for word in (*rules.words(query), *rules.words(title)):
            ngrams.update(letter_ngrams(word))
    vocabulary = grow(known or Vocabulary([], rules), ngrams, 10_000)
    texts = {
        "queries": _by_fingerprint(queries, rules), "titles": _by_fingerprint(titles, rules)
    }  # fmt: skip
    rows_of_queries, rows_of_titles = map(_rows, texts.values())
    ends = {
        click: (rows_of_queries[rules.key(click.query)], rows_of_titles[rules.key(click.title)])
        for click in log
    }
    clicked: list[set[int]] = [set() for _ in rows_of_queries]
    for query, title in ends.values():
        clicked[query].add(title)
    words = {kind: [vocabulary.words(key) for key in keys] for kind, keys in texts.items()}
    every = {word for lists in words.values() for some in lists for word in some}
    place = _rows(sorted(every, key=_unsigned))
    directory.mkdir(parents=True)
    vocabulary.save(directory / VOCABULARY)
    integers = pa.list_(pa.int32())
    columns = {
        "titles": {
            "clicks": pa.array([round(clicks[key]) for key in texts["titles"]], pa.int64()),
            "queries": pa.array([times[key] for key in texts["titles"]], pa.int32()),
        },
        "queries": {"clicked": pa.array(list(map(sorted, clicked)), integers)},
    }
    for kind, keys in texts.items():
        numbers = [[place[word] for word in some] for some in words[kind]]
        table = {"text": pa.array([*keys.values()]), "words": pa.array(numbers, integers)}
        parquet.write_table(pa.table(table | columns[kind]), directory / file_name(kind, 0, 1))
    hashed = word_records((word, vocabulary.look_up(word)) for word in place)
    (directory / file_name("words", 0, 1)).write_bytes(hashed)
    rows = {kind: [len(keys)] for kind, keys in (texts | {"words": place}).items()}
    for part, of_part in pairs.items():
        size = max(1, -(-len(of_part) // shards))
        count = shards if of_part else 0
        held = [of_part[shard * size : (shard + 1) * size] for shard in range(count)]
        rows[part] = [*map(len, held)]
        for shard, some in enumerate(held):
            numbers = np.zeros((len(some), 2 + negatives), int)
            for at, click in enumerate(some):
                query, own = ends[click]
                others = [one for one in rows_of_titles.values() if one not in clicked[query]]
                drawn = random.sample(others, min(negatives, len(others)))
                numbers[at] = [query, own, *drawn, *[own] * (negatives - len(drawn))]
            found = pair_records(
                numbers[:, 0],
                numbers[:, 1:],
                np.array([click.clicks for click in some], np.float32),
                *map(len, texts.values()),
            )
            (directory / file_name(part, shard, count)).write_bytes(found)
    spec = Spec(
        rules=vocabulary.rules,
        title_fields=("title",),
        trigrams=len(vocabulary.ngrams),
        fingerprint=vocabulary.fingerprint,
        negatives=negatives,
        negative_alpha=ALPHA,
        clicks=round(sum(clicks.values())),
        rows=rows,
        files={},
    )
    return Data(directory, vocabulary, seal(directory, spec), [*texts["titles"].values()], pairs)


def _rows(keys: Iterable[str]) -> dict[str, int]:
    return {key: row for row, key in enumerate(keys)}


def _unsigned(key: str) -> int:
    return fingerprint64(key) % (1 << 64)


def _by_fingerprint(texts: Iterable[str], rules: Rules) -> dict[str, str]:
    """The first text of each key, in the order of their numbers."""
    found: dict[str, str] = {}
    for text in texts:
        found.setdefault(rules.key(text), text)
    return {key: found[key] for key in sorted(found, key=_unsigned)}


def seal(directory: Path, spec: Spec) -> Spec:
    """Writes the spec with the checksums of the files, as they are now."""
    paths = [path for kind in KINDS for path in spec.paths(directory, kind)]
    files = {path.name: sha256_of(path) for path in [*paths, directory / VOCABULARY]}
    spec = replace(spec, files=files)
    spec.save(directory)
    return spec


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
