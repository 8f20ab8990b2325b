"""Texts by number as tensors: distinct words, padded, rows of like length together.

A matrix of texts is as wide as its longest text, so a batch with one text of 34 words would spend
two thirds of its work on padding if the others have 12. Rows are therefore put in two *parts*,
short ones and long ones, each as wide as its own longest row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.data.preprocessed import INT_LISTS, Kind, Preprocessed
from dssm_tf.text.typos import with_typo

SPELLINGS = 8
SHORT = 0.9
"""The share of the rows that are in the first part."""
_STEP = 8


class Texts(NamedTuple):
    """All texts of a training run by number: queries, then titles.

    Args:
        words: of each text, the numbers of its words.
        ngrams: of each word, the ids of its trigrams; below the words of texts, `SPELLINGS`
            misspelt variants of each, if `typos` were asked for.
        clicked: of each text, the titles that anybody clicked for it as a query, increasing; a
            title is a query for itself.
        first_title: the number of title 0.
    """

    words: tf.RaggedTensor
    ngrams: tf.RaggedTensor
    clicked: tf.RaggedTensor
    first_title: int


class Numbers:
    """Numbers of the texts of a directory, and of further ones that judged lists hold.

    Args:
        data: what preprocess wrote.
    """

    def __init__(self, data: Preprocessed) -> None:
        self._data = data
        self._further: dict[Kind, dict[str, int]] = {"queries": {}, "titles": {}}

    def of(self, kind: Kind, texts: list[str]) -> NDArray[np.int32]:
        """The numbers of queries or of titles; those that the directory lacks are added."""
        found, further = self._data.find(kind, texts), self._further[kind]
        for place in np.flatnonzero(found < 0).tolist():
            key = self._data.rules.key(texts[place])
            found[place] = self._data.spec.count(kind) + further.setdefault(key, len(further))
        return found.astype(np.int32)

    def texts(self, typos: bool = False) -> Texts:
        """All of them.

        Args:
            typos: whether words have misspelt variants.
        """
        words, ngrams = self._data.distinct_words
        number = {word: place for place, word in enumerate(words)}
        sides = []
        for kind, further in self._further.items():
            split = map(self._data.vocabulary.words, further)
            new = [[number.setdefault(word, len(number)) for word in one] for one in split]
            sides.append(pa.concat_arrays([self._data.words(kind), pa.array(new, INT_LISTS)]))
        spelled = list(number)[len(words) :]  # the new ones, in the order of their numbers
        if typos:
            spelled += [with_typo(word, edit + 1) for word in number for edit in range(SPELLINGS)]
        hashed = pa.array(map(self._data.vocabulary.look_up, spelled), INT_LISTS)
        clicked, (queries, titles) = self._data.clicked, map(len, sides)
        own = np.arange(titles)
        pairs = [clicked.value_parent_indices(), clicked.flatten()], [queries + own, own]
        return Texts(
            _ragged(*sides),
            _ragged(ngrams, hashed),
            lists_of(np.concatenate(pairs, axis=1).T, queries + titles),
            queries,
        )


def lists_of(pairs: NDArray[np.integer[Any]], count: int) -> tf.RaggedTensor:
    """So many increasing lists, of their distinct rows and numbers `(pairs, 2)`."""
    row, number = np.unique(pairs, axis=0).T
    return tf.RaggedTensor.from_value_rowids(number.astype(np.int32), row.astype(np.int64), count)


def _ragged(*lists: pa.ListArray) -> tf.RaggedTensor:
    """The lists of one after those of the other."""
    joined = pa.concat_arrays(lists)
    lengths = joined.value_lengths().to_numpy().astype(np.int64)
    return tf.RaggedTensor.from_row_lengths(joined.flatten().to_numpy(), lengths)


def text_batch(
    words: tf.RaggedTensor, ngrams: tf.RaggedTensor, shape: TextShape, texts: tf.Tensor
) -> dict[str, Any]:
    """A text batch of words, see `dssm_tf.model.text_features`.

    Args:
        words: numbers `[texts, words]`; a number and its complement stand for the same word.
        ngrams: of each word.
        shape: parts to lay it out in.
        texts: number of texts to pad to.
    """
    distinct, index = tf.unique(words.flat_values)
    found = tf.gather(ngrams, tf.maximum(distinct, tf.bitwise.invert(distinct)))
    # Row 0 has no trigrams: what padding reads.
    word_rows = tf.RaggedTensor.from_row_splits(
        found.values, tf.pad(found.row_splits, [[1, 0]]), validate=False
    )
    word_ngrams, place = _in_parts(word_rows, shape.word_ngrams)
    tokens = words.with_values(tf.gather(place, index + 1))
    if len(shape.tokens) > 1:
        parts, rows = _in_parts(tokens, shape.tokens)
        return {"word_ngrams": word_ngrams, "tokens": parts, "rows": padded(rows, [texts])}
    # A text's row is its place, so there are as many rows as texts are to be.
    matrix = tokens.to_tensor()
    columns = sum(part.columns for part in shape.tokens if part.rows)
    sizes = [texts, fit(tf.shape(matrix)[1], columns)]
    return {"word_ngrams": word_ngrams, "tokens": padded(matrix, sizes)}


def _in_parts(ragged: tf.RaggedTensor, parts: tuple[Part, ...]) -> tuple[Any, tf.Tensor]:
    """Rows padded with zeros: a matrix, or one a part; and where each row went.

    The places are int32 `(rows,)`, in the parts one below another.
    """
    lengths = tf.cast(ragged.row_lengths(), tf.int32)
    bounds = tf.constant([part.columns for part in parts[:-1]], tf.int32)
    part_of = tf.searchsorted(bounds, lengths)
    matrices, order, places = [], [], []
    start = 0
    for number, part in enumerate(parts or [Part(0)]):
        chosen = tf.cast(tf.where(part_of == number)[:, 0], tf.int32)
        matrix = tf.gather(ragged, chosen).to_tensor()
        rows, columns = tf.unstack(tf.shape(matrix))
        size = [fit(rows, part.rows), fit(columns, part.columns if part.rows else 0)]
        matrices.append(padded(matrix, size))
        order.append(chosen)
        places.append(start + tf.range(rows))
        start += size[0]
    rank = tf.math.invert_permutation(tf.concat(order, 0))
    place = tf.gather(tf.concat(places, 0), rank)
    return (tuple(matrices) if len(matrices) > 1 else matrices[0]), place


def fit(needed: tf.Tensor, planned: int) -> tf.Tensor:
    """The planned size, or the next step above it that holds what is needed; at least 1."""
    if not planned:
        return tf.maximum(needed, 1)
    step = max(planned // 8, 1)
    return planned + tf.maximum((needed - planned + step - 1) // step, 0) * step


def padded(tensor: tf.Tensor, sizes: list[tf.Tensor]) -> tf.Tensor:
    """Pads at the end of each axis with zeros."""
    missing = tf.stack(sizes) - tf.shape(tensor)
    return tf.pad(tensor, tf.stack([tf.zeros_like(missing), missing], 1))


class Part(NamedTuple):
    """Rows of at most `columns` entries; padded to `rows` rows, 0 for as many as there are."""

    columns: int
    rows: int = 0


class TextShape(NamedTuple):
    """Parts of a text batch: of the texts by words, of the words by trigrams; () for one."""

    tokens: tuple[Part, ...] = ()
    word_ngrams: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Shapes:
    """Parts of each text batch of a batch: `query` and `titles`, or `texts` for both.

    With sizes of rows, one compiled program serves most batches; one that does not fit grows by
    steps of an eighth of the planned size.

    Attributes:
        sides: of the text batches; what is missing is in one part.
        distinct_titles: titles of a batch, 0 for as many as there are.
    """

    sides: Mapping[str, TextShape] = field(default_factory=dict)
    distinct_titles: int = 0

    def of(self, side: str) -> TextShape:
        """The parts of a text batch."""
        return self.sides.get(side, TextShape())


def plan_shapes(batches: Sequence[dict[str, Any]], fixed: bool) -> Shapes:
    """Sizes for batches like these.

    Args:
        batches: inputs of a `Siamese`, each text batch in one part.
        fixed: whether rows are padded to one number, as compiled programs need them.
    """
    sides = {
        side: TextShape._make(
            _parts([_lengths(one[side][name]) for one in batches], fixed)
            for name in TextShape._fields
        )
        for side in batches[0].keys() - {"candidates"}
    }
    titles = 1 + max(int(np.max(one["candidates"])) for one in batches)
    return Shapes(sides, _with_headroom(titles) if fixed else 0)


def _lengths(matrix: Any) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = np.count_nonzero(np.asarray(matrix), axis=1)
    return np.maximum(lengths, 1)  # an empty row takes a column too


def _parts(batches: Sequence[NDArray[np.int64]], fixed: bool) -> tuple[Part, ...]:
    """Parts for rows of these lengths."""
    every = np.concatenate(batches)
    parts, below = [], 0
    for bound in np.unique([int(np.quantile(every, SHORT)), every.max()]).tolist():
        rows = max(int(np.sum((lengths > below) & (lengths <= bound))) for lengths in batches)
        parts.append(Part(bound, _with_headroom(rows) if fixed else 0))
        below = bound
    return tuple(parts)


def _with_headroom(size: int) -> int:
    """A little larger, at a round number."""
    return -(-int(size * 1.1 + 1) // _STEP) * _STEP
