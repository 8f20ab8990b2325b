"""Text to letter trigrams in TensorFlow ops: the same rules as `dssm_tf.text`, for a graph.

A *text batch* holds texts by their distinct words, so that everything that is equal for every
occurrence of a word (its trigrams, and the first learned matrix applied to them) is computed
once a batch:

    word_ngrams  int32 (distinct_words, max_ngrams_per_word)  trigram ids, 0 = padding; row 0 empty
    tokens       int32 (texts, max_words)                     index into word_ngrams, 0 = padding

Only core TensorFlow ops are used (no lookup-table resource, no TensorFlow Text), so an exported
model needs no initialisation and loads in a stock TensorFlow Serving.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import tensorflow as tf

from dssm_tf.text.character_rules import CODE_POINTS, DELETE, SPACE, character_map
from dssm_tf.text.letter_ngrams import BOUNDARY, BUCKET_MODULUS, BUCKET_MULTIPLIERS
from dssm_tf.text.vocabulary import Vocabulary

TextBatch = dict[str, tf.Tensor]

_PAGE = 256
_CODE_BITS = 21
_REPLACEMENT = 0xFFFD


class TextFeatures:
    """Turns a string tensor into a text batch.

    Differs from a `keras.layers.TextVectorization` by letter trigrams, by computing each
    distinct word once, and by character rules that do not depend on the Unicode version or
    locale of the machine that serves.

    Args:
        vocabulary: trigrams and limits.

    Call arguments:
        texts: string `(texts,)`, UTF-8; bad UTF-8 separates words.

    Returns:
        A text batch: `word_ngrams` int32 `(1 + distinct words, longest word)` and `tokens`
        int32 `(texts, longest text)`, both at least one column wide.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.limits = vocabulary.limits
        self.known = len(vocabulary.ngrams)
        keys = np.array([_key(ngram) for ngram in vocabulary.ngrams], np.int64)
        order = np.argsort(keys)
        # The sentinel keeps the tables non-empty; no trigram has it as a key.
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._ids = np.append(order + 1, 0).astype(np.int32)

    def __call__(self, texts: tf.Tensor) -> TextBatch:
        """The text batch of string `(texts,)`."""
        letters, positions, word_of, word_text = self._split(texts)
        words = tf.shape(word_text)[0]
        word_lengths = tf.math.unsorted_segment_sum(tf.ones_like(letters), word_of, words)
        strings = tf.strings.unicode_encode(
            tf.RaggedTensor.from_row_lengths(letters, word_lengths, validate=False), "UTF-8"
        )
        distinct, index = tf.unique(strings)
        count = tf.shape(distinct)[0]
        first = tf.math.unsorted_segment_min(tf.range(words), index, count)
        is_first = tf.gather(tf.range(words) == tf.gather(first, index), word_of)
        ngrams = tf.boolean_mask(
            self._ngram_ids(letters, positions, word_of, word_lengths), is_first
        )
        word_ngrams = tf.RaggedTensor.from_row_lengths(
            ngrams, tf.gather(word_lengths, first), validate=False
        ).to_tensor()
        tokens = tf.RaggedTensor.from_value_rowids(
            index + 1, word_text, nrows=tf.size(texts, out_type=word_text.dtype), validate=False
        ).to_tensor()
        return {
            "word_ngrams": _at_least_one_column(tf.pad(word_ngrams, [[1, 0], [0, 0]])),
            "tokens": _at_least_one_column(tokens),
        }

    def normalize(self, texts: tf.Tensor) -> tf.Tensor:
        """The words of each text joined by single spaces: string `(texts,)`, not cut."""
        codes, text_of = _codes(texts)
        ragged = tf.RaggedTensor.from_value_rowids(
            codes, text_of, nrows=tf.size(texts, out_type=text_of.dtype), validate=False
        )
        spaced = tf.strings.unicode_encode(ragged, "UTF-8")
        return tf.strings.strip(tf.strings.regex_replace(spaced, " +", " "))

    def _split(self, texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Letters kept, their position in the word, their word's index; the text of each word."""
        codes, text_of = _codes(texts)
        is_letter = codes != SPACE
        before = tf.concat([[False], is_letter[:-1]], 0)
        new_text = tf.concat([[True], text_of[1:] != text_of[:-1]], 0)[: tf.size(codes)]
        starts = is_letter & (~before[: tf.size(codes)] | new_text)
        start_at = tf.where(starts)[:, 0]
        word_text = tf.gather(text_of, start_at)
        codes = tf.boolean_mask(codes, is_letter)
        word_of = tf.boolean_mask(tf.cumsum(tf.cast(starts, tf.int32)) - 1, is_letter)
        letter_start = tf.where(tf.boolean_mask(starts, is_letter))[:, 0]
        position = tf.range(tf.size(codes)) - tf.gather(tf.cast(letter_start, tf.int32), word_of)

        # Cut long words, then long texts.
        first_word = tf.math.unsorted_segment_min(
            tf.range(tf.size(word_text)), word_text, tf.size(texts)
        )
        place = tf.range(tf.size(word_text)) - tf.gather(first_word, word_text)
        word_kept = place < self.limits.max_words
        kept = (position < self.limits.max_letters) & tf.gather(word_kept, word_of)
        renumbered = tf.cumsum(tf.cast(word_kept, tf.int32)) - 1
        return (
            tf.boolean_mask(codes, kept),
            tf.boolean_mask(position, kept),
            tf.gather(renumbered, tf.boolean_mask(word_of, kept)),
            tf.boolean_mask(word_text, word_kept),
        )

    def _ngram_ids(
        self, letters: tf.Tensor, positions: tf.Tensor, word_of: tf.Tensor, lengths: tf.Tensor
    ) -> tf.Tensor:
        """The id of the trigram around each letter; 0 where it is unseen and not bucketed."""
        boundary = tf.constant(ord(BOUNDARY), tf.int32)
        is_last = positions == tf.gather(lengths, word_of) - 1
        left = tf.where(positions == 0, boundary, tf.roll(letters, 1, 0))
        right = tf.where(is_last, boundary, tf.roll(letters, -1, 0))
        trigram = [tf.cast(codes, tf.int64) for codes in (left, letters, right)]
        key = trigram[0]
        for codes in trigram[1:]:
            key = tf.bitwise.left_shift(key, _CODE_BITS) + codes
        place = tf.searchsorted(tf.constant(self._keys), key)
        found = tf.gather(tf.constant(self._keys), place) == key
        ids = tf.where(found, tf.gather(tf.constant(self._ids), place), 0)
        if not self.limits.hash_buckets:
            return ids
        mixed = tf.add_n([m * c for m, c in zip(BUCKET_MULTIPLIERS, trigram, strict=True)])
        buckets = mixed % BUCKET_MODULUS % self.limits.hash_buckets
        return tf.where(found, ids, 1 + self.known + tf.cast(buckets, tf.int32))


def _key(ngram: str) -> int:
    a, b, c = map(ord, ngram)
    return (a << 2 * _CODE_BITS) + (b << _CODE_BITS) + c


def _codes(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mapped code points of all texts, deleted ones left out, and the text of each."""
    decoded = tf.strings.unicode_decode(
        texts, "UTF-8", errors="replace", replacement_char=_REPLACEMENT
    )
    blocks, pages = _character_pages()
    flat = decoded.flat_values
    page = tf.gather(tf.constant(blocks), flat // _PAGE)
    mapped = tf.gather(tf.constant(pages), page * _PAGE + flat % _PAGE)
    # A page holds the character where it becomes, as a shift, so that plain pages are shared.
    codes = tf.where(
        mapped == _TO_SPACE, SPACE, tf.where(mapped == _TO_NOTHING, DELETE, flat + mapped)
    )
    kept = codes != DELETE
    return tf.boolean_mask(codes, kept), tf.boolean_mask(decoded.value_rowids(), kept)


_TO_SPACE = CODE_POINTS
_TO_NOTHING = CODE_POINTS + 1


@cache
def _character_pages() -> tuple[np.ndarray, np.ndarray]:
    """`character_map` in two levels: the page of each block of 256, and the distinct pages."""
    target = np.array(character_map(), np.int32)
    shift = target - np.arange(CODE_POINTS, dtype=np.int32)
    shift[target == SPACE] = _TO_SPACE
    shift[target == DELETE] = _TO_NOTHING
    pages, blocks = np.unique(shift.reshape(-1, _PAGE), axis=0, return_inverse=True)
    return blocks.reshape(-1).astype(np.int32), pages.reshape(-1).astype(np.int32)


def _at_least_one_column(matrix: tf.Tensor) -> tf.Tensor:
    missing = tf.maximum(1 - tf.shape(matrix)[1], 0)
    return tf.pad(matrix, [[0, 0], [0, missing]])
