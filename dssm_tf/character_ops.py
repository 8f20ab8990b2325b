"""The character rules of `dssm_tf.text` in TensorFlow ops.

Only core TensorFlow ops are used, see `dssm_tf.text_features`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import tensorflow as tf

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
from dssm_tf.text.rules import TextRules
from dssm_tf.text.unspaced import make_original_patterns

MAX_CODES_PER_LETTER = 3
"""Maximum number of code points that compose to one letter."""
_FIRST, _LAST = "\x01", "\x02"  # around a run of a script without spaces
_PAGE = 256
_SURROGATES = range(0xD800, 0xE000)
_SHRINKS = 3  # letters shrink to at least a third of their bytes, when jamo become a syllable


def normalize(texts: tf.Tensor, rules: TextRules, max_bytes: int | None = None) -> tf.Tensor:
    """The key of each text, as `TextRules.key` computes it: words and fields joined, `(texts,)`.

    Args:
        texts: string `(texts,)`, UTF-8.
        rules: the text rules.
        max_bytes: longer keys, in bytes, may be truncated, but stay longer than `max_bytes`. None
            truncates nothing.
    """
    plain = replace_separators(texts, rules, kept_separator=SEPARATOR)
    plain = tf.strings.regex_replace(plain, f" *{SEPARATOR} *", SEPARATOR)
    plain = tf.strings.regex_replace(tf.strings.strip(plain), f"{SEPARATOR}+$", "")
    if max_bytes is not None:
        # The cut may split a character, which loses up to three bytes.
        plain = tf.strings.substr(plain, 0, _SHRINKS * (max_bytes + 1) + 3)
    return replace_letters(plain, rules)


def replace_separators(texts: tf.Tensor, rules: TextRules, kept_separator: str = "") -> tf.Tensor:
    """Converts texts to valid UTF-8, removes deleted characters, and separates words by spaces.

    Separators become spaces. Runs of scripts without spaces become pairs, as in
    `dssm_tf.text.unspaced`, although their letters are not yet replaced.

    Args:
        texts: string `(texts,)`.
        rules: the text rules.
        kept_separator: a separator that does not become a space.
    """
    deleted, separators = _patterns(rules.keep_accents, kept_separator)
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", replacement_char=ord(" "))
    texts = tf.strings.regex_replace(texts, deleted, "")
    texts = tf.strings.regex_replace(texts, separators, " ")
    has_unspaced = tf.strings.regex_full_match(texts, f"(?s).*{make_original_patterns().any}.*")
    return tf.cond(tf.reduce_any(has_unspaced), lambda: _split_unspaced(texts), lambda: texts)


def _split_unspaced(texts: tf.Tensor) -> tf.Tensor:
    """Puts spaces between the pairs of scripts without spaces, and around their runs.

    RE2 has no overlapping matches, so a run `ABC` first becomes `<A AB BC C>`, each character
    twice, and then loses its first and its last character, unless it has only one. The brackets are
    control characters, which the texts no longer contain.
    """
    runs, character = make_original_patterns()[1:]
    groups = "".join(f"\\{group}" for group in range(1, 1 + runs.count("(")))
    texts = tf.strings.regex_replace(texts, runs, f" {_FIRST}{groups}{_LAST} ")
    texts = tf.strings.regex_replace(texts, character, r"\0 \0")
    once = f"(?:{character})"
    ends = f"{_FIRST}({once}) {once}{_LAST}|{_FIRST}{once} | {once}{_LAST}"
    texts = tf.strings.regex_replace(texts, ends, r"\1")
    return tf.strings.regex_replace(texts, " +", " ")


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


def replace_letters(texts: tf.Tensor, rules: TextRules) -> tf.Tensor:
    """Lower-cases each character by the table of `characters`, and folds accents.

    Then voiced kana and Hangul syllables are composed.
    """
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    blocks, pages = letter_tables(rules.keep_accents)
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
def letter_tables(keep_accents: bool) -> tuple[np.ndarray, np.ndarray]:
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
