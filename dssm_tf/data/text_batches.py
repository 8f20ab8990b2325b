"""Texts by number as tensors: distinct words, padded, rows of like length together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.data.lists import Lists
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.shapes import Part, TextShape
from dssm_tf.text.typos import with_typo

SPELLINGS = 8


@dataclass(frozen=True, eq=False)
class Texts:
    """All texts of a training by number: queries, then titles; each has words, a word trigrams.

    Args:
        words: of each text, the numbers of its words.
        ngrams: of each word, the ids of its trigrams; below the words of texts, `SPELLINGS`
            misspelt variants of each, if `typos` were asked for.
        clicked: of each text, the titles that anybody clicked for it as a query, increasing; a
            title is a query for itself.
        first_title: the number of title 0.
    """

    words: Lists
    ngrams: Lists
    clicked: Lists
    first_title: int

    def batch(self, numbers: tf.Tensor, shape: TextShape, texts: tf.Tensor) -> dict[str, Any]:
        """A text batch, see `dssm_tf.model.text_features`.

        Args:
            numbers: of the texts.
            shape: parts to lay it out in.
            texts: number of texts to pad to.
        """
        return text_batch(self.words.gather(numbers), self.ngrams, shape, texts)

    def joint(
        self, queries: tf.RaggedTensor, titles: tf.Tensor, shape: TextShape, texts: tf.Tensor
    ) -> dict[str, Any]:
        """Words of queries and, below them, titles; a word of both is two, with other dropout."""
        words = self.words.gather(titles)
        words = words.with_values(tf.bitwise.invert(words.flat_values))
        return text_batch(tf.concat([queries, words], 0), self.ngrams, shape, texts)


class Numbers:
    """Numbers of the texts of a directory, and of further ones that lists to learn from hold.

    Args:
        data: what preprocess wrote.
    """

    def __init__(self, data: Preprocessed) -> None:
        self._data = data
        self._further: dict[str, dict[str, int]] = {"queries": {}, "titles": {}}

    def of(self, kind: Any, texts: list[str]) -> NDArray[np.int64]:
        """The numbers of queries or of titles; those that the directory lacks are added."""
        found, further = self._data.find(kind, texts), self._further[kind]
        known = self._data.spec.count(kind)
        for place in np.flatnonzero(found < 0).tolist():
            key = self._data.rules.key(texts[place])
            found[place] = known + further.setdefault(key, len(further))
        return found

    def texts(self, typos: bool = False) -> Texts:
        """All of them.

        Args:
            typos: whether words have misspelt variants.
        """
        data, (words, hashed) = self._data, self._data.distinct_words
        number = {word: place for place, word in enumerate(words)}
        parts, new = [], []
        for kind in ("queries", "titles"):
            split = [data.vocabulary.words(key) for key in self._further[kind]]
            for word in (word for one in split for word in one):
                if word not in number:
                    number[word] = len(number)
                    new.append(word)
            parts += [
                data.words(kind),
                Lists.of_rows([number[word] for word in one] for one in split),
            ]
        if typos:
            new += [with_typo(word, edit) for word in number for edit in range(1, SPELLINGS + 1)]
        ngrams = Lists.joined(hashed, Lists.of_rows(map(data.vocabulary.look_up, new)))
        titles = len(parts[2]) + len(parts[3])
        clicked = Lists.joined(
            data.clicked,
            Lists([0] * len(parts[1]), []),
            Lists([1] * titles, range(titles)),
        )
        return Texts(Lists.joined(*parts), ngrams, clicked, len(parts[0]) + len(parts[1]))


def text_batch(
    words: tf.RaggedTensor, ngrams: Lists, shape: TextShape, texts: tf.Tensor
) -> dict[str, Any]:
    """A text batch of words.

    Args:
        words: numbers `[texts, words]`; a number and its complement stand for the same word.
        ngrams: of each word.
        shape: parts to lay it out in.
        texts: number of texts to pad to.
    """
    distinct, index = tf.unique(words.flat_values)
    found = ngrams.gather(tf.maximum(distinct, tf.bitwise.invert(distinct)))
    # Row 0 has no trigrams: what padding reads.
    word_rows = tf.RaggedTensor.from_row_splits(
        found.values, tf.pad(found.row_splits, [[1, 0]]), validate=False
    )
    word_ngrams, place = _in_parts(word_rows, shape.words)
    tokens = words.with_values(tf.gather(place, index + 1))
    if len(shape.texts) > 1:
        parts, rows = _in_parts(tokens, shape.texts)
        return {"word_ngrams": word_ngrams, "tokens": parts, "rows": padded(rows, [texts])}
    # A text's row is its place, so the rows are padded to the texts that are wanted.
    (part,) = shape.texts or (Part(0),)
    matrix = _padded(tokens, part._replace(rows=min(part.rows, 1)))
    return {"word_ngrams": word_ngrams, "tokens": padded(matrix, [texts, tf.shape(matrix)[1]])}


def _in_parts(ragged: tf.RaggedTensor, parts: tuple[Part, ...]) -> tuple[Any, tf.Tensor]:
    """Rows padded with zeros: a matrix, or one a part; and where each row went.

    The places are int32 `(rows,)`, in the parts one below another.
    """
    if len(parts) < 2:
        (part,) = parts or (Part(0),)
        return _padded(ragged, part), tf.range(ragged.nrows(out_type=tf.int32))
    lengths = tf.cast(ragged.row_lengths(), tf.int32)
    part_of = tf.searchsorted([part.columns for part in parts[:-1]], lengths)
    matrices, order, places = [], [], []
    start = 0
    for number, part in enumerate(parts):
        chosen = tf.cast(tf.where(part_of == number)[:, 0], tf.int32)
        matrices.append(_padded(tf.gather(ragged, chosen), part))
        order.append(chosen)
        places.append(start + tf.range(tf.size(chosen)))
        start += tf.shape(matrices[-1])[0]
    rank = tf.math.invert_permutation(tf.concat(order, 0))
    return tuple(matrices), tf.gather(tf.concat(places, 0), rank)


def _padded(ragged: tf.RaggedTensor, part: Part) -> tf.Tensor:
    """A matrix of the part's size where it is fixed, else as small as can be."""
    matrix = ragged.to_tensor()
    rows, columns = tf.unstack(tf.shape(matrix))
    return padded(matrix, [fit(rows, part.rows), fit(columns, part.columns if part.rows else 0)])


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
