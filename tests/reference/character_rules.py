"""The character rules of `dssm_tf.text`, derived from the Unicode database of Python.

`python -m tests.reference.character_rules > dssm_tf/text/characters.tsv` freezes them. Run it with
a Python whose `unicodedata.unidata_version` is `UNICODE_VERSION`.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache

UNICODE_VERSION = "14.0.0"
FIRST_EMOJI = 0x1F000
ZERO_WIDTH_SPACE = 0x200B
# Blocks of marks that readers of the script often omit: those of Latin, Greek and Cyrillic, Hebrew
# points, Arabic vowel signs, and the other blocks of combining diacritics.
OPTIONAL_MARKS = (
    (0x300, 0x36F),
    (0x483, 0x487),
    (0x591, 0x5C7),
    (0x64B, 0x652),
    (0x670, 0x670),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0xFE20, 0xFE2F),
)
# Blocks of scripts that are written without spaces between words.
UNSPACED = {
    "cjk": (
        (0x3000, 0x302D),  # symbols that are letters, such as 々 and 〇, and marks of tones
        (0x3030, 0x30FF),  # further ones, without two marks of Hangul; Hiragana, Katakana
        (0x31F0, 0x31FF),
        (0x3400, 0x4DBF),
        (0x4E00, 0x9FFF),
        (0xF900, 0xFAFF),
        (0x1AFF0, 0x1B16F),
        (0x20000, 0x3FFFF),
    ),
    "thai": ((0xE00, 0xE7F),),
    "lao": ((0xE80, 0xEFF),),
    "khmer": ((0x1780, 0x17FF),),
    "myanmar": ((0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),
}
SPELLED = {
    "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ı": "i", "ȷ": "j", "ŋ": "n",
    "ĸ": "q", "ſ": "s", "ŉ": "n", "ĳ": "ij", "ǆ": "dz", "ǳ": "dz", "ǉ": "lj", "ǌ": "nj",
}  # fmt: skip


def is_deleted(code: int) -> bool:
    """Format characters (soft hyphen, joiners, direction marks) and variation selectors."""
    return (
        (unicodedata.category(chr(code)) == "Cf" and code != ZERO_WIDTH_SPACE)
        or 0xFE00 <= code <= 0xFE0F
        or 0xE0100 <= code <= 0xE01EF
    )


def is_separator(code: int) -> bool:
    """Punctuation, white space, control, surrogates, and symbols other than emoji."""
    category = unicodedata.category(chr(code))
    if category[0] == "S":
        return code < FIRST_EMOJI
    return category[0] in "PZ" or category in ("Cc", "Cs") or code == ZERO_WIDTH_SPACE


def lower(code: int) -> int:
    """Simple lower case: one character to one, at any position of a word."""
    if code == 0x130:  # capital dotted I
        return ord("i")
    if code == 0x3C2:  # final sigma
        return 0x3C3
    lowered = chr(code).lower()
    return ord(lowered) if len(lowered) == 1 else code


def is_mark(code: int) -> bool:
    """A mark that can be left out: nonspacing or enclosing, in one of `OPTIONAL_MARKS`."""
    inside = any(first <= code <= last for first, last in OPTIONAL_MARKS)
    return inside and unicodedata.category(chr(code)) in ("Mn", "Me")


@cache
def fold(letter: str) -> str:
    """A lower-case letter without its marks, or the letter itself if it has none."""
    if letter in SPELLED:
        return SPELLED[letter]
    base, *marks = unicodedata.normalize("NFD", letter)
    if marks and all(is_mark(ord(mark)) for mark in marks):
        return fold(base)
    name = unicodedata.name(letter, "")
    if ord(letter) < 0x10000 and (match := re.match("LATIN SMALL LETTER ([A-Z]) WITH ", name)):
        return match[1].lower()
    return letter


def is_letter(code: int) -> bool:
    """Whether a code point is part of words and is not a mark."""
    return not (is_deleted(code) or is_separator(code) or is_mark(code))


@cache
def usual_width(code: int) -> int:
    """The usual form of a full-width or half-width letter, in lower case; else 0."""
    kind, *target = unicodedata.decomposition(chr(code)).split()[:2] or [""]
    if kind not in ("<wide>", "<narrow>") or not is_letter(code):
        return 0
    return lower(int(target[0], 16))


def voicings() -> Iterator[tuple[int, str, str]]:
    """Of each kana that can be voiced: the rule of the mark, and how far the voiced one is."""
    for mark, rule in (("\u3099", "voiced"), ("\u309a", "semivoiced")):
        for code in range(0x3040, 0x3100):
            composed = unicodedata.normalize("NFC", chr(code) + mark)
            if len(composed) == 1:
                yield code, rule, str(ord(composed) - code)


def unspaced() -> Iterator[tuple[int, str, str]]:
    """Letters and marks of the scripts without spaces, with the name of the script.

    Their digits and punctuation are not special. All code points of the planes of ideographs are
    letters, also those that later versions of Unicode assign.
    """
    for script, blocks in UNSPACED.items():
        codes = [code for first, last in blocks for code in range(first, last + 1)]
        for code in codes:
            category = unicodedata.category(chr(code))
            if category[0] == "L" or category == "Nl" or code >= 0x20000:
                yield code, "letter", script
        for code in codes:
            if unicodedata.category(chr(code))[0] == "M":
                yield code, "mark", script


def rules() -> Iterator[tuple[int, str, str]]:
    """Yields code point, rule and replacement of each code point that is changed.

    The rule `accent` does not apply if accents are kept.
    """
    codes = range(sys.maxunicode + 1)
    for code in filter(is_mark, codes):
        yield code, "accent", ""
    for code in codes:
        if is_letter(code) and lower(code) == code and (base := fold(chr(code))) != chr(code):
            yield code, "accent", base
    for code in codes:
        usual = not is_deleted(code) and not is_separator(code) and not usual_width(code)
        if usual and lower(code) != code:
            yield code, "lower", str(lower(code) - code)
    for code in filter(usual_width, codes):
        yield code, "width", str(usual_width(code) - code)
    yield from voicings()
    yield from unspaced()
    for code in filter(is_separator, codes):
        yield code, "separator", ""
    for code in filter(is_deleted, codes):
        yield code, "deleted", ""


def table() -> str:
    """The rules as a table: runs of code points, first and last included."""
    runs: list[list] = []
    for code, *rule in rules():
        if runs and runs[-1][3:] == rule:
            first, last, step, *_ = runs[-1]
            if code - last <= 2 and (first == last or code - last == step):
                runs[-1][1:3] = code, code - last
                continue
        runs.append([code, code, 1, *rule])
    rows = (f"{first:X}\t{last:X}\t{step}\t{rule}\t{to}\n" for first, last, step, rule, to in runs)
    return "first\tlast\tstep\trule\tbecomes\n" + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(table())
