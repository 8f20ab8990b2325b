"""Writes small click logs as preprocess does, without Beam, and reads the rows of batches."""

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
from dssm_tf.text.growth import grow
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED, TextRules
from dssm_tf.text.stable_hash import fingerprint64
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.records import pair_records, word_records

COLORS = ("red", "green", "blue", "black", "white")
ANIMALS = ("fox", "owl", "bear", "horse", "whale", "tiger")
ALPHA = 0.75


class Click(NamedTuple):
    """A (query, title) pair of a log and its number of clicks."""

    query: str
    title: str
    clicks: int = 1


@dataclass(frozen=True)
class Data:
    """A preprocessed directory and its content."""

    path: Path
    vocabulary: Vocabulary
    spec: Spec
    titles: list[str]
    """In the order of their row numbers."""
    pairs: dict[str, list[Click]]
    """By split."""


def click_log(pairs: int = 48, seed: int = 0) -> list[Click]:
    """Queries such as `fox red 3` with the animal, and often the color, of the clicked title.

    30 titles of one to four words; some queries click two titles, some pairs many times.
    """
    random = Random(seed)
    titles = [
        " ".join(["the"] * (i % 2) + [color, animal] + ["story"] * (i % 3 == 0))
        for i, (color, animal) in enumerate((c, a) for c in COLORS for a in ANIMALS)
    ]
    clicks_by_pair: dict[tuple[str, str], Click] = {}
    number = 0
    while len(clicks_by_pair) < pairs:
        # Low numbers are drawn more often: a few titles are popular.
        title = titles[int(len(titles) * random.random() ** 2)]
        color, animal = [word for word in FOLDED.words(title) if word not in ("the", "story")]
        query = random.choice([f"{animal} {color} {number}", f"{color} {animal}s", animal])
        number += 1
        clicks_by_pair.setdefault(
            (query, title), Click(query, title, random.choice([1, 1, 2, 3, 9]))
        )
    return list(clicks_by_pair.values())


def catalog(size: int = 300) -> list[str]:
    """Distinct titles of three or four words, such as `red wool fox` and `white silk owl 17`."""
    materials = ("wool", "silk", "cotton", "linen", "paper", "copper", "marble", "velvet")
    words = [(c, m, a) for c in COLORS for m in materials for a in ANIMALS]
    random = Random(0)
    random.shuffle(words)
    return [
        " ".join([*words[number % len(words)], *[str(number)] * (number >= len(words))])
        for number in range(size)
    ]


