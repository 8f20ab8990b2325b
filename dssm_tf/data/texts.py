"""Texts as tensors of word and n-gram indices, padded in groups of similar length.

A matrix of texts is as wide as its longest text. If one text of a batch has 34 words and the others
have 12, two thirds of the work would be spent on padding. Rows are therefore put in *length
groups*, and each group is as wide as its longest row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.data.preprocessed import INT_LISTS, Kind, Preprocessed, ngram_lists
from dssm_tf.data.terms import IdfTensors, own_rows
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.typos import with_typo

MISSPELLINGS = 8
"""Number of misspelled variants per word."""

LENGTH_QUANTILES = (0.9, 1.0)
"""The longest row of each length group, as a quantile of the lengths of all rows."""

WORD_SCORE_LENGTH_QUANTILES = (0.2, 0.4, 0.6, 0.8, 0.95, 1.0)
"""`LENGTH_QUANTILES` for scores that compare words. They have no recurrent steps, so more groups
cost little and save padding."""

_SIZE_MULTIPLE = 8  # planned sizes are multiples of this


class TextTensors(NamedTuple):
    """All texts of a training. Text indices count the queries first, then the titles.

    Args:
        words: `[texts, words]`, the word indices of each text.
        ngrams: `[words, n-grams]`, the n-gram ids of each word. With typing errors, `MISSPELLINGS`
            misspelled variants of each word follow after the last word.
        clicked: `[texts, titles]`, the indices of the titles that were clicked for each text,
            increasing. A title can also be a query; its clicked title is the title itself.
        first_title: the text index of title 0.
        has_own_row: bool `(words,)`, whether the last id of a word is that of the whole word; None
            if training does not need it.
        idf: IDF of words and of pairs of words, for scores that read them.
    """

    words: tf.RaggedTensor
    ngrams: tf.RaggedTensor
    clicked: tf.RaggedTensor
    first_title: int
    has_own_row: tf.Tensor | None = None
    idf: IdfTensors | None = None


class TextIndexer:
    """Maps texts to indices. Texts of judged lists that are not in the directory get new indices.

    Args:
        data: the preprocessed directory.
    """

    def __init__(self, data: Preprocessed) -> None:
        self._data = data
        self._new_texts: dict[Kind, dict[str, int]] = {"queries": {}, "titles": {}}

    def add_texts(self, kind: Kind, texts: list[str]) -> NDArray[np.int32]:
        """Adds queries or titles that are not in the directory; returns the index of each text."""
        indices, new_texts = self._data.find(kind, texts), self._new_texts[kind]
        for position in np.flatnonzero(indices < 0).tolist():
            key = self._data.rules.key(texts[position])
            new_index = new_texts.setdefault(key, len(new_texts))
            indices[position] = self._data.spec.count(kind) + new_index
        return indices.astype(np.int32)

    def build_tensors(
        self,
        misspellings: bool = False,
        mark_word_rows: bool = False,
        frequencies: DocumentFrequencies | None = None,
    ) -> TextTensors:
        """The tensors of all texts, those of the directory and the added ones.

        Args:
            misspellings: whether words have misspelled variants.
            mark_word_rows: whether `has_own_row` is set, because training leaves out some own rows.
            frequencies: document frequencies, for scores that read IDF.
        """
        words, ngrams = self._data.distinct_words
        word_index = {word: index for index, word in enumerate(words)}
        word_lists = []
        for kind, new_texts in self._new_texts.items():
            words_of_texts = map(self._data.vocabulary.words, new_texts)
            new_rows = [
                [word_index.setdefault(word, len(word_index)) for word in words_of_text]
                for words_of_text in words_of_texts
            ]
            word_lists.append(
                pa.concat_arrays([self._data.words(kind), pa.array(new_rows, INT_LISTS)])
            )
        new_words = list(word_index)[len(words) :]  # in the order of their indices
        if misspellings:
            new_words += [
                with_typo(word, edit + 1) for word in word_index for edit in range(MISSPELLINGS)
            ]
        vocabulary = self._data.vocabulary
        new_ngrams = ngram_lists(vocabulary, new_words)
        has_own_row, idf = None, None
        if mark_word_rows:
            all_ngrams = pa.concat_arrays([ngrams, new_ngrams])
            whole_words = np.array([*vocabulary.whole_words.values()])
            has_own_row = tf.constant(own_rows(all_ngrams, whole_words))
        if frequencies is not None:
            idf = IdfTensors.from_frequencies([*words, *new_words], frequencies, len(word_index))
        clicked, (query_count, title_count) = self._data.clicked, map(len, word_lists)
        titles = np.arange(title_count)
        clicked_pairs = [clicked.value_parent_indices(), clicked.flatten()]
        # For a title as a query, the clicked title is the title itself.
        title_pairs = [query_count + titles, titles]
        pairs = np.concatenate([clicked_pairs, title_pairs], axis=1).T
        return TextTensors(
            _concatenate_ragged(*word_lists),
            _concatenate_ragged(ngrams, new_ngrams),
            group_pairs(pairs, query_count + title_count),
            query_count,
            has_own_row,
            idf,
        )


def group_pairs(pairs: NDArray[np.integer[Any]], row_count: int) -> tf.RaggedTensor:
    """Converts pairs of row and value `(pairs, 2)` to a ragged tensor `[row_count, values]`.

    The values of a row are distinct and increasing.
    """
    rows, values = pairs[np.lexsort(pairs.T[::-1])].T
    is_new = np.append(True, (rows[1:] != rows[:-1]) | (values[1:] != values[:-1]))[: len(rows)]
    rows, values = rows[is_new], values[is_new]
    return tf.RaggedTensor.from_value_rowids(
        values.astype(np.int32), rows.astype(np.int64), row_count
    )


def _concatenate_ragged(*lists: pa.ListArray) -> tf.RaggedTensor:
    """Concatenates arrays of Arrow lists to one ragged tensor."""
    rows = pa.concat_arrays(lists)
    lengths = rows.value_lengths().to_numpy().astype(np.int64)
    return tf.RaggedTensor.from_row_lengths(rows.flatten().to_numpy(), lengths)


def text_batch(
    words: tf.RaggedTensor,
    texts: TextTensors,
    shape: TextShape,
    count: tf.Tensor,
    letters_only_mask: tf.Tensor | None = None,
) -> dict[str, Any]:
    """A text batch (see `dssm_tf.text_features`) of the given words.

    Args:
        words: `[texts, words]`, word indices. An index and its bitwise complement are the same
            word.
        texts: the texts of the training.
        shape: length groups of the batch.
        count: number of texts to pad to.
        letters_only_mask: bool `(words,)` by word index, whether the own row of a word is left out.
    """
    distinct, index = tf.unique(words.flat_values)
    distinct = tf.maximum(distinct, tf.bitwise.invert(distinct))
    ngrams = tf.gather(texts.ngrams, distinct)
    if letters_only_mask is not None:
        ngrams = _without_last(ngrams, tf.gather(letters_only_mask, distinct))
    # Row 0 has no n-grams: padding tokens read it.
    word_rows = tf.RaggedTensor.from_row_splits(
        ngrams.values, tf.pad(ngrams.row_splits, [[1, 0]]), validate=False
    )
    word_ngrams, row_of_word = _group_by_length(word_rows, shape.word_ngrams)
    batch: dict[str, Any] = {"word_ngrams": word_ngrams}
    if texts.idf is not None:
        matrices = word_ngrams if isinstance(word_ngrams, tuple) else (word_ngrams,)
        rows = tf.add_n([tf.shape(matrix)[0] for matrix in matrices])
        idf = tf.gather(texts.idf.word_idf, distinct)
        batch["word_idf"] = tf.scatter_nd(row_of_word[1:, None], idf, rows[None])
        batch |= texts.idf.features(words, count, shape.pairs)
    tokens = words.with_values(tf.gather(row_of_word, index + 1))
    if len(shape.tokens) > 1:
        matrices, row_of_text = _group_by_length(tokens, shape.tokens)
        return batch | {"tokens": matrices, "rows": pad_to(row_of_text, [count])}
    # In one matrix, text i is row i, so the matrix has `count` rows.
    matrix = tokens.to_tensor()
    columns = sum(group.columns for group in shape.tokens if group.rows)
    sizes = [count, round_up(tf.shape(matrix)[1], columns)]
    return batch | {"tokens": pad_to(matrix, sizes)}


def _without_last(lists: tf.RaggedTensor, mask: tf.Tensor) -> tf.RaggedTensor:
    """Removes the last value of each list where the mask `(lists,)` is true."""
    last = tf.boolean_mask(lists.row_limits() - 1, mask)
    is_retained = tf.tensor_scatter_nd_update(
        tf.ones_like(lists.flat_values, tf.bool), last[:, None], tf.zeros_like(last, tf.bool)
    )
    lengths = lists.row_lengths() - tf.cast(mask, tf.int64)
    return tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(lists.flat_values, is_retained), lengths, validate=False
    )


def _group_by_length(
    ragged: tf.RaggedTensor, groups: tuple[LengthGroup, ...]
) -> tuple[Any, tf.Tensor]:
    """Puts rows into length groups, padded with zeros.

    Args:
        ragged: `[rows, columns]`.
        groups: increasing by `columns`; without any, all rows are one group.

    Returns:
        One matrix, or a tuple with one per group; and int32 `(rows,)`, the index of each row in
        the matrices concatenated from top to bottom.
    """
    lengths = tf.cast(ragged.row_lengths(), tf.int32)
    bounds = tf.constant([group.columns for group in groups[:-1]], tf.int32)
    group_of_row = tf.searchsorted(bounds, lengths)
    matrices, members, positions = [], [], []
    start = 0
    for index, group in enumerate(groups or [LengthGroup(0)]):
        rows = tf.cast(tf.where(group_of_row == index)[:, 0], tf.int32)
        matrix = tf.gather(ragged, rows).to_tensor()
        count, columns = tf.unstack(tf.shape(matrix))
        size = [
            round_up(count, group.rows),
            round_up(columns, group.columns if group.rows else 0),
        ]
        matrices.append(pad_to(matrix, size))
        members.append(rows)
        positions.append(start + tf.range(count))
        start += size[0]
    order = tf.math.invert_permutation(tf.concat(members, 0))
    position_of_row = tf.gather(tf.concat(positions, 0), order)
    return (tuple(matrices) if len(matrices) > 1 else matrices[0]), position_of_row


def round_up(needed: tf.Tensor, planned: int) -> tf.Tensor:
    """Rounds a size up to the planned size, or above it in steps of an eighth of it; at least 1.

    Args:
        needed: the smallest size that is enough.
        planned: the planned size; 0 returns the needed size.
    """
    if not planned:
        return tf.maximum(needed, 1)
    step = max(planned // 8, 1)
    return planned + tf.maximum((needed - planned + step - 1) // step, 0) * step


def pad_to(tensor: tf.Tensor, sizes: list[tf.Tensor]) -> tf.Tensor:
    """Pads with zeros at the end of each axis."""
    missing = tf.stack(sizes) - tf.shape(tensor)
    return tf.pad(tensor, tf.stack([tf.zeros_like(missing), missing], 1))


class LengthGroup(NamedTuple):
    """Rows of at most `columns` entries, padded to `rows` rows; 0 does not pad."""

    columns: int
    rows: int = 0


class TextShape(NamedTuple):
    """Shape of a text batch.

    Args:
        tokens: length groups of texts, by number of words; () for one group.
        word_ngrams: length groups of words, by number of n-grams; () for one group.
        pairs: number of word pairs to pad to; 0 does not pad.
    """

    tokens: tuple[LengthGroup, ...] = ()
    word_ngrams: tuple[LengthGroup, ...] = ()
    pairs: int = 0


@dataclass(frozen=True)
class BatchShapes:
    """Shapes of the text batches in a training batch: `query` and `titles`, or `texts` for both.

    With fixed numbers of rows, one compiled program serves most batches. A batch that does not fit
    grows in steps of an eighth of the planned size.

    Attributes:
        text_batches: the shape of each text batch by name. Text batches that are not listed have a
            single length group.
        distinct_titles: number of distinct titles per batch to pad to; 0 does not pad.
    """

    text_batches: Mapping[str, TextShape] = field(default_factory=dict)
    distinct_titles: int = 0

    def text_shape(self, name: str) -> TextShape:
        """The shape of a text batch."""
        return self.text_batches.get(name, TextShape())


def plan_shapes(
    batches: Sequence[dict[str, Any]], fixed: bool, quantiles: Sequence[float] = LENGTH_QUANTILES
) -> BatchShapes:
    """Shapes that suit a sample of batches.

    Args:
        batches: inputs of a `Siamese`; each text batch has one length group.
        fixed: whether the number of rows is fixed, as compiled programs require.
        quantiles: quantiles of the row lengths, as in `LENGTH_QUANTILES`.
    """
    text_batches = {}
    for name in batches[0].keys() - {"candidates", "in_batch"}:
        tokens, word_ngrams = (
            _plan_groups([_row_lengths(batch[name][matrix]) for batch in batches], fixed, quantiles)
            for matrix in ("tokens", "word_ngrams")
        )
        pairs = max(len(batch[name].get("pairs", ())) for batch in batches)
        text_batches[name] = TextShape(tokens, word_ngrams, _with_headroom(pairs) if fixed else 0)
    titles = 1 + max(int(np.max(batch["candidates"])) for batch in batches)
    return BatchShapes(text_batches, _with_headroom(titles) if fixed else 0)


def _row_lengths(matrix: Any) -> NDArray[np.int64]:
    """The number of entries per row that are not padding, at least 1."""
    lengths: NDArray[np.int64] = np.count_nonzero(np.asarray(matrix), axis=1)
    return np.maximum(lengths, 1)  # an empty row has one column of padding


def _plan_groups(
    batches: Sequence[NDArray[np.int64]], fixed: bool, quantiles: Sequence[float]
) -> tuple[LengthGroup, ...]:
    """Length groups for batches of rows.

    Args:
        batches: for each batch, the lengths of its rows.
        fixed: see `plan_shapes`.
        quantiles: see `plan_shapes`.
    """
    all_lengths = np.concatenate(batches)
    groups, previous = [], 0
    for bound in np.unique(np.quantile(all_lengths, quantiles).astype(int)).tolist():
        rows = max(int(np.sum((lengths > previous) & (lengths <= bound))) for lengths in batches)
        groups.append(LengthGroup(bound, _with_headroom(rows) if fixed else 0))
        previous = bound
    return tuple(groups)


def _with_headroom(size: int) -> int:
    """About a tenth more than `size`, rounded up to a multiple of 8."""
    return -(-int(size * 1.1 + 1) // _SIZE_MULTIPLE) * _SIZE_MULTIPLE
