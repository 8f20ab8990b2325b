"""Converts texts to letter trigrams in TensorFlow ops, by the same rules as `dssm_tf.text`.

A *text batch* has each distinct word of its texts once. So the values that are equal for every
occurrence of a word (its trigrams, and the product with the first matrix) are computed once per
batch:

    word_ngrams  int32 (distinct_words, max_ngrams_per_word)  trigram ids of each word, and the id
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

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.text.characters import (
    CODE_POINTS,
    FIRST_KANA,
    LAST_KANA,
    LEADING,
    SEMIVOICED_MARK,
    SPACE,
    SYLLABLES,
    TRAILING,
    VOICED_MARK,
    VOWELS,
    character_map,
    voicings,
)
from dssm_tf.text.fields import SEPARATOR
from dssm_tf.text.letter_ngrams import (
    BOUNDARY,
    BUCKET_MODULUS,
    BUCKET_MULTIPLIERS,
    FIELD_MULTIPLIER,
    without_mark,
)
from dssm_tf.text.rules import Rules
from dssm_tf.text.vocabulary import Vocabulary

TextBatch = dict[str, tf.Tensor]

_PAGE = 256
_SURROGATES = range(0xD800, 0xE000)
_MAX_CODES_PER_LETTER = 3  # maximum number of code points that compose to one letter
_SHRINKS = 3  # letters shrink to at least a third of their bytes, when jamo become a syllable


class TextFeatures:
    """Turns a string tensor into a text batch.

    Differs from `keras.layers.TextVectorization` by letter trigrams, by computing each distinct
    word once, and by character rules that do not depend on the serving machine's Unicode version or
    locale.

    Args:
        vocabulary: trigrams, whole words and text rules.

    Call arguments:
        texts: string `(texts,)`, UTF-8; invalid UTF-8 separates words.

    Returns:
        A text batch: `word_ngrams` int32 `(1 + distinct words, longest word)` and `tokens`
        int32 `(texts, longest text)`, both at least one column wide.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.rules = vocabulary.rules
        self.known = len(vocabulary.ngrams)
        whole_words = vocabulary.whole_words
        trigrams = {
            _key(ngram): row
            for row, ngram in enumerate(vocabulary.ngrams, start=1)
            if ngram not in whole_words
        }
        self._trigrams = IdTable.of(np.array([*trigrams], np.int64), [*trigrams.values()])
        no_mark = "0" if self.rules.own_fields > 1 else ""
        names = [(mark or no_mark) + word[1:-1] for mark, word in map(without_mark, whole_words)]
        hashes = hash_texts(tf.constant(names, tf.string)).numpy()
        self._whole_words = IdTable.of(hashes, [*whole_words.values()]) if whole_words else None
        _letters(self.rules.keep_accents)  # computed now, so that the first text is not slow

    def __call__(self, texts: tf.Tensor) -> TextBatch:
        """The text batch of string `(texts,)`."""
        rules = self.rules
        positions, words, fields = self._words(texts)
        max_letters = rules.max_letters
        words = tf.strings.substr(words, 0, _MAX_CODES_PER_LETTER * max_letters, unit="UTF8_CHAR")
        words = tf.strings.substr(_replace_letters(words, rules), 0, max_letters, unit="UTF8_CHAR")
        if rules.own_fields > 1:  # the same word in two fields counts as two words
            words = tf.strings.as_string(fields) + words
        distinct, index = tf.unique(words, out_idx=tf.int32)
        hashed = hash_texts(distinct)
        fields = tf.zeros_like(index[:0])
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
        cells = tf.stack([word + 1, position], 1)
        ids = self._ngram_ids(letters, position == 0, is_last, fields, word)
        if self._whole_words is not None:
            rows = 1 + tf.range(tf.size(hashed, tf.int64))
            cells = tf.concat([cells, tf.stack([rows, decoded.row_lengths()], 1)], 0)
            ids = tf.concat([ids, self._whole_words(hashed)], 0)
        return {
            "word_ngrams": _matrix(cells, ids, tf.size(distinct) + 1),
            "tokens": _matrix(positions, index + 1, tf.size(texts)),
        }

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
            input=_replace_separators(texts, rules), sep="", maxsplit=rules.max_words
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

    def _ngram_ids(
        self,
        letters: tf.Tensor,
        is_first: tf.Tensor,
        is_last: tf.Tensor,
        fields: tf.Tensor,
        word: tf.Tensor,
    ) -> tf.Tensor:
        """The id of the trigram around each letter; 0 if it is unknown and has no hash bucket.

        Args:
            letters: code points of all words, one word after another.
            is_first: whether each letter is the first of its word.
            is_last: whether each letter is the last of its word.
            fields: the field of each word; ignored if no field has its own rows.
            word: the index of each letter's word.
        """
        boundary = tf.constant(ord(BOUNDARY), tf.int32)
        left = tf.where(is_first, boundary, tf.roll(letters, 1, 0))
        right = tf.where(is_last, boundary, tf.roll(letters, -1, 0))
        trigram = [tf.cast(codes, tf.int64) for codes in (left, letters, right)]
        field = None
        key = tf.zeros_like(trigram[0])
        if self.rules.own_fields > 1:
            key = field = tf.gather(fields, word)
        for codes in trigram:
            key = key * CODE_POINTS + codes
        ids = self._trigrams(key)
        if not self.rules.hash_buckets:
            return ids
        mixed = tf.add_n([m * c for m, c in zip(BUCKET_MULTIPLIERS, trigram, strict=True)])
        if field is not None:
            mixed += FIELD_MULTIPLIER * field
        buckets = mixed % BUCKET_MODULUS % self.rules.hash_buckets
        return tf.where(ids > 0, ids, 1 + self.known + tf.cast(buckets, tf.int32))


