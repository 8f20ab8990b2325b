"""The frozen mapping of Unicode characters, the same in every version of Python and TensorFlow.

`str.lower` and `str.split` depend on the Unicode version of the running Python and on the
neighbors of a character (final sigma). TensorFlow's string ops depend on their ICU version and on
the locale of the process. A model with different rules in training and serving is skewed.
Therefore the rules are defined once, in `characters.tsv`, per character and without context:

*   deleted: format characters (soft hyphen, joiners, direction marks, byte order mark) and
    variation selectors;
*   separator: punctuation, white space, control characters, lone surrogates, the replacement
    character of bad UTF-8, symbols below U+1F000 (emoji from there on are letters);
*   lower case: the simple mapping, one character to one, with I-with-dot to `i` and final sigma
    to sigma;
*   width: full-width Latin letters and digits and half-width kana and jamo become standard ones;
*   everything else (letters, digits, combining marks, CJK, unassigned) is unchanged.

Then two scripts are composed, because their texts are written composed or decomposed: a kana and a
voicing mark become the voiced kana, conjoining jamo become a Hangul syllable. See `compose`. Other
letters with a combining mark stay two characters. Unless accents are kept, `leixões` and `leixoes`
are one word, by the following rules after lower case:

*   marks that a script's own readers leave out are deleted: the combining diacritics of Latin,
    Greek and Cyrillic, Hebrew points and Arabic vowel signs;
*   a letter that Unicode decomposes into another and such marks becomes the other: `õ` is `o`, `ά`
    is `α`, `ё` is `е`, and so is `й` `и`;
*   so does a Latin letter that is named after another, such as `ø`, "o with stroke", or `ł`;
*   a few are spelled out: `ß` is `ss`, `æ` is `ae`, `þ` is `th`.

Composed and decomposed texts of these scripts then have the same words. All other marks stay,
because a word without them is another word, or none: the vowel signs of Devanagari, Thai and
related scripts, the voicing of kana, the hamza and madda of Arabic letters. German `ü` is `u`, not
`ue`, because the language of a text is unknown.

Scripts that are written without spaces have two more rules, `letter` and `mark`, which change no
character; see `unspaced`.

From Unicode 14.0; `python -m tests.reference.character_rules` generates the file.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("characters.tsv")
CODE_POINTS = 0x110000
SPACE = 0x20


VOICED_MARK, SEMIVOICED_MARK = 0x3099, 0x309A
FIRST_KANA, LAST_KANA = 0x3040, 0x30FF
# Leading consonants, vowels and trailing consonants; a syllable may lack the last.
LEADING, VOWELS, TRAILING = range(0x1100, 0x1113), range(0x1161, 0x1176), range(0x11A8, 0x11C3)
SYLLABLES = range(0xAC00, 0xD7A4)
_COMPOSING = re.compile("[\u1161-\u1175\u11a8-\u11c2\u3099\u309a]")
_COMPOSED = re.compile(
    "[\u3040-\u30ff][\u3099\u309a]|[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?"
    "|[\uac00-\ud7a3][\u11a8-\u11c2]"
)


@cache
def _rows() -> list[tuple[range, str, str]]:
    rows = [row.split("\t") for row in TABLE.read_text("utf-8").splitlines()[1:]]
    return [
        (range(int(first, 16), int(last, 16) + 1, int(step)), rule, value)
        for first, last, step, rule, value in rows
    ]


@cache
def character_map(keep_accents: bool) -> dict[int, int | str | None]:
    """The mapping for `str.translate`: from a code point to another, to `SPACE`, or to None.

    Unchanged code points are left out, except the space.
    """
    mapping: dict[int, int | str | None] = {}
    for codes, rule, value in _rows():
        if rule == "lower":
            # Accent rules come first in the file: a capital maps as its small letter does.
            for code in codes:
                small = code + int(value)
                mapping[code] = mapping.get(small, small)
        elif rule == "width":
            for code in codes:
                mapping[code] = code + int(value)
        elif rule in ("separator", "deleted") or (rule == "accent" and not keep_accents):
            for code in codes:
                mapping[code] = SPACE if rule == "separator" else value or None
    return mapping


@cache
def voicings() -> dict[tuple[int, int], int]:
    """The voiced kana of each pair of a kana and a voicing mark."""
    marks = {"voiced": VOICED_MARK, "semivoiced": SEMIVOICED_MARK}
    return {
        (code, marks[rule]): code + int(value)
        for codes, rule, value in _rows()
        if rule in marks
        for code in codes
    }


@cache
def unspaced_characters() -> dict[str, tuple[list[int], list[int]]]:
    """The letters and the marks of each script that is written without spaces, increasing."""
    characters: dict[str, tuple[list[int], list[int]]] = {}
    for codes, rule, script in _rows():
        if rule in ("letter", "mark"):
            characters.setdefault(script, ([], []))[rule == "mark"].extend(codes)
    return characters


def compose(text: str) -> str:
    """Composes voiced kana and Hangul syllables of a text.

    Composition is as in Unicode's NFC, by arithmetic for Hangul (The Unicode Standard, section
    3.12).

    Args:
        text: after `character_map`.

    >>> compose("\u304b\u3099") == "\u304c", compose("\u1112\u1161\u11ab") == "\ud55c"
    (True, True)
    """
    return _COMPOSED.sub(_compose, text) if _COMPOSING.search(text) else text


def _compose(match: re.Match[str]) -> str:
    codes = [*map(ord, match[0])]
    if codes[1] in (VOICED_MARK, SEMIVOICED_MARK):
        voiced = voicings().get((codes[0], codes[1]))
        return match[0] if voiced is None else chr(voiced)
    if codes[0] in SYLLABLES:
        open_syllable = (codes[0] - SYLLABLES.start) % (len(TRAILING) + 1) == 0
        return chr(codes[0] + codes[1] - TRAILING.start + 1) if open_syllable else match[0]
    pair = LEADING.index(codes[0]) * len(VOWELS) + VOWELS.index(codes[1])
    last = codes[2] - TRAILING.start + 1 if len(codes) > 2 else 0
    return chr(SYLLABLES.start + pair * (len(TRAILING) + 1) + last)
