"""Converts texts to letter n-grams in TensorFlow ops, by the same rules as `dssm_tf.text`.

A *text batch* has each distinct word of its texts once. So the values that are equal for every
occurrence of a word (its letter n-grams, and the product with the first matrix) are computed once
per batch:

    word_ngrams  int32 (distinct_words, max_ngrams_per_word)  ids of each word's letter n-grams, and
                                                              of the whole word if it has a row;
                                                              0 is padding, and row 0 is empty
    tokens       int32 (texts, max_words)                     rows of word_ngrams, 0 is padding

A server receives texts of any length. Text beyond the limits is therefore removed from the string,
before it is decoded to code points, and no tensor is as large as the number of texts times the
longest raw text. The matrices are only as wide as the longest text or word within the limits.

Only core TensorFlow ops are used (no lookup-table resource, no TensorFlow Text), so an exported
model needs no initialization and loads in a standard TensorFlow Serving.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dssm_tf.character_ops import (
    MAX_CODES_PER_LETTER,
    letter_tables,
    replace_letters,
    replace_separators,
)
from dssm_tf.id_table import IdTable, hash_texts
from dssm_tf.term_features import TermFeatures
from dssm_tf.text.characters import CODE_POINTS
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.fields import SEPARATOR
from dssm_tf.text.letter_ngrams import (
    BOUNDARY,
    BUCKET_MODULUS,
    BUCKET_MULTIPLIERS,
    FIELD_MULTIPLIER,
    KIND_TERMS,
    WHOLE_WORD,
    parse_ngram,
)
from dssm_tf.text.rules import NgramKind
from dssm_tf.text.vocabulary import Vocabulary

TextBatch = dict[str, tf.Tensor]


class TextFeatures:
    """Turns a string tensor into a text batch.

    Differs from `keras.layers.TextVectorization` by letter n-grams, by computing each distinct
    word once, and by character rules that do not depend on the serving machine's Unicode version or
    locale.

    Args:
        vocabulary: letter n-grams, whole words and text rules.
        frequencies: document frequencies, for models that compare words; see
            `dssm_tf.term_features`.

    Call arguments:
        texts: string `(texts,)`, UTF-8; invalid UTF-8 separates words.

    Returns:
        A text batch: `word_ngrams` int32 `(1 + distinct words, longest word)` and `tokens`
        int32 `(texts, longest text)`, both at least one column wide; with `frequencies` also the
        terms.
    """

    def __init__(
        self, vocabulary: Vocabulary, frequencies: DocumentFrequencies | None = None
    ) -> None:
        self.rules = vocabulary.rules
        self._terms = None
        if frequencies is not None:
            self._terms = TermFeatures(frequencies, self.rules.own_fields)
        self.known = len(vocabulary.ngrams)
        no_field = "0" if self.rules.own_fields > 1 else ""
        id_of_key: dict[str, dict[int, int]] = {kind: {} for kind in self.rules.letter_ngrams}
        id_of_name = {}
        for id, ngram in enumerate(vocabulary.ngrams, start=1):
            field, kind, characters = parse_ngram(ngram)
            if kind == WHOLE_WORD:
                id_of_name[(field or no_field) + characters[1:-1]] = id
            else:
                id_of_key[kind][_key(field, characters)] = id
        # One table for each kind: the numbers of fields and three code points fill a key.
        self._ngrams = {
            kind: IdTable.from_keys(np.array([*ids], np.int64), [*ids.values()])
            for kind, ids in id_of_key.items()
        }
        hashes = hash_texts(tf.constant([*id_of_name], tf.string)).numpy()
        self._whole_words = (
            IdTable.from_keys(hashes, [*id_of_name.values()]) if id_of_name else None
        )
        letter_tables(self.rules.keep_accents)  # computed now, so that the first text is fast

    def __call__(self, texts: tf.Tensor) -> TextBatch:
        """The text batch of string `(texts,)`."""
        rules = self.rules
        positions, words, fields = self._words(texts)
        max_letters = rules.max_letters
        words = tf.strings.substr(words, 0, MAX_CODES_PER_LETTER * max_letters, unit="UTF8_CHAR")
        words = tf.strings.substr(replace_letters(words, rules), 0, max_letters, unit="UTF8_CHAR")
        if rules.own_fields > 1:  # the same word in two fields counts as two words
            words = tf.strings.as_string(fields) + words
        distinct, index = tf.unique(words, out_idx=tf.int32)
        hashed = hash_texts(distinct)
        terms = {}
        if self._terms is not None:
            terms = self._terms(words, positions[:, 0], hashed, tf.size(texts))
        fields = tf.zeros_like(hashed)
        if rules.own_fields > 1:
            fields = tf.strings.to_number(tf.strings.substr(distinct, 0, 1), tf.int64)
            distinct = tf.strings.substr(distinct, 1, 4 * rules.max_letters)
        decoded = tf.strings.unicode_decode(distinct, "UTF-8")
        letters, starts = decoded.flat_values, decoded.row_splits
        offset = tf.range(tf.size(letters, out_type=tf.int64))
        # Not `value_rowids`, whose memory is the number of words times the longest word.
        word = tf.searchsorted(starts, offset, side="right", out_type=tf.int64) - 1
        position = offset - tf.gather(starts, word)
        is_last = offset + 1 == tf.gather(starts, word + 1)
        cells, ids = [], []
        column = tf.zeros_like(starts[:-1])  # the next free one of each word
        for kind in self.rules.letter_ngrams:
            characters, word_of_ngram, index_of_ngram = _ngrams(
                kind, letters, word, position, is_last
            )
            columns = tf.gather(column, word_of_ngram) + index_of_ngram
            cells.append(tf.stack([word_of_ngram + 1, columns], 1))
            ids.append(self._ids(kind, characters, tf.gather(fields, word_of_ngram)))
            column += decoded.row_lengths() + (kind == "pairs")
        if self._whole_words is not None:
            cells.append(tf.stack([1 + tf.range(tf.size(hashed, tf.int64)), column], 1))
            ids.append(self._whole_words(hashed))
        return {
            "word_ngrams": _matrix(tf.concat(cells, 0), tf.concat(ids, 0), tf.size(distinct) + 1),
            "tokens": _matrix(positions, index + 1, tf.size(texts)),
        } | terms

    def _words(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Words within the limits: positions `(words, 2)` as (text, word index); words; fields."""
        rules = self.rules
        fields = None
        if rules.own_fields > 1:
            fields = tf.raw_ops.StringSplitV2(
                input=texts, sep=SEPARATOR, maxsplit=rules.own_fields - 1
            )
            texts = fields.values
        pieces = tf.raw_ops.StringSplitV2(
            input=replace_separators(texts, rules), sep="", maxsplit=rules.max_words
        )
        # If there are more words, the rest of the text is one more piece.
        within_limit = pieces.indices[:, 1] < rules.max_words
        positions = tf.boolean_mask(pieces.indices, within_limit)
        words = tf.boolean_mask(pieces.values, within_limit)
        if fields is None:
            return positions, words, tf.zeros_like(positions[:, 0])
        text, field = tf.unstack(tf.gather(fields.indices, positions[:, 0]), axis=1)
        # The index of each word in its text, over all fields.
        index = tf.range(tf.size(text, out_type=tf.int64))
        index -= tf.searchsorted(text, text, out_type=tf.int64)
        within_limit = index < rules.max_words
        positions = tf.boolean_mask(tf.stack([text, index], axis=1), within_limit)
        words = tf.boolean_mask(words, within_limit)
        return positions, words, tf.boolean_mask(field, within_limit)

    def _ids(
        self, kind: NgramKind, characters: Sequence[tf.Tensor], fields: tf.Tensor
    ) -> tf.Tensor:
        """The id of each n-gram of a kind; 0 if it is unknown and has no hash bucket.

        Args:
            kind: the kind.
            characters: the code points at each place of the n-grams, int64 `(n-grams,)` each.
            fields: the field of each n-gram; 0 if no field has its own rows.
        """
        key = fields
        for codes in characters:
            key = key * CODE_POINTS + codes
        ids = self._ngrams[kind](key)
        if not self.rules.hash_buckets:
            return ids
        mixed = KIND_TERMS[kind] + FIELD_MULTIPLIER * fields
        for multiplier, codes in zip(BUCKET_MULTIPLIERS, characters, strict=False):
            mixed += multiplier * codes
        buckets = mixed % BUCKET_MODULUS % self.rules.hash_buckets
        return tf.where(ids > 0, ids, 1 + self.known + tf.cast(buckets, tf.int32))