class IdTable(NamedTuple):
    """Ids by key, looked up by binary search instead of a table resource.

    Args:
        keys: int64, increasing; the last one is a sentinel, the largest int64.
        ids: int32 `(keys,)`; 0 for the sentinel.
    """

    keys: NDArray[np.int64]
    ids: NDArray[np.int32]

    @classmethod
    def of(cls, keys: NDArray[np.int64], ids: Sequence[int]) -> IdTable:
        """A table from keys `(keys,)` in any order to the ids at the same index."""
        order = np.argsort(keys)
        return cls(
            np.append(keys[order], np.iinfo(np.int64).max),
            np.append(np.array(ids, np.int32)[order], 0).astype(np.int32),
        )

    def __call__(self, keys: tf.Tensor) -> tf.Tensor:
        """The id of each key; 0 for a key that is not in the table."""
        index = tf.searchsorted(tf.constant(self.keys), keys)
        is_known = tf.gather(tf.constant(self.keys), index) == keys
        return tf.where(is_known, tf.gather(tf.constant(self.ids), index), 0)


def hash_texts(texts: tf.Tensor) -> tf.Tensor:
    """A 62-bit hash of each text. Among a million texts, a collision has probability 1e-7."""
    return tf.strings.to_hash_bucket_fast(texts, 1 << 62)


def _key(ngram: str) -> int:
    """A trigram as an integer: its field and code points are the digits in base `CODE_POINTS`."""
    key = int(ngram[:-3] or 0)
    for letter in ngram[-3:]:
        key = key * CODE_POINTS + ord(letter)
    return key


def normalize(texts: tf.Tensor, rules: Rules, max_bytes: int | None = None) -> tf.Tensor:
    """The key of each text, as `Rules.key` computes it: words and fields joined, `(texts,)`.

    Args:
        texts: string `(texts,)`, UTF-8.
        rules: the text rules.
        max_bytes: longer keys, in bytes, may be truncated, but stay longer than `max_bytes`. None
            truncates nothing.
    """
    plain = _replace_separators(texts, rules, kept_separator=SEPARATOR)
    plain = tf.strings.regex_replace(plain, f" *{SEPARATOR} *", SEPARATOR)
    plain = tf.strings.regex_replace(tf.strings.strip(plain), f"{SEPARATOR}+$", "")
    if max_bytes is not None:
        # The cut may split a character, which loses up to three bytes.
        plain = tf.strings.substr(plain, 0, _SHRINKS * (max_bytes + 1) + 3)
    return _replace_letters(plain, rules)


