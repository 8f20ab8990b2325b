"""A directory that preprocess wrote, as arrays: texts are numbers, each read once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray
from pyarrow import parquet

from dssm_tf.common.tf_data_options import WITHOUT_AUTOTUNING
from dssm_tf.data.format import Spec, Title, load_vocabulary
from dssm_tf.text.vocabulary import Vocabulary

_BATCH = 8192
_MIN_COUNT = 2  # times that log and corpus hold a word with a row of its own
LISTS = pa.list_(pa.int32())
Kind = Literal["queries", "titles"]


class Pairs(NamedTuple):
    """Queries and titles clicked for them, by number.

    Args:
        query: int32 `(pairs,)`.
        titles: int32 `(pairs, 1 + negatives)`; the first was clicked, -1 is none.
        clicks: float32 `(pairs,)`, weighted if preprocess was told to.
    """

    query: NDArray[np.int32]
    titles: NDArray[np.int32]
    clicks: NDArray[np.float32]

    def of(self, chosen: NDArray[np.bool_]) -> Pairs:
        """Some of them."""
        return Pairs(self.query[chosen], self.titles[chosen], self.clicks[chosen])

    @staticmethod
    def joined(many: Sequence[Pairs]) -> Pairs:
        """All of several."""
        return Pairs(
            np.concatenate([pairs.query for pairs in many]),
            np.concatenate([pairs.titles for pairs in many]),
            np.concatenate([pairs.clicks for pairs in many]),
        )


class Preprocessed:
    """What training, evaluation and benchmarks read of a preprocessed directory.

    Args:
        directory: what preprocess wrote.

    Attributes:
        spec: what `spec.json` says.
        rules: how texts were read.

    Raises:
        UserError: a file is missing, damaged or of another version. All are compared with their
            checksums when this is made, and trusted from then on.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.spec = Spec.load(directory)
        self.rules = self.spec.rules
        self.spec.check(directory)
        # Read when first used; `with_whole_words` and `fold` have others.
        self._vocabulary: Vocabulary | None = None
        self._distinct_words: tuple[list[str], pa.ListArray] | None = None
        self._parts: Mapping[str, Pairs] | None = None
        self._title_counts: NDArray[np.int64] | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        """The letter trigrams that words were hashed with."""
        if self._vocabulary is None:
            self._vocabulary = load_vocabulary(self.directory, self.spec)
        return self._vocabulary

    @property
    def titles(self) -> list[Title]:
        """The titles of the log and the corpus, by number."""
        return [*map(Title, self.texts("titles"), *self.title_counts.tolist())]

    @property
    def title_counts(self) -> NDArray[np.int64]:
        """Clicks of each title, and pairs that hold it, in the training part: `(2, titles)`."""
        if self._title_counts is None:
            table = self._tables["titles"]
            columns = [table[name].to_numpy().astype(np.int64) for name in ("clicks", "queries")]
            self._title_counts = np.stack(columns)
        return self._title_counts

    def texts(self, kind: Kind) -> list[str]:
        """The texts of queries or titles, as logged, by number."""
        return list(self._tables[kind]["text"].to_pylist())

    def words(self, kind: Kind) -> pa.ListArray:
        """The numbers of each text's words."""
        return self._tables[kind]["words"].combine_chunks().cast(LISTS)

    @cached_property
    def clicked(self) -> pa.ListArray:
        """The numbers of the titles that anybody clicked for each query, increasing."""
        return self._tables["queries"]["clicked"].combine_chunks().cast(LISTS)

    @property
    def distinct_words(self) -> tuple[list[str], pa.ListArray]:
        """Each word that texts hold, and the ids of its trigrams."""
        if self._distinct_words is None:
            word, ngrams = tf.io.FixedLenFeature([], tf.string), tf.io.RaggedFeature(tf.int64)
            records = self._records("words", word=word, ngrams=ngrams)
            lists = records["ngrams"]
            ids = pa.ListArray.from_arrays(lists.row_splits.numpy(), lists.flat_values.numpy())
            words = [one.decode() for one in records["word"].numpy().tolist()]
            self._distinct_words = words, ids.cast(LISTS)
        return self._distinct_words

    def with_whole_words(self) -> Preprocessed:
        """The same, each word that the texts hold twice with a row beside those of its trigrams."""
        words, _ = self.distinct_words
        held = pa.concat_arrays([self.words("queries"), self.words("titles")]).flatten()
        counts = np.bincount(held, minlength=len(words))
        often = (word for word, count in zip(words, counts, strict=True) if count >= _MIN_COUNT)
        vocabulary = self.vocabulary.with_words(often)
        result = copy(self)
        result.spec = replace(
            self.spec, trigrams=len(vocabulary.ngrams), fingerprint=vocabulary.fingerprint
        )
        result._vocabulary = vocabulary
        result._distinct_words = words, pa.array(map(vocabulary.look_up, words), LISTS)
        return result

    @property
    def parts(self) -> Mapping[str, Pairs]:
        """The pairs to train on and those to validate on: `train`, `validation`."""
        if self._parts is None:
            self._parts = {part: self._pairs(part) for part in ("train", "validation")}
        return self._parts

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts that hold pairs."""
        return tuple(part for part in self.parts if self.count(part))

    def count(self, *parts: str) -> int:
        """How many pairs these parts hold."""
        return sum(len(self.parts[part].query) for part in parts)

    def log(self, *parts: str) -> list[tuple[str, str, float]]:
        """Query, clicked title and clicks of each pair of these or all parts, sorted."""
        queries, titles = self.texts("queries"), self.texts("titles")
        rows = []
        for part in parts or self.parts:
            pairs = self.parts[part]
            columns = pairs.query.tolist(), pairs.titles[:, 0].tolist(), pairs.clicks.tolist()
            for query, title, clicks in zip(*columns, strict=True):
                rows.append((queries[query], titles[title], clicks))
        return sorted(rows)

    @cached_property
    def ids(self) -> Mapping[Kind, NDArray[np.int64]]:
        """The id of each text, see `Rules.id`; as unsigned numbers they increase."""
        return {kind: self.rules.column(self.texts(kind)) for kind in ("queries", "titles")}

    def find(self, kind: Kind, texts: Iterable[str]) -> NDArray[np.int64]:
        """The numbers of texts, equal under the rules; -1 for one that is not there."""
        known, wanted = self.ids[kind].view(np.uint64), self.rules.column(texts).view(np.uint64)
        place = np.searchsorted(known, wanted)
        return np.where(np.append(known, 0)[place] == wanted, place, -1)

    def fold(self, number: int, of: int) -> Preprocessed:
        """The same pairs in other parts: of so many shares of the queries, one validates.

        Clicks of titles are those of its own training part; the negatives of a pair are as
        preprocess sampled them.
        """
        pairs = Pairs.joined([*self.parts.values()])
        held_out = pairs.query % of == number  # numbers go by fingerprint: any order
        fold = copy(self)
        train = pairs.of(~held_out)
        fold._parts = {"train": train, "validation": pairs.of(held_out)}
        clicked, size = train.titles[:, 0], self.spec.count("titles")
        counts = np.bincount(clicked, train.clicks, size), np.bincount(clicked, None, size)
        fold._title_counts = np.rint(counts).astype(np.int64)
        return fold

    @cached_property
    def _tables(self) -> Mapping[str, pa.Table]:
        return {
            kind: pa.concat_tables(map(parquet.read_table, self.spec.paths(self.directory, kind)))
            for kind in ("queries", "titles")
        }

    def _pairs(self, part: str) -> Pairs:
        number = tf.io.FixedLenFeature([], tf.int64)
        titles = tf.io.FixedLenFeature([1 + self.spec.negatives], tf.int64)
        clicks = tf.io.FixedLenFeature([], tf.float32)
        found = self._records(part, query=number, titles=titles, clicks=clicks)
        query, candidates = (found[name].numpy().astype(np.int32) for name in ("query", "titles"))
        # If there were too few negatives the clicked title fills the row.
        candidates[:, 1:][candidates[:, 1:] == candidates[:, :1]] = -1
        return Pairs(query, candidates, found["clicks"].numpy())

    def _records(self, kind: str, **features: Any) -> dict[str, Any]:
        """The records of all files of a kind, by feature."""
        files = [*map(str, self.spec.paths(self.directory, kind))]
        records = (
            tf.data.TFRecordDataset(files, "GZIP").with_options(WITHOUT_AUTOTUNING).batch(_BATCH)
        )
        nothing = tf.zeros([0], tf.string)
        found = [tf.io.parse_example(batch, features) for batch in [nothing, *records]]
        return {name: tf.concat([one[name] for one in found], 0) for name in features}
