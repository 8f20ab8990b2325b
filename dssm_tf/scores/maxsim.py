"""The score maxsim for training: each word and its most similar word of the other text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import keras
from keras import ops

from dssm_tf.layers import WordHashing
from dssm_tf.layers.row_sums import sums_of_rows
from dssm_tf.scores.score import Score, apply_to_words, unit_vectors

IDF_DIVISOR = 5.0
"""Divides the IDF in a term's weight, so that the weights of rare and frequent terms differ by a
factor of about three before training."""

SCALAR_RATE = 3.0
"""The four numbers of `side_weights` and `pair_bias` are stored divided by this number. This
multiplies their learning rate by it, because the size of Adam's steps does not depend on the size
of a gradient."""

_EPSILON = 1e-9

Sides = Literal["both", "query"]


@keras.saving.register_keras_serializable(package="dssm_tf")
class MaxSim(Score):
    """A weighted mean over the query's words and pairs, plus one over those of the title.

    A word counts by its similarity to its best match, a pair if the other text has it. With
    `text_cosine` above 0, the cosine of two text vectors is added. A text vector is a weighted sum
    of the second vectors of the text's words.

    `dssm_tf.runtime.maxsim` defines the score and its terms; this layer computes it for training,
    and in SavedModels.

    Args:
        vocabulary_size: number of n-gram ids, padding not counted.
        threshold: cosines up to it are similarity 0, in [0, 1); higher ones are rescaled to 0 to 1.
        sides: `both` compares the query's words with the title's and the title's words with the
            query's; `query` does the first only.
        text_cosine: the factor of the cosine of text vectors, at least 0. With 0, the score has no
            text vectors.
        text_units: the number of numbers of a text vector.
        text_dropout: fraction of the numbers of the second vectors that is dropped in training.

    Attributes:
        text_hashing: the layer that computes the second vectors of words, not yet scaled to length
            1; only with `text_cosine` above 0.
        text_importance: `(1 + vocabulary_size, 2)`, the importance of each id in text vectors.
        uses_sparse_product: whether sums over the words of texts are sparse products, see
            `sum_of_words`; by default not. Training on TensorFlow without GPUs and XLA sets it.

    Call arguments:
        queries: the text batch that a `Tower` reads, and for this score `word_vectors`
            `(distinct_words, dimension)`, unit vectors; `word_idf` `(distinct_words,)`; `pairs` int
            `(pairs, 2)`, the index of a text and the id of a pair of neighboring words, each pair
            once per text; `pair_idf` `(pairs,)`. In padding rows of `pairs`, the index is the
            number of texts.
        titles: a text batch like `queries`.

    Returns:
        Scores float32 `(queries, titles)`; 0 if a text has no words.

    Reference: Khattab and Zaharia 2020, "ColBERT", eq. 3 (maximum similarity); Metzler and Croft
    2005 (neighboring words as terms).
    """

    reads_words: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary_size: int,
        threshold: float = 0.2,
        sides: Sides = "both",
        text_cosine: float = 0.0,
        text_units: int = 128,
        text_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not 0 <= threshold < 1:
            raise ValueError(f"MaxSim received threshold={threshold}; expected 0 <= threshold < 1.")
        if sides not in ("both", "query"):
            raise ValueError(f"MaxSim received sides={sides!r}; expected 'both' or 'query'.")
        if text_cosine < 0:
            raise ValueError(f"MaxSim received text_cosine={text_cosine}; expected at least 0.")
        self.vocabulary_size = vocabulary_size
        self.threshold = threshold
        self.sides = sides
        self.text_cosine = text_cosine
        self.text_units = text_units
        self.text_dropout = text_dropout
        self.uses_sparse_product = False
        if text_cosine:
            # As in the tower `Words`, rows of length 1 on average.
            self.text_hashing = WordHashing(
                vocabulary_size,
                text_units,
                keras.initializers.RandomNormal(stddev=text_units**-0.5),
                name="text_hashing",
                dtype=self.dtype_policy,
            )
            self.drop = keras.layers.Dropout(text_dropout, name="drop", dtype=self.dtype_policy)

    def build(self, *_: Any) -> None:
        """Makes the weights of terms, sides and text vectors; no shape depends on the input."""
        self.importance = self.add_weight(
            name="importance", shape=(self.vocabulary_size + 1, 2), initializer="zeros"
        )
        self.side_weights = self.add_weight(
            name="side_weights", shape=(2,), initializer=_constant(1.0, 0.3)
        )
        self.pair_bias = self.add_weight(
            name="pair_bias", shape=(2,), initializer=_constant(-2.0, -2.0)
        )
        if self.text_cosine:
            self.text_hashing.build()
            self.text_importance = self.add_weight(
                name="text_importance", shape=(self.vocabulary_size + 1, 2), initializer="zeros"
            )
        self.built = True

    def set_sparse_products(self, enabled: bool) -> None:
        """Sets `uses_sparse_product` of the score and of its layer of second vectors."""
        self.uses_sparse_product = enabled
        for hashing in self.hashings:
            hashing.uses_sparse_product = enabled

    @property
    def hashings(self) -> list[WordHashing]:
        """The layer of the second vectors of words, if there are text vectors."""
        return [self.text_hashing] if self.text_cosine else []

    def call(self, queries: Mapping[str, Any], titles: Mapping[str, Any]) -> keras.KerasTensor:
        """Scores of every query and every title."""
        scores = self._word_scores(queries, titles)
        if not self.text_cosine:
            return scores
        query_words, title_words = apply_to_words(
            lambda groups: self.drop(unit_vectors(self.text_hashing(groups))), queries, titles
        )
        query_vectors = self._text_vectors(0, queries, query_words)
        title_vectors = self._text_vectors(1, titles, title_words)
        cosines = ops.matmul(query_vectors, ops.transpose(title_vectors))
        return scores + ops.cast(self.text_cosine * cosines, scores.dtype)

    def _text_vectors(
        self, side: int, texts: Mapping[str, Any], vectors: keras.KerasTensor
    ) -> keras.KerasTensor:
        """The weighted sum of the second vectors of each text's distinct words, of length 1.

        Args:
            side: 0 for queries, 1 for titles.
            texts: the text batch of this side.
            vectors: the second vectors of its distinct words, `(distinct_words, text_units)`.

        Returns:
            `(texts, text_units)`; 0 for a text without known letter n-grams.
        """
        weights = self._word_weights(side, texts, self.text_importance)
        sums = sum_of_words(weights[:, None] * vectors, texts, self.uses_sparse_product)
        return unit_vectors(sums)

    def _word_scores(
        self, queries: Mapping[str, Any], titles: Mapping[str, Any]
    ) -> keras.KerasTensor:
        """Scores of every query and every title by their words and pairs."""
        cosines = ops.matmul(queries["word_vectors"], ops.transpose(titles["word_vectors"]))
        # The most similar words are found first, without a gradient. Only their cosines have one.
        constant_cosines = ops.stop_gradient(cosines)
        query_words, title_words = (ops.arange(count) for count in ops.shape(cosines))
        query_pairs, title_pairs = self._pair_weights(0, queries), self._pair_weights(1, titles)
        query_sums, title_sums = shared_pairs(queries, titles, query_pairs, title_pairs)
        best = most_similar_words(ops.transpose(constant_cosines), titles)
        similarities = self._similarities(take_cells(cosines, query_words, best))
        query_side = self._side(0, queries, query_pairs, similarities, query_sums)
        if self.sides == "query":
            return query_side
        best = most_similar_words(constant_cosines, queries)
        similarities = self._similarities(take_cells(cosines, best, title_words))
        title_side = self._side(1, titles, title_pairs, similarities, ops.transpose(title_sums))
        return query_side + ops.transpose(title_side)

    def _similarities(self, cosines: keras.KerasTensor) -> keras.KerasTensor:
        """`max(0, cosine - threshold) / (1 - threshold)`."""
        return ops.relu(cosines - self.threshold) / (1 - self.threshold)

    def _side(
        self,
        side: int,
        texts: Mapping[str, Any],
        pair_weights: keras.KerasTensor,
        similarities: keras.KerasTensor,
        shared: keras.KerasTensor,
    ) -> keras.KerasTensor:
        """One side of the score, `(texts, other texts)`.

        Args:
            side: 0 for queries, 1 for titles.
            texts: the text batch of this side, whose terms are added up.
            pair_weights: weights of its pairs, `(pairs,)`.
            similarities: `(other texts, words of texts)`: the similarity of each word and its most
                similar word of each other text.
            shared: `(texts, other texts)`, the sums of the weights of shared pairs.
        """
        weights = self._word_weights(side, texts, self.importance)
        weighted = weights[:, None] * ops.transpose(similarities)
        matched = sum_of_words(weighted, texts, self.uses_sparse_product) + shared
        count = text_count(texts)
        total = ops.segment_sum(pair_weights, texts["pairs"][:, 0], count + 1)[:count]
        total += sum_of_words(weights[:, None], texts)[:, 0]
        side_weight = ops.abs(ops.cast(self.side_weights, self.compute_dtype)[side]) * SCALAR_RATE
        return side_weight * matched / ops.maximum(total, _EPSILON)[:, None]

    def _pair_weights(self, side: int, texts: Mapping[str, Any]) -> keras.KerasTensor:
        """The weight of each pair, `softplus(idf / 5 + bias)`, `(pairs,)`."""
        bias = ops.cast(self.pair_bias, self.compute_dtype)[side] * SCALAR_RATE
        return ops.softplus(ops.cast(texts["pair_idf"], self.compute_dtype) / IDF_DIVISOR + bias)

    def _word_weights(
        self, side: int, texts: Mapping[str, Any], importance: keras.KerasTensor
    ) -> keras.KerasTensor:
        """The weight of each distinct word, `(distinct_words,)`.

        `softplus(idf / 5 + m)`, where `m` is the mean of the importance of its n-grams, which is
        learned.

        Args:
            side: 0 for queries, 1 for titles.
            texts: a text batch.
            importance: `(1 + vocabulary_size, 2)`.
        """
        groups = texts["word_ngrams"]
        importance = ops.cast(importance, self.compute_dtype)[:, side]
        means = []
        for ids in groups if isinstance(groups, (tuple, list)) else [groups]:
            present = ops.cast(ops.not_equal(ids, 0), self.compute_dtype)
            total = ops.sum(ops.take(importance, ids, axis=0) * present, axis=1)
            means.append(total / ops.maximum(ops.sum(present, axis=1), 1))
        idf = ops.cast(texts["word_idf"], self.compute_dtype)
        weights = ops.softplus(idf / IDF_DIVISOR + ops.concatenate(means))
        is_word = ops.arange(ops.shape(weights)[0]) > 0  # row 0 is padding
        return ops.where(is_word, weights, 0.0)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {
            "vocabulary_size": self.vocabulary_size,
            "threshold": self.threshold,
            "sides": self.sides,
            "text_cosine": self.text_cosine,
            "text_units": self.text_units,
            "text_dropout": self.text_dropout,
        }


def by_group(
    texts: Mapping[str, Any], function: Callable[[keras.KerasTensor], keras.KerasTensor]
) -> keras.KerasTensor:
    """Applies a function to the token matrix of each length group, `(texts, ...)`."""
    groups = texts["tokens"]
    if not isinstance(groups, (tuple, list)):
        return function(groups)
    return ops.take(ops.concatenate([*map(function, groups)]), texts["rows"], axis=0)


def take_cells(
    matrix: keras.KerasTensor, rows: keras.KerasTensor, columns: keras.KerasTensor
) -> keras.KerasTensor:
    """`matrix[rows, columns]`, where rows and columns are broadcast against each other."""
    return ops.take(ops.reshape(matrix, (-1,)), rows * ops.shape(matrix)[1] + columns, axis=0)


def most_similar_words(cosines: keras.KerasTensor, texts: Mapping[str, Any]) -> keras.KerasTensor:
    """The word of each text that is most similar to each other word, int `(texts, other words)`.

    Args:
        cosines: `(distinct words of texts, other words)`; row 0 is padding.
        texts: text batch.
    """
    return by_group(texts, lambda tokens: _most_similar(cosines, ops.cast(tokens, "int32")))


def _most_similar(cosines: keras.KerasTensor, tokens: keras.KerasTensor) -> keras.KerasTensor:
    """The tokens with the highest cosines, int `(texts, other words)`.

    The loop over positions keeps two matrices `(texts, other words)` in memory; one `argmax` would
    need `(texts, max_words, other words)`.

    Args:
        cosines: `(distinct words of texts, other words)`.
        tokens: int `(texts, max_words)`, rows of `cosines`.
    """

    def compare(
        position: keras.KerasTensor, highest: keras.KerasTensor, rows: keras.KerasTensor
    ) -> tuple[keras.KerasTensor, ...]:
        token = ops.take(tokens, position, axis=1)
        values = ops.take(cosines, token, axis=0)
        rows = ops.where(values > highest, token[:, None], rows)
        return position + 1, ops.maximum(values, highest), rows

    highest = ops.take(cosines, tokens[:, 0], axis=0)
    rows = ops.broadcast_to(tokens[:, :1], ops.shape(highest))
    columns = ops.shape(tokens)[1]
    return ops.while_loop(lambda position, *_: position < columns, compare, (1, highest, rows))[2]


def sum_of_words(
    values: keras.KerasTensor, texts: Mapping[str, Any], uses_sparse_product: bool = False
) -> keras.KerasTensor:
    """The sum of the values of each text's distinct words, `(texts, columns)`.

    Args:
        values: `(distinct words, columns)`; row 0 is padding and 0.
        texts: text batch.
        uses_sparse_product: whether to multiply by a sparse matrix, see `sums_of_rows`. Otherwise
            the values are copied for each occurrence of a word.
    """

    def sums(tokens: keras.KerasTensor) -> keras.KerasTensor:
        distinct = without_repeats(tokens)
        if uses_sparse_product:
            return sums_of_rows(values, [distinct])
        return ops.sum(ops.take(values, distinct, axis=0), axis=1)

    return by_group(texts, sums)


def without_repeats(tokens: keras.KerasTensor) -> keras.KerasTensor:
    """Tokens `(texts, max_words)`, in which all but the first of equal ones are 0."""
    position = ops.arange(ops.shape(tokens)[1])
    is_earlier = position[:, None] > position[None]
    equal = ops.equal(tokens[:, :, None], tokens[:, None, :])
    is_repeat = ops.any(ops.logical_and(equal, is_earlier), axis=2)
    return ops.where(is_repeat, 0, tokens)


def text_count(texts: Mapping[str, Any]) -> Any:
    """The number of texts of a text batch."""
    return ops.shape(texts["rows"] if "rows" in texts else texts["tokens"])[0]


def shared_pairs(
    queries: Mapping[str, Any],
    titles: Mapping[str, Any],
    query_weights: keras.KerasTensor,
    title_weights: keras.KerasTensor,
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Sums of the weights of the pairs that a query and a title share.

    Args:
        queries: text batch.
        titles: text batch.
        query_weights: weight of each row of the queries' `pairs`.
        title_weights: weight of each row of the titles' `pairs`.

    Returns:
        Two matrices `(queries, titles)`: sums of the queries' and of the titles' weights.
    """
    query_ids, title_ids = queries["pairs"][:, 1], titles["pairs"][:, 1]
    query_count, title_count = text_count(queries), text_count(titles)
    columns = title_count + 1  # the last one is for padding
    sorted_ids = ops.sort(query_ids)
    rows = ops.shape(sorted_ids)[0]

    def row_of(ids: keras.KerasTensor) -> keras.KerasTensor:
        """The first row of `sorted_ids` with an id; any row for another id."""
        return ops.minimum(ops.cast(ops.searchsorted(sorted_ids, ids), "int32"), rows - 1)

    title_row = row_of(title_ids)
    is_shared = ops.equal(ops.take(sorted_ids, title_row), title_ids)
    is_shared = ops.cast(is_shared, title_weights.dtype)
    cells = title_row * columns + titles["pairs"][:, 0]

    def by_pair(values: keras.KerasTensor) -> keras.KerasTensor:
        """Values of the titles' pairs, for each pair of the queries: `(query pairs, titles)`."""
        matrix = ops.segment_sum(values, cells, rows * columns)
        matrix = ops.reshape(matrix, (rows, columns))[:, :title_count]
        return ops.take(matrix, row_of(query_ids), axis=0)

    def by_query(values: keras.KerasTensor) -> keras.KerasTensor:
        """Sums of the values of each query's pairs, `(queries, titles)`."""
        return ops.segment_sum(values, queries["pairs"][:, 0], query_count + 1)[:query_count]

    query_sums = by_query(query_weights[:, None] * by_pair(is_shared))
    return query_sums, by_query(by_pair(is_shared * title_weights))


def _constant(*values: float) -> Callable[..., Any]:
    """An initializer of the few numbers of the model, which are stored divided by `SCALAR_RATE`."""

    def initializer(shape: Any, dtype: Any = None) -> Any:
        del shape
        return ops.convert_to_tensor([value / SCALAR_RATE for value in values], dtype)

    return initializer