def _replace_separators(texts: tf.Tensor, rules: Rules, kept_separator: str = "") -> tf.Tensor:
    """Converts texts to valid UTF-8, removes deleted characters, and makes separators spaces.

    Args:
        texts: string `(texts,)`.
        rules: the text rules.
        kept_separator: a separator that does not become a space.
    """
    deleted, separators = _patterns(rules.keep_accents, kept_separator)
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", replacement_char=ord(" "))
    texts = tf.strings.regex_replace(texts, deleted, "")
    return tf.strings.regex_replace(texts, separators, " ")


@cache
def _patterns(keep_accents: bool, kept_separator: str) -> tuple[str, str]:
    """Regular expressions for runs of deleted characters, and of separators that become spaces."""
    replacements = character_map(keep_accents).items()
    deleted = _any_of(code for code, target in replacements if target is None)
    return deleted, _any_of(
        code for code, target in replacements if target == SPACE and chr(code) != kept_separator
    )


def _any_of(codes: Iterable[int]) -> str:
    """A regular expression for a run of these characters. Valid UTF-8 has no surrogates."""
    valid = np.array(sorted(code for code in codes if code not in _SURROGATES))
    runs = np.split(valid, np.flatnonzero(np.diff(valid) > 1) + 1)
    inside = (rf"\x{{{run[0]:x}}}-\x{{{run[-1]:x}}}" for run in runs)
    return f"[{''.join(inside)}]+"


