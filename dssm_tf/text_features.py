"""Text to letter trigrams in TensorFlow ops: the same rules as `dssm_tf.text`, for a graph.

A *text batch* holds texts by their distinct words, so that everything that is equal for every
occurrence of a word (its trigrams, and the first learned matrix applied to them) is computed
once a batch:

    word_ngrams  int32 (distinct_words, max_ngrams_per_word)  ids of its trigrams, and of itself if
                                                              it has a row; 0 = padding; row 0 empty
    tokens       int32 (texts, max_words)                     index into word_ngrams, 0 = padding

A server is sent texts of any length, so what lies beyond the limits is cut off as a string, before
it becomes code points, and nothing is as long as the number of texts times the longest. Matrices
are: theirs is the longest of what is kept.

Only core TensorFlow ops are used (no lookup-table resource, no TensorFlow Text), so an exported
model needs no initialisation and loads in a stock TensorFlow Serving.
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
_COMPOSED_OF = 3  # code points that become a letter, at most
_SHRINKS = 3  # letters become at least a third of the bytes, as jamo that become a syllable


class TextFeatures:
    """Turns a string tensor into a text batch.

    Differs from a `keras.layers.TextVectorization` by letter trigrams, by computing each
    distinct word once, and by character rules that do not depend on the Unicode version or
    locale of the machine that serves.

    Args:
        vocabulary: trigrams, whole words and text rules.

    Call arguments:
        texts: string `(texts,)`, UTF-8; bad UTF-8 separates words.

    Returns:
        A text batch: `word_ngrams` int32 `(1 + distinct words, longest word)` and `tokens`
        int32 `(texts, longest text)`, both at least one column wide.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.rules = vocabulary.rules
        self.known = len(vocabulary.ngrams)
        whole = vocabulary.whole_words
        trigrams = {
            _key(ngram): row
            for row, ngram in enumerate(vocabulary.ngrams, start=1)
            if ngram not in whole
        }
        self._trigrams = Table.of(np.array([*trigrams], np.int64), [*trigrams.values()])
        no_mark = "0" if self.rules.own_fields > 1 else ""
        names = [(mark or no_mark) + word[1:-1] for mark, word in map(without_mark, whole)]
        hashes = hash_texts(tf.constant(names, tf.string)).numpy()
        self._whole = Table.of(hashes, [*whole.values()]) if whole else None
        _letters(self.rules.keep_accents)  # made here, not with the first text

    def __call__(self, texts: tf.Tensor) -> TextBatch:
        """The text batch of string `(texts,)`."""
        rules = self.rules
        place, words, fields = self._words(texts)
        most = rules.max_letters
        words = tf.strings.substr(words, 0, _COMPOSED_OF * most, unit="UTF8_CHAR")
        words = tf.strings.substr(_lettered(words, rules), 0, most, unit="UTF8_CHAR")
        if rules.own_fields > 1:  # a word of two fields is two words
            words = tf.strings.as_string(fields) + words
        distinct, index = tf.unique(words, out_idx=tf.int32)
        hashed = hash_texts(distinct)
        fields = tf.zeros_like(index[:0])
        if rules.own_fields > 1:
            fields = tf.strings.to_number(tf.strings.substr(distinct, 0, 1), tf.int64)
            distinct = tf.strings.substr(distinct, 1, 4 * rules.max_letters)
        decoded = tf.strings.unicode_decode(distinct, "UTF-8")
        letters, starts = decoded.flat_values, decoded.row_splits
        at = tf.range(tf.size(letters, out_type=tf.int64))
        # Not `value_rowids`, which takes memory for each word times the longest.
        word = tf.searchsorted(starts, at, side="right", out_type=tf.int64) - 1
        position = at - tf.gather(starts, word)
        is_last = at + 1 == tf.gather(starts, word + 1)
        cells = tf.stack([word + 1, position], 1)
        ids = self._ngram_ids(letters, position == 0, is_last, fields, word)
        if self._whole is not None:
            rows = 1 + tf.range(tf.size(hashed, tf.int64))
            cells = tf.concat([cells, tf.stack([rows, decoded.row_lengths()], 1)], 0)
            ids = tf.concat([ids, self._whole(hashed)], 0)
        return {
            "word_ngrams": _matrix(cells, ids, tf.size(distinct) + 1),
            "tokens": _matrix(place, index + 1, tf.size(texts)),
        }

    def _words(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Places `(words, 2)` of the words that are read, the words, and their fields."""
        rules = self.rules
        fields = None
        if rules.own_fields > 1:
            fields = tf.raw_ops.StringSplitV2(
                input=texts, sep=SEPARATOR, maxsplit=rules.own_fields - 1
            )
            texts = fields.values
        found = tf.raw_ops.StringSplitV2(
            input=_separated(texts, rules), sep="", maxsplit=rules.max_words
        )
        # What follows the last word that is read is one more piece.
        kept = found.indices[:, 1] < rules.max_words
        place = tf.boolean_mask(found.indices, kept)
        words = tf.boolean_mask(found.values, kept)
        if fields is None:
            return place, words, tf.zeros_like(place[:, 0])
        text, field = tf.unstack(tf.gather(fields.indices, place[:, 0]), axis=1)
        number = tf.range(tf.size(text, out_type=tf.int64))
        number -= tf.searchsorted(text, text, out_type=tf.int64)  # of the text's first word
        kept = number < rules.max_words
        place = tf.boolean_mask(tf.stack([text, number], axis=1), kept)
        return place, tf.boolean_mask(words, kept), tf.boolean_mask(field, kept)

    def _ngram_ids(
        self,
        letters: tf.Tensor,
        is_first: tf.Tensor,
        is_last: tf.Tensor,
        fields: tf.Tensor,
        word: tf.Tensor,
    ) -> tf.Tensor:
        """The id of the trigram around each letter; 0 where it is unseen and not bucketed.

        Args:
            letters: code points of all words, one after another.
            is_first: whether a letter begins its word.
            is_last: whether it ends it.
            fields: of each word; not looked at where no field has rows of its own.
            word: the place of each letter's word.
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


class Table(NamedTuple):
    """Ids by key, looked up without a resource.

    Args:
        keys: int64, increasing; the last is one that nothing has, so that there is one.
        ids: int32 `(keys,)`, 0 for the last.
    """

    keys: NDArray[np.int64]
    ids: NDArray[np.int32]

    @classmethod
    def of(cls, keys: NDArray[np.int64], ids: Sequence[int]) -> Table:
        """The table of these keys and their ids."""
        order = np.argsort(keys)
        return cls(
            np.append(keys[order], np.iinfo(np.int64).max),
            np.append(np.array(ids, np.int32)[order], 0).astype(np.int32),
        )

    def __call__(self, keys: tf.Tensor) -> tf.Tensor:
        """The id of each key; 0 for one that is not there."""
        place = tf.searchsorted(tf.constant(self.keys), keys)
        found = tf.gather(tf.constant(self.keys), place) == keys
        return tf.where(found, tf.gather(tf.constant(self.ids), place), 0)


def hash_texts(texts: tf.Tensor) -> tf.Tensor:
    """A number of 62 bits for each text: two of a million share one once in 10 million."""
    return tf.strings.to_hash_bucket_fast(texts, 1 << 62)


def _key(ngram: str) -> int:
    """A trigram as one number: its field, then its code points, as digits of base `CODE_POINTS`."""
    key = int(ngram[:-3] or 0)
    for letter in ngram[-3:]:
        key = key * CODE_POINTS + ord(letter)
    return key


def normalize(texts: tf.Tensor, rules: Rules, longest: int | None = None) -> tf.Tensor:
    """The words of each text joined by single spaces, fields by their separator, string `(texts,)`.

    Args:
        texts: string `(texts,)`, UTF-8.
        rules: as of `Rules.key`.
        longest: what is longer in bytes may be cut, to something that is still longer; None cuts
            nothing.
    """
    plain = _separated(texts, rules, but=SEPARATOR)
    plain = tf.strings.regex_replace(plain, f" *{SEPARATOR} *", SEPARATOR)
    plain = tf.strings.regex_replace(tf.strings.strip(plain), f"{SEPARATOR}+$", "")
    if longest is not None:
        # Of a character that is cut in two, up to three bytes are lost.
        plain = tf.strings.substr(plain, 0, _SHRINKS * (longest + 1) + 3)
    return _lettered(plain, rules)


def _separated(texts: tf.Tensor, rules: Rules, but: str = "") -> tf.Tensor:
    """Texts in good UTF-8, spaces for separators but one, and without what is deleted."""
    deleted, separators = _patterns(rules.keep_accents, but)
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", replacement_char=ord(" "))
    texts = tf.strings.regex_replace(texts, deleted, "")
    return tf.strings.regex_replace(texts, separators, " ")


@cache
def _patterns(keep_accents: bool, but: str) -> tuple[str, str]:
    """Regular expressions for runs of what is deleted, and of separators but one."""
    becomes = character_map(keep_accents)
    deleted = _any_of(code for code, to in becomes.items() if to is None)
    return deleted, _any_of(
        code for code, to in becomes.items() if to == SPACE and chr(code) != but
    )


def _any_of(codes: Iterable[int]) -> str:
    """A regular expression for a run of such characters; good UTF-8 has no surrogates."""
    kept = np.array(sorted(code for code in codes if code not in _SURROGATES))
    runs = np.split(kept, np.flatnonzero(np.diff(kept) > 1) + 1)
    inside = (rf"\x{{{run[0]:x}}}-\x{{{run[-1]:x}}}" for run in runs)
    return f"[{''.join(inside)}]+"


def _lettered(texts: tf.Tensor, rules: Rules) -> tf.Tensor:
    """Lower case by the table of `characters`, character by character; accents folded.

    Then voiced kana and Hangul syllables are composed.
    """
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    blocks, pages = _letters(rules.keep_accents)
    codes = decoded.flat_values
    place = tf.gather(tf.constant(blocks), codes // _PAGE) * _PAGE + codes % _PAGE
    letters = codes + tf.gather(tf.constant(pages[0]), place)
    if rules.keep_accents:
        return tf.strings.unicode_encode(_composed(letters, decoded.row_splits), "UTF-8")
    second = tf.gather(tf.constant(pages[1]), place)
    both = tf.stack([letters, second], axis=1)
    present = tf.stack([tf.ones_like(second, tf.bool), second > 0], axis=1)
    ends = tf.cumsum(1 + tf.cast(second > 0, tf.int64))
    splits = tf.gather(tf.pad(ends, [[1, 0]]), decoded.row_splits)
    return tf.strings.unicode_encode(_composed(tf.boolean_mask(both, present), splits), "UTF-8")


def _composed(codes: tf.Tensor, splits: tf.Tensor) -> tf.RaggedTensor:
    """Code points of texts as `dssm_tf.text.characters.compose` has them.

    Args:
        codes: of all texts, int32.
        splits: where each text begins, and the end.
    """
    composing = _within(codes, VOWELS) | _within(codes, TRAILING) | _is_mark(codes)
    codes, splits = tf.cond(
        tf.reduce_any(composing), lambda: _compose(codes, splits), lambda: (codes, splits)
    )
    return tf.RaggedTensor.from_row_splits(codes, splits, False)


def _compose(codes: tf.Tensor, splits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The composed code points, and where each text then begins."""
    at = tf.range(tf.size(codes, out_type=tf.int64))
    row = tf.searchsorted(splits, at, side="right", out_type=tf.int64) - 1
    is_first = at == tf.gather(splits, row)
    is_last = tf.roll(is_first, -1, 0)

    def before(values: tf.Tensor) -> tf.Tensor:
        return tf.where(is_first, tf.zeros_like(values), tf.roll(values, 1, 0))

    def behind(values: tf.Tensor) -> tf.Tensor:
        return tf.where(is_last, tf.zeros_like(values), tf.roll(values, -1, 0))

    size = len(TRAILING) + 1
    leading, vowel = _within(codes, LEADING), _within(codes, VOWELS)
    trailing = _within(codes, TRAILING)
    is_open = _within(codes, SYLLABLES) & ((codes - SYLLABLES.start) % size == 0)
    last = tf.where(trailing, codes - TRAILING.start + 1, 0)
    begins = leading & behind(vowel)
    joins_vowel = vowel & before(leading)
    pair = (codes - LEADING.start) * len(VOWELS) + behind(codes) - VOWELS.start
    syllable = SYLLABLES.start + pair * size + behind(behind(last))
    shift = _voicing_shift(codes, behind(codes))
    composed = tf.where(begins, syllable, codes + shift + tf.where(is_open, behind(last), 0))
    gone = joins_vowel | (trailing & (before(joins_vowel) | before(is_open))) | before(shift > 0)
    kept = tf.cumsum(tf.cast(~gone, tf.int64))
    return tf.boolean_mask(composed, ~gone), tf.gather(tf.pad(kept, [[1, 0]]), splits)


def _within(codes: tf.Tensor, of: range) -> tf.Tensor:
    return (codes >= of.start) & (codes < of.stop)


def _is_mark(codes: tf.Tensor) -> tf.Tensor:
    return (codes == VOICED_MARK) | (codes == SEMIVOICED_MARK)


def _voicing_shift(codes: tf.Tensor, following: tf.Tensor) -> tf.Tensor:
    """How far a kana is from its voiced form, 0 unless a mark that it can have follows."""
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
    """What each code point becomes, if it is neither deleted nor separates.

    Returns:
        The page of each block of 256 code points, 0 if none moves; and of all pages' code points
        how far they move, and the second letter of those that become two, `(2, pages * 256)`.
    """
    found = np.zeros((CODE_POINTS, 2), np.int32)
    for code, target in character_map(keep_accents).items():
        if target not in (None, SPACE):
            letters = [target] if isinstance(target, int) else list(map(ord, target))
            found[code, : len(letters)] = letters
            found[code, 0] -= code
    rows = found.reshape(-1, 2 * _PAGE)
    changed = rows.any(axis=1)
    pages = np.concatenate([np.zeros_like(rows[:1]), rows[changed]])
    blocks = np.where(changed, np.cumsum(changed), 0).astype(np.int32)
    return blocks, pages.reshape(-1, 2).T.copy()


def _matrix(places: tf.Tensor, values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Values at their row and column, 0 elsewhere; as wide as it must be, and at least 1."""
    width = tf.reduce_max(tf.pad(places[:, 1], [[0, 1]])) + 1
    return tf.scatter_nd(places, values, tf.stack([tf.cast(rows, tf.int64), width]))