def write_data(
    directory: Path,
    log: Sequence[Click],
    *,
    validation: Collection[str] | float = 0.2,
    negatives: int = 4,
    shards: int = 2,
    seed: int = 0,
    rules: TextRules = FOLDED,
    earlier_vocabulary: Vocabulary | None = None,
    corpus: Sequence[str] = (),
) -> Data:
    """Writes a directory as preprocess does.

    Args:
        directory: directory to create.
        log: distinct pairs; may be empty.
        validation: queries of the validation split, or their fraction.
        negatives: number of recorded negatives per pair; fewer if there are not enough titles.
        shards: number of files per split.
        seed: seed of the negatives and of the validation split.
        rules: rules of the texts.
        earlier_vocabulary: a vocabulary that this one extends.
        corpus: titles without clicks.
    """
    random = Random(seed)
    queries = [click.query for click in log]
    titles = [*(click.title for click in log), *corpus]
    if isinstance(validation, float):
        distinct = list(dict.fromkeys(queries))
        validation = set(random.sample(distinct, int(validation * len(distinct))))
    pairs: dict[str, list[Click]] = {"train": [], "validation": []}
    for click in log:
        pairs["validation" if click.query in validation else "train"].append(click)
    clicks, query_counts, ngrams = Counter(), Counter(), Counter()
    for query, title, count in pairs["train"]:
        clicks[rules.key(title)] += count
        query_counts[rules.key(title)] += 1
        for word in (*rules.words(query), *rules.words(title)):
            ngrams.update(letter_ngrams(word, rules.max_letters, rules.letter_ngrams))
    for title in corpus:
        for word in rules.words(title):
            ngrams.update(letter_ngrams(word, rules.max_letters, rules.letter_ngrams))
    vocabulary = grow(earlier_vocabulary or Vocabulary([], rules), ngrams, 10_000)
    texts = {
        "queries": _by_fingerprint(queries, rules), "titles": _by_fingerprint(titles, rules)
    }  # fmt: skip
    rows_of_queries, rows_of_titles = map(_rows, texts.values())
    ids_of_click = {
        click: (rows_of_queries[rules.key(click.query)], rows_of_titles[rules.key(click.title)])
        for click in log
    }
    clicked: list[set[int]] = [set() for _ in rows_of_queries]
    for query, title in ids_of_click.values():
        clicked[query].add(title)
    words = {kind: [vocabulary.words(key) for key in keys] for kind, keys in texts.items()}
    distinct_words = {word for lists in words.values() for text in lists for word in text}
    row_of_word = _rows(sorted(distinct_words, key=_unsigned_hash))
    directory.mkdir(parents=True)
    vocabulary.save(directory / VOCABULARY)
    integers = pa.list_(pa.int32())
    columns = {
        "titles": {
            "clicks": pa.array([round(clicks[key]) for key in texts["titles"]], pa.int64()),
            "queries": pa.array([query_counts[key] for key in texts["titles"]], pa.int32()),
        },
        "queries": {"clicked": pa.array(list(map(sorted, clicked)), integers)},
    }
    for kind, keys in texts.items():
        numbers = [[row_of_word[word] for word in text] for text in words[kind]]
        table = {
            "text": pa.array([*keys.values()], pa.string()),
            "words": pa.array(numbers, integers),
        }
        parquet.write_table(pa.table(table | columns[kind]), directory / file_name(kind, 0, 1))
    records_of_words = word_records((word, vocabulary.look_up(word)) for word in row_of_word)
    (directory / file_name("words", 0, 1)).write_bytes(records_of_words)
    rows = {kind: [len(keys)] for kind, keys in (texts | {"words": row_of_word}).items()}
    for split, split_pairs in pairs.items():
        size = max(1, -(-len(split_pairs) // shards))
        count = shards if split_pairs else 0
        shard_pairs = [split_pairs[shard * size : (shard + 1) * size] for shard in range(count)]
        rows[split] = [*map(len, shard_pairs)]
        for shard, rows_of_shard in enumerate(shard_pairs):
            numbers = np.zeros((len(rows_of_shard), 2 + negatives), int)
            for row, click in enumerate(rows_of_shard):
                query, title = ids_of_click[click]
                others = [other for other in rows_of_titles.values() if other not in clicked[query]]
                sampled = random.sample(others, min(negatives, len(others)))
                numbers[row] = [query, title, *sampled, *[title] * (negatives - len(sampled))]
            records = pair_records(
                numbers[:, 0],
                numbers[:, 1:],
                np.array([click.clicks for click in rows_of_shard], np.float32),
                *map(len, texts.values()),
            )
            (directory / file_name(split, shard, count)).write_bytes(records)
    spec = Spec(
        rules=vocabulary.rules,
        title_fields=("title",),
        ngrams=len(vocabulary.ngrams),
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


def _unsigned_hash(key: str) -> int:
    return fingerprint64(key) % (1 << 64)


def _by_fingerprint(texts: Iterable[str], rules: TextRules) -> dict[str, str]:
    """The first text of each key, sorted by the unsigned hash of the key."""
    text_by_key: dict[str, str] = {}
    for text in texts:
        text_by_key.setdefault(rules.key(text), text)
    return {key: text_by_key[key] for key in sorted(text_by_key, key=_unsigned_hash)}


def seal(directory: Path, spec: Spec) -> Spec:
    """Writes the spec with the current checksums of the files."""
    paths = [path for kind in KINDS for path in spec.paths(directory, kind)]
    files = {path.name: sha256_of(path) for path in [*paths, directory / VOCABULARY]}
    spec = replace(spec, files=files)
    spec.save(directory)
    return spec


# Rows of batches, independent of the layout of the tensors: the trigrams of the query and of the
# clicked title, and the weights of the other candidates.

Text = tuple[tuple[int, ...], ...]  # trigram ids, word after word


class Row(NamedTuple):
    """One query of a batch."""

    query: Text
    clicked: Text
    clicked_weight: float
    """exp(correction) of the clicked title."""
    negatives: dict[Text, float]
    """Sum of exp(correction) of each other candidate that is not masked."""
    weight: float


def texts_of(inputs, size: int) -> tuple[list[Text], list[Text]]:
    """The queries and the titles of a batch with `size` rows."""

    def rows(groups) -> list[tuple[int, ...]]:
        groups = groups if isinstance(groups, tuple) else (groups,)
        return [tuple(int(i) for i in row if i) for group in groups for row in group.numpy()]

    def texts(batch) -> list[Text]:
        table, tokens = rows(batch["word_ngrams"]), rows(batch["tokens"])
        order = batch["rows"].numpy() if "rows" in batch else range(len(tokens))
        return [tuple(table[t] for t in tokens[row]) for row in order]

    if "texts" in inputs:
        texts_of_batch = texts(inputs["texts"])
        return texts_of_batch[:size], texts_of_batch[size:]
    return texts(inputs["query"]), texts(inputs["titles"])


def all_candidates(inputs) -> np.ndarray:
    """The title of each column `(batch, columns)`, in-batch negatives included."""
    candidates = inputs["candidates"].numpy()
    count = len(inputs.get("in_batch", ()))
    return np.hstack([candidates, np.tile(np.arange(count), (len(candidates), 1))])


def full_labels(labels) -> list[np.ndarray]:
    """Mask, correction and targets, each `(batch, columns)`."""
    shape = labels["mask"].shape
    return [
        np.broadcast_to(labels[name].numpy(), shape) for name in ("mask", "correction", "targets")
    ]


def rows_of(inputs, labels, weights) -> list[Row]:
    """The rows of a batch's tensors."""
    queries, titles = texts_of(inputs, len(weights))
    mask, correction, targets = full_labels(labels)
    exp_corrections = np.where(mask, np.exp(correction.astype(np.float64)), 0.0)
    rows = []
    for i, columns in enumerate(all_candidates(inputs)):
        (clicked,) = np.flatnonzero(targets[i])
        assert targets[i, clicked] == 1
        negatives: dict[Text, float] = defaultdict(float)
        for column in np.flatnonzero(exp_corrections[i]):
            if column != clicked:
                negatives[titles[columns[column]]] += exp_corrections[i, column]
        clicked_weight, weight = exp_corrections[i, clicked], float(weights[i])
        rows.append(
            Row(queries[i], titles[columns[clicked]], clicked_weight, dict(negatives), weight)
        )
    return rows