def _replace_letters(texts: tf.Tensor, rules: Rules) -> tf.Tensor:
    """Lower-cases each character by the table of `characters`, and folds accents.

    Then voiced kana and Hangul syllables are composed.
    """
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    blocks, pages = _letters(rules.keep_accents)
    codes = decoded.flat_values
    # The index of each code point in `pages`.
    index = tf.gather(tf.constant(blocks), codes // _PAGE) * _PAGE + codes % _PAGE
    letters = codes + tf.gather(tf.constant(pages[0]), index)
    if rules.keep_accents:
        return tf.strings.unicode_encode(_compose_if_needed(letters, decoded.row_splits), "UTF-8")
    second = tf.gather(tf.constant(pages[1]), index)
    both = tf.stack([letters, second], axis=1)
    present = tf.stack([tf.ones_like(second, tf.bool), second > 0], axis=1)
    ends = tf.cumsum(1 + tf.cast(second > 0, tf.int64))
    splits = tf.gather(tf.pad(ends, [[1, 0]]), decoded.row_splits)
    return tf.strings.unicode_encode(
        _compose_if_needed(tf.boolean_mask(both, present), splits), "UTF-8"
    )


def _compose_if_needed(codes: tf.Tensor, splits: tf.Tensor) -> tf.RaggedTensor:
    """Composes code points as `dssm_tf.text.characters.compose` does, if any can be composed.

    Args:
        codes: int32, code points of all texts, one text after another.
        splits: the start of each text in `codes`, and the end.
    """
    composing = _within(codes, VOWELS) | _within(codes, TRAILING) | _is_mark(codes)
    codes, splits = tf.cond(
        tf.reduce_any(composing), lambda: _compose(codes, splits), lambda: (codes, splits)
    )
    return tf.RaggedTensor.from_row_splits(codes, splits, False)


def _compose(codes: tf.Tensor, splits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The composed code points, and the new `splits`."""
    offset = tf.range(tf.size(codes, out_type=tf.int64))
    row = tf.searchsorted(splits, offset, side="right", out_type=tf.int64) - 1
    is_first = offset == tf.gather(splits, row)
    is_last = tf.roll(is_first, -1, 0)

    def before(values: tf.Tensor) -> tf.Tensor:
        return tf.where(is_first, tf.zeros_like(values), tf.roll(values, 1, 0))

    def after(values: tf.Tensor) -> tf.Tensor:
        return tf.where(is_last, tf.zeros_like(values), tf.roll(values, -1, 0))

    size = len(TRAILING) + 1
    leading, vowel = _within(codes, LEADING), _within(codes, VOWELS)
    trailing = _within(codes, TRAILING)
    is_open = _within(codes, SYLLABLES) & ((codes - SYLLABLES.start) % size == 0)
    last = tf.where(trailing, codes - TRAILING.start + 1, 0)
    begins = leading & after(vowel)
    joins_vowel = vowel & before(leading)
    pair = (codes - LEADING.start) * len(VOWELS) + after(codes) - VOWELS.start
    syllable = SYLLABLES.start + pair * size + after(after(last))
    shift = _voicing_shift(codes, after(codes))
    composed = tf.where(begins, syllable, codes + shift + tf.where(is_open, after(last), 0))
    is_removed = (
        joins_vowel | (trailing & (before(joins_vowel) | before(is_open))) | before(shift > 0)
    )
    ends = tf.cumsum(tf.cast(~is_removed, tf.int64))
    return tf.boolean_mask(composed, ~is_removed), tf.gather(tf.pad(ends, [[1, 0]]), splits)


def _within(codes: tf.Tensor, block: range) -> tf.Tensor:
    """Whether each code point is in a block."""
    return (codes >= block.start) & (codes < block.stop)


def _is_mark(codes: tf.Tensor) -> tf.Tensor:
    """Whether each code point is a voicing mark of kana."""
    return (codes == VOICED_MARK) | (codes == SEMIVOICED_MARK)


def _voicing_shift(codes: tf.Tensor, following: tf.Tensor) -> tf.Tensor:
    """The offset of each kana to its voiced form; 0 unless a mark that it can have follows."""
    shifts = np.zeros((2, LAST_KANA + 1 - FIRST_KANA), np.int32)
    for (code, mark), voiced in voicings().items():
        shifts[mark - VOICED_MARK, code - FIRST_KANA] = voiced - code
    is_voiced = (codes >= FIRST_KANA) & (codes <= LAST_KANA) & _is_mark(following)
    column = tf.where(is_voiced, codes - FIRST_KANA, 0)
    row = tf.where(is_voiced, following - VOICED_MARK, 0)
    shift = tf.gather(tf.constant(shifts.ravel()), row * shifts.shape[1] + column)
    return tf.where(is_voiced, shift, 0)


@cache
def _letters(keep_accents: bool) -> tuple[np.ndarray, np.ndarray]:
    """The replacement of each code point that is neither deleted nor a separator, in two tables.

    Returns:
        `blocks`: the page of each block of 256 code points; 0 for a block without replacements.
        `pages`, `(2, pages * 256)`: for each code point of a page, the offset to its replacement,
        and a second letter or 0.
    """
    replacements = np.zeros((CODE_POINTS, 2), np.int32)
    for code, target in character_map(keep_accents).items():
        if target not in (None, SPACE):
            letters = [target] if isinstance(target, int) else list(map(ord, target))
            replacements[code, : len(letters)] = letters
            replacements[code, 0] -= code
    rows = replacements.reshape(-1, 2 * _PAGE)
    changed = rows.any(axis=1)
    pages = np.concatenate([np.zeros_like(rows[:1]), rows[changed]])
    blocks = np.where(changed, np.cumsum(changed), 0).astype(np.int32)
    return blocks, pages.reshape(-1, 2).T.copy()


def _matrix(cells: tf.Tensor, values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """A matrix with values at the cells `(values, 2)`, else 0; at least one column wide."""
    width = tf.reduce_max(tf.pad(cells[:, 1], [[0, 1]])) + 1
    return tf.scatter_nd(cells, values, tf.stack([tf.cast(rows, tf.int64), width]))