def _ngrams(
    kind: NgramKind, letters: tf.Tensor, word: tf.Tensor, position: tf.Tensor, is_last: tf.Tensor
) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]:
    """The letter n-grams of words, as `dssm_tf.text.letter_ngrams` finds them.

    Args:
        kind: the kind.
        letters: code points of all words, one word after another.
        word: the index of each letter's word.
        position: the position of each letter in its word.
        is_last: whether each letter is the last of its word.

    Returns:
        The code points at each place of the n-grams, int64 `(n-grams,)` each; the word of each
        n-gram; and its position among those of its word.
    """
    letters = tf.cast(letters, tf.int64)
    boundary = tf.constant(ord(BOUNDARY), tf.int64)
    left = tf.where(position == 0, boundary, tf.roll(letters, 1, 0))
    if kind == "pairs":
        # Each letter with its left one, then the last letters with the boundary.
        last = tf.boolean_mask(letters, is_last)
        left = tf.concat([left, last], 0)
        right = tf.concat([letters, tf.fill(tf.shape(last), boundary)], 0)
        word = tf.concat([word, tf.boolean_mask(word, is_last)], 0)
        position = tf.concat([position, tf.boolean_mask(position, is_last) + 1], 0)
        return [left, right], word, position
    right = tf.where(is_last, boundary, tf.roll(letters, -1, 0))
    if kind == "trigrams":
        return [left, letters, right], word, position
    lowest = tf.minimum(tf.minimum(left, letters), right)
    highest = tf.maximum(tf.maximum(left, letters), right)
    return [lowest, left + letters + right - lowest - highest, highest], word, position


def _key(field: str, characters: str) -> int:
    """An n-gram as an integer: its field and code points are the digits in base `CODE_POINTS`."""
    key = int(field or 0)
    for character in characters:
        key = key * CODE_POINTS + ord(character)
    return key


def _matrix(cells: tf.Tensor, values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """A matrix with values at the cells `(values, 2)`, else 0; at least one column wide."""
    width = tf.reduce_max(tf.pad(cells[:, 1], [[0, 1]])) + 1
    return tf.scatter_nd(cells, values, tf.stack([tf.cast(rows, tf.int64), width]))
