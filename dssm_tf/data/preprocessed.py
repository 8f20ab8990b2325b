"""Reads a preprocessed directory into arrays, in which texts are identified by index."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray
from pyarrow import compute

from dssm_tf.common.errors import UserError
from dssm_tf.common.tf_data_options import WITHOUT_AUTOTUNING
from dssm_tf.data.content_checks import check_records, range_problem, read_table, refuse
from dssm_tf.data.format import Spec, Title, load_vocabulary
from dssm_tf.data.frequencies import count_document_frequencies, count_titles_of_ngrams
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.rules import NgramKind, ordered_kinds
from dssm_tf.text.stable_hash import pair_fingerprints
from dssm_tf.text.vocabulary import Vocabulary

_BATCH = 8192
_MIN_COUNT = 2  # occurrences in log and corpus that give a word its own row
INT_LISTS = pa.list_(pa.int32())
Kind = Literal["queries", "titles"]


class Pairs(NamedTuple):
    """Pairs of a query and a clicked title, with recorded negatives.

    Args:
        query: int32 `(pairs,)`, query indices.
        titles: int32 `(pairs, 1 + negatives)`, title indices: the clicked title, then negatives;
            -1 is padding.
        clicks: float32 `(pairs,)`; weighted if preprocess weighted the clicks.
    """

    query: NDArray[np.int32]
    titles: NDArray[np.int32]
    clicks: NDArray[np.float32]

    def select(self, mask: NDArray[np.bool_]) -> Pairs:
        """The pairs where the mask `(pairs,)` is true."""
        return Pairs(self.query[mask], self.titles[mask], self.clicks[mask])

    @staticmethod
    def concatenate(splits: Sequence[Pairs]) -> Pairs:
        """The pairs of several splits, one split after another."""
        return Pairs(
            np.concatenate([pairs.query for pairs in splits]),
            np.concatenate([pairs.titles for pairs in splits]),
            np.concatenate([pairs.clicks for pairs in splits]),
        )


class Preprocessed:
    """The content of a preprocessed directory, as training, evaluation and benchmarks read it.

    The constructor compares all files with their checksums. Each file is then read when its content
    is first used.

    Args:
        directory: the directory that preprocess wrote.

    Attributes:
        spec: the content of `spec.json`.
        rules: how texts become words.

    Raises:
        UserError: a file is missing, damaged or of another version.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.spec = Spec.load(directory)
        self.rules = self.spec.rules
        self.spec.check(directory)
        # Read at the first use. `_with_vocabulary` and `fold` replace them in a copy.
        self._vocabulary: Vocabulary | None = None
        self._distinct_words: tuple[list[str], pa.ListArray] | None = None
        self._splits: Mapping[str, Pairs] | None = None
        self._title_counts: NDArray[np.int64] | None = None
        self._ids: dict[Kind, NDArray[np.int64]] = {}

    @property
    def vocabulary(self) -> Vocabulary:
        """The letter n-grams that words were hashed with."""
        if self._vocabulary is None:
            self._vocabulary = load_vocabulary(self.directory, self.spec)
        return self._vocabulary

    @property
    def titles(self) -> list[Title]:
        """The titles of the log and the corpus, by index."""
        return [*self.iter_titles()]

    @property
    def title_counts(self) -> NDArray[np.int64]:
        """Clicks and number of queries of each title in the training split, `(2, titles)`."""
        if self._title_counts is None:
            table = self._tables["titles"]
            columns = [table[name].to_numpy().astype(np.int64) for name in ("clicks", "queries")]
            self._title_counts = np.stack(columns)
        return self._title_counts

    def iter_titles(self, most_clicked_first: bool = False) -> Iterator[Title]:
        """Yields the titles of the log and the corpus, by index or by clicks.

        It needs less memory than `titles`.

        Args:
            most_clicked_first: whether to order titles by clicks, ties by text.
        """
        clicks, queries = self.title_counts
        texts = self._text_column("titles").cast(pa.large_string())
        table = pa.table({"text": texts, "clicks": clicks, "queries": queries})
        order = pa.array(np.arange(len(table)))
        if most_clicked_first:
            order = compute.sort_indices(table, [("clicks", "descending"), ("text", "ascending")])
        for start in range(0, len(order), _BATCH):
            rows = table.take(order[start : start + _BATCH])
            yield from map(Title, *(column.to_pylist() for column in rows.columns))

    def texts(self, kind: Kind, indices: Sequence[int] | None = None) -> list[str]:
        """The texts of queries or titles as they are in the log, by index.

        Args:
            kind: queries or titles.
            indices: the indices of some texts; None for all.
        """
        column = self._text_column(kind)
        if indices is not None:
            column = column.take(pa.array(indices, pa.int64()))
        return list(column.to_pylist())

    def _text_column(self, kind: Kind) -> pa.ChunkedArray:
        return self._tables[kind]["text"]

    def words(self, kind: Kind) -> pa.ListArray:
        """The word indices of each text."""
        return self._tables[kind]["words"].combine_chunks().cast(INT_LISTS)

    @cached_property
    def clicked(self) -> pa.ListArray:
        """For each query the indices of its clicked titles in any split, increasing."""
        return self._tables["queries"]["clicked"].combine_chunks().cast(INT_LISTS)

    @property
    def distinct_words(self) -> tuple[list[str], pa.ListArray]:
        """The distinct words of all texts, and the n-gram ids of each."""
        if self._distinct_words is None:
            records = self._records(
                "words",
                word=tf.io.FixedLenFeature([], tf.string),
                ngrams=tf.io.RaggedFeature(tf.int64),
            )
            lists = records["ngrams"]
            ids = pa.ListArray.from_arrays(lists.row_splits.numpy(), lists.flat_values.numpy())
            self._check_range("words", "ngrams", ids.values, 1 + self.spec.vocabulary_size)
            try:
                words = [word.decode() for word in records["word"].numpy().tolist()]
            except UnicodeDecodeError as error:
                refuse(self.spec.paths(self.directory, "words")[0], f"a word is not text: {error}")
            self._distinct_words = words, ids.cast(INT_LISTS)
        return self._distinct_words

    @cached_property
    def document_frequencies(self) -> DocumentFrequencies:
        """Numbers of the directory's titles that contain each word and each pair."""
        return count_document_frequencies(self.distinct_words[0], self.words("titles"))

    def count_titles_of_ngrams(self) -> NDArray[np.int64]:
        """The number of titles with each id of the vocabulary, `(1 + vocabulary.size,)`."""
        ngrams = self.distinct_words[1]
        return count_titles_of_ngrams(self.words("titles"), ngrams, 1 + self.vocabulary.size)

    def with_whole_words(self, max_words: int | None = None) -> Preprocessed:
        """A copy whose vocabulary also has a row for each word that occurs at least twice.

        Args:
            max_words: maximum number of words with a row: the most frequent ones, and of equally
                frequent ones the first in `distinct_words`. None: no maximum.
        """
        words, _ = self.distinct_words
        occurrences = pa.concat_arrays([self.words("queries"), self.words("titles")]).flatten()
        counts = np.bincount(occurrences, minlength=len(words))
        order = np.argsort(-counts, kind="stable")[:max_words]
        frequent = np.sort(order[counts[order] >= _MIN_COUNT])
        return self._with_vocabulary(self.vocabulary.with_words(words[row] for row in frequent))

    def with_letter_ngrams(self, kinds: Collection[NgramKind]) -> Preprocessed:
        """A copy whose vocabulary has only the letter n-grams of these kinds.

        Their order is unchanged, so their ids do not depend on the other kinds that preprocess
        wrote.

        Args:
            kinds: kinds of letter n-grams, at least one.

        Raises:
            UserError: see `check_letter_ngrams`.
        """
        self.check_letter_ngrams(kinds)
        if len(kinds) == len(self.rules.letter_ngrams):
            return self
        return self._with_vocabulary(self.vocabulary.with_letter_ngrams(kinds))

    def check_letter_ngrams(self, kinds: Collection[NgramKind]) -> None:
        """Raises UserError if preprocess did not write the letter n-grams of a kind."""
        written = self.rules.letter_ngrams
        if not {*kinds} <= {*written}:
            raise UserError(
                f"letter_ngrams: received {', '.join(kinds)}, but {self.directory} has "
                f"{', '.join(written)}; run preprocess with --letter-ngrams "
                f"{','.join(ordered_kinds({*written, *kinds}))}."
            )

    def _with_vocabulary(self, vocabulary: Vocabulary) -> Preprocessed:
        """A copy with another vocabulary, in which the words are looked up again."""
        result, words = copy(self), self.distinct_words[0]
        result.rules = vocabulary.rules
        result.spec = replace(
            self.spec,
            rules=vocabulary.rules,
            ngrams=len(vocabulary.ngrams),
            fingerprint=vocabulary.fingerprint,
        )
        result._vocabulary = vocabulary
        result._distinct_words = words, ngram_lists(vocabulary, words)
        return result

    @property
    def splits(self) -> Mapping[str, Pairs]:
        """The pairs of each split: `train`, `validation`."""
        if self._splits is None:
            self._splits = {split: self._pairs(split) for split in ("train", "validation")}
        return self._splits

    @property
    def nonempty_splits(self) -> tuple[str, ...]:
        """The names of the splits that have pairs."""
        return tuple(split for split in self.splits if self.count(split))

    def count(self, *splits: str) -> int:
        """Number of pairs in these splits."""
        return sum(len(self.splits[split].query) for split in splits)

    def log(self, *splits: str) -> list[tuple[str, str, float]]:
        """Query, clicked title and clicks of each pair, sorted; without arguments of all splits."""
        queries, titles = self.texts("queries"), self.texts("titles")
        rows = []
        for split in splits or self.splits:
            pairs = self.splits[split]
            columns = pairs.query.tolist(), pairs.titles[:, 0].tolist(), pairs.clicks.tolist()
            for query, title, clicks in zip(*columns, strict=True):
                rows.append((queries[query], titles[title], clicks))
        return sorted(rows)

    def ids(self, kind: Kind) -> NDArray[np.int64]:
        """The id of each text; see `TextRules.id`. Read as unsigned integers, ids increase."""
        if kind not in self._ids:
            self._ids[kind] = self.rules.ids(self.texts(kind))
        return self._ids[kind]

    @property
    def pair_ids(self) -> NDArray[np.int64]:
        """The `pair_fingerprints` of the query and the title of each click of all splits."""
        pairs = Pairs.concatenate([*self.splits.values()])
        titles, index = np.unique(pairs.titles[:, 0], return_inverse=True)
        title_ids = self.rules.ids(self.texts("titles", titles.tolist()))
        return pair_fingerprints(self.ids("queries")[pairs.query], title_ids[index])

    def find(self, kind: Kind, texts: Iterable[str]) -> NDArray[np.int64]:
        """The index of each text, compared under the text rules; -1 for an unknown text."""
        known, wanted = self.ids(kind).view(np.uint64), self.rules.ids(texts).view(np.uint64)
        index = np.searchsorted(known, wanted)
        return np.where(np.append(known, 0)[index] == wanted, index, -1)

    def fold(self, index: int, count: int) -> Preprocessed:
        """A copy for cross-validation: fold `index` of `count` is its validation split.

        Queries are divided among the folds. Title counts are those of the copy's training split.
        Recorded negatives stay as preprocess sampled them.
        """
        pairs = Pairs.concatenate([*self.splits.values()])
        # Queries are ordered by a hash, so the remainder divides them at random.
        is_validation = pairs.query % count == index
        fold = copy(self)
        train = pairs.select(~is_validation)
        fold._splits = {"train": train, "validation": pairs.select(is_validation)}
        clicked, size = train.titles[:, 0], self.spec.count("titles")
        counts = np.bincount(clicked, train.clicks, size), np.bincount(clicked, None, size)
        fold._title_counts = np.rint(counts).astype(np.int64)
        return fold

    @cached_property
    def _tables(self) -> Mapping[str, pa.Table]:
        sizes = {kind: self.spec.count(kind) for kind in ("words", "titles")}
        return {
            kind: pa.concat_tables(
                read_table(path, kind, rows, sizes)
                for path, rows in zip(
                    self.spec.paths(self.directory, kind), self.spec.rows[kind], strict=True
                )
            )
            for kind in ("queries", "titles")
        }

    def _pairs(self, split: str) -> Pairs:
        records = self._records(
            split,
            query=tf.io.FixedLenFeature([], tf.int64),
            titles=tf.io.FixedLenFeature([1 + self.spec.negatives], tf.int64),
            clicks=tf.io.FixedLenFeature([], tf.float32),
        )
        for name, kind in (("query", "queries"), ("titles", "titles")):
            self._check_range(split, name, records[name].numpy(), self.spec.count(kind))
        self._check_range(split, "clicks", records["clicks"].numpy(), float("inf"))
        query, titles = (records[name].numpy().astype(np.int32) for name in ("query", "titles"))
        # Rows with too few negatives are padded with the clicked title.
        titles[:, 1:][titles[:, 1:] == titles[:, :1]] = -1
        return Pairs(query, titles, records["clicks"].numpy())

    def _check_range(self, kind: str, name: str, values: Any, end: float) -> None:
        """Raises UserError unless all values of the records of a kind are from 0 to below `end`."""
        paths = self.spec.paths(self.directory, kind)
        if paths:
            refuse(paths[0], range_problem(name, np.asarray(values), 0, end))

    def _records(self, kind: str, **features: Any) -> dict[str, Any]:
        """The records of all files of a kind, one tensor per feature."""
        paths = self.spec.paths(self.directory, kind)
        for path, rows in zip(paths, self.spec.rows[kind], strict=True):
            check_records(path, rows)
        files = [*map(str, paths)]
        records = (
            tf.data.TFRecordDataset(files, "GZIP").with_options(WITHOUT_AUTOTUNING).batch(_BATCH)
        )
        no_records = tf.zeros([0], tf.string)  # gives the tensors their types if there are no files
        batches = [tf.io.parse_example(batch, features) for batch in [no_records, *records]]
        return {name: tf.concat([batch[name] for batch in batches], 0) for name in features}


def ngram_lists(vocabulary: Vocabulary, words: Iterable[str]) -> pa.ListArray:
    """The ids of the letter n-grams of each word, see `Vocabulary.look_up`."""
    ids, ends = array("i"), array("i", [0])  # lists of Python numbers would take much memory
    for word in words:
        ids.extend(vocabulary.look_up(word))
        ends.append(len(ids))
    return pa.ListArray.from_arrays(
        pa.array(np.asarray(ends, np.int32)), pa.array(np.asarray(ids, np.int32))
    )
