"""A directory that preprocess wrote, as arrays: texts are numbers, each read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray
from pyarrow import parquet

from dssm_tf.common.errors import UserError
from dssm_tf.data.format import Spec, load_vocabulary
from dssm_tf.data.lists import Lists
from dssm_tf.data.titles import Title
from dssm_tf.text.rules import Rules
from dssm_tf.text.vocabulary import Vocabulary

_BATCH = 8192
_LEAST = 2  # times that log and corpus hold a word with a row of its own
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


@dataclass(frozen=True, eq=False)
class Preprocessed:
    """What a training, an evaluation or a benchmark reads of a preprocessed directory.

    Args:
        directory: what preprocess wrote.

    Raises:
        UserError: a file is missing, damaged or of another version. All are compared with their
            checksums when this is made, and trusted from then on.
    """

    directory: Path

    def __post_init__(self) -> None:
        self.spec.check(self.directory)

    @cached_property
    def spec(self) -> Spec:
        """What `spec.json` says."""
        return Spec.load(self.directory)

    @property
    def rules(self) -> Rules:
        """How texts were read."""
        return self.spec.rules

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The letter trigrams that words were hashed with."""
        return load_vocabulary(self.directory, self.spec)

    @cached_property
    def titles(self) -> list[Title]:
        """The titles of the log and the corpus, by number."""
        return [*map(Title, self.texts("titles"), *self.title_counts.tolist())]

    @cached_property
    def title_counts(self) -> NDArray[np.int64]:
        """Clicks of each title, and pairs that hold it, in the training part: `(2, titles)`."""
        table = self._table("titles")
        return np.stack([table[name].to_numpy().astype(np.int64) for name in ("clicks", "queries")])

    def texts(self, kind: Kind) -> list[str]:
        """The texts of queries or titles, as logged, by number."""
        found: list[str] = self._table(kind)["text"].to_pylist()
        return found

    def words(self, kind: Kind) -> Lists:
        """The numbers of each text's words."""
        return Lists.of_arrow(self._table(kind)["words"])

    @cached_property
    def clicked(self) -> Lists:
        """The numbers of the titles that anybody clicked for each query, increasing."""
        return Lists.of_arrow(self._table("queries")["clicked"])

    @cached_property
    def distinct_words(self) -> tuple[list[str], Lists]:
        """Each word that texts hold, and the ids of its trigrams."""
        lists = tf.io.RaggedFeature(tf.int64)
        found = self._records("words", word=tf.io.FixedLenFeature([], tf.string), ngrams=lists)
        words = [word.decode() for batch in found for word in batch["word"].numpy().tolist()]
        ngrams = [(one["ngrams"].row_lengths(), one["ngrams"].flat_values) for one in found]
        return words, Lists(*(np.concatenate(column) for column in zip(*ngrams, strict=True)))

    def with_whole_words(self) -> Preprocessed:
        """The same, each word that the texts hold twice with a row beside those of its trigrams."""
        words, _ = self.distinct_words
        held = np.concatenate([self.words(kind).flat for kind in ("queries", "titles")])
        counts = np.bincount(held, minlength=len(words))
        chosen = (word for word, count in zip(words, counts, strict=True) if count >= _LEAST)
        vocabulary = self.vocabulary.with_words(chosen)
        spec = replace(
            self.spec, trigrams=len(vocabulary.ngrams), fingerprint=vocabulary.fingerprint
        )
        ngrams = Lists.of_rows(map(vocabulary.look_up, words))
        found = copy(self)
        vars(found).update(spec=spec, vocabulary=vocabulary, distinct_words=(words, ngrams))
        return found

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts that hold pairs."""
        return tuple(split for split in ("train", "validation") if self.count(split))

    def count(self, *splits: str) -> int:
        """How many pairs these parts hold."""
        return self.spec.count(*splits)

    def pairs(self, *splits: str) -> Pairs:
        """The pairs of these parts."""
        return Pairs(*map(np.concatenate, zip(*map(self._pairs.__getitem__, splits), strict=True)))

    @cached_property
    def _pairs(self) -> Mapping[str, Pairs]:
        return {split: self._read_pairs(split) for split in ("train", "validation")}

    def _read_pairs(self, split: str) -> Pairs:
        width = 1 + self.spec.negatives
        found = self._records(
            split,
            query=tf.io.FixedLenFeature([], tf.int64),
            titles=tf.io.FixedLenFeature([width], tf.int64),
            clicks=tf.io.FixedLenFeature([], tf.float32),
        )

        def column(name: str, empty: NDArray[Any]) -> NDArray[Any]:
            joined = np.concatenate([empty, *(one[name].numpy() for one in found)])
            return joined.astype(empty.dtype)

        titles = column("titles", np.zeros((0, width), np.int32))
        # Where there were too few negatives the clicked title fills the row.
        titles[:, 1:][titles[:, 1:] == titles[:, :1]] = -1
        query = column("query", np.zeros(0, np.int32))
        return Pairs(query, titles, column("clicks", np.zeros(0, np.float32)))

    def clicks(self, *splits: str) -> Iterator[tuple[str, str, float]]:
        """Query, clicked title and number of clicks of each pair of these parts."""
        queries, titles, pairs = self.texts("queries"), self.texts("titles"), self.pairs(*splits)
        columns = (pairs.query, pairs.titles[:, 0], pairs.clicks)
        for query, title, clicks in zip(*(one.tolist() for one in columns), strict=True):
            yield queries[query], titles[title], clicks

    def log(self) -> list[tuple[str, str, float]]:
        """Query, clicked title and number of clicks of all pairs, in the order of their texts."""
        return sorted(self.clicks(*self.splits))

    @cached_property
    def ids(self) -> Mapping[Kind, NDArray[np.int64]]:
        """The id of each text, see `Rules.id`; as unsigned numbers they increase."""
        return {kind: self.rules.column(self.texts(kind)) for kind in ("queries", "titles")}

    def find(self, kind: Kind, texts: Iterable[str]) -> NDArray[np.int64]:
        """The numbers of texts, equal under the rules; -1 for one that is not there."""
        known, wanted = self.ids[kind].view(np.uint64), self.rules.column(texts).view(np.uint64)
        place = np.searchsorted(known, wanted)
        place[place == len(known)] = 0
        return np.where(known[place] == wanted, place, -1) if len(known) else place - 1

    def folds(self, count: int) -> Iterator[Fold]:
        """The same log, each time another share of the queries held out; each query once.

        Raises:
            UserError: there are fewer queries than folds.
        """
        if len(self.clicked) < count:
            raise UserError(
                f"training.folds: {count} folds of {len(self.clicked)} queries; expected at least "
                "one query a fold."
            )
        return (Fold(self.directory, self, number, count) for number in range(count))

    def _table(self, kind: Kind) -> pa.Table:
        return self._tables[kind]

    @cached_property
    def _tables(self) -> Mapping[str, pa.Table]:
        return {
            kind: pa.concat_tables(map(parquet.read_table, self.spec.paths(self.directory, kind)))
            for kind in ("queries", "titles")
        }

    def _records(self, kind: str, **features: Any) -> list[dict[str, Any]]:
        """The records of all files of a kind, a batch at a time."""
        files = [*map(str, self.spec.paths(self.directory, kind))]
        if not files:
            return []
        options = tf.data.Options()
        options.autotune.enabled = False
        records = tf.data.TFRecordDataset(files, "GZIP").with_options(options).batch(_BATCH)
        return [tf.io.parse_example(batch, features) for batch in records]


@dataclass(frozen=True, eq=False)
class Fold(Preprocessed):
    """The same pairs in other parts: a share of the queries is the validation part.

    Clicks of titles are those of its own training part; the negatives of a pair are as preprocess
    drew them.

    Args:
        whole: what preprocess wrote.
        number: of the fold, from 0.
        of: how many folds there are.
    """

    whole: Preprocessed
    number: int
    of: int

    def __post_init__(self) -> None:
        """The whole was checked."""

    @cached_property
    def _tables(self) -> Mapping[str, pa.Table]:
        return self.whole._tables

    @cached_property
    def _pairs(self) -> Mapping[str, Pairs]:
        pairs = self.whole.pairs("train", "validation")
        mine = pairs.query % self.of == self.number  # numbers go by fingerprint: any order
        return {"train": pairs.of(~mine), "validation": pairs.of(mine)}

    def count(self, *splits: str) -> int:
        """How many pairs these parts hold."""
        return sum(len(self._pairs[split].query) for split in splits)

    @cached_property
    def title_counts(self) -> NDArray[np.int64]:
        """See `Preprocessed`."""
        pairs, size = self._pairs["train"], self._table("titles").num_rows
        clicks = np.bincount(pairs.titles[:, 0], pairs.clicks, size)
        return np.stack(
            [np.rint(clicks).astype(np.int64), np.bincount(pairs.titles[:, 0], minlength=size)]
        )
