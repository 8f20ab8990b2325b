"""What each Unicode character becomes, frozen, so that every Python and TensorFlow agrees.

`str.lower` and `str.split` follow the Unicode version of the running Python and look at the
neighbours of a character (final sigma); TensorFlow's string ops follow the ICU they were built
with and the locale of the process. A model that sees one in training and the other in serving
is skewed. So the rule is defined once, in `characters.tsv`, per character and without context:

*   deleted: format characters (soft hyphen, joiners, direction marks, byte order mark) and
    variation selectors;
*   separator: punctuation, white space, control characters, lone surrogates, the replacement
    character of bad UTF-8, symbols below U+1F000 (emoji from there on are letters);
*   lower case: the simple mapping, one character to one, with I-with-dot to `i` and final sigma
    to sigma;
*   everything else (letters, digits, combining marks, CJK, unassigned) stays as it is.

No composition is applied: a letter with a combining mark is two characters. Unless accents are
kept, `leixões` and `leixoes` are one word, after lower case:

*   marks that a script's own readers leave out are deleted: the combining diacritics of Latin,
    Greek and Cyrillic, Hebrew points and Arabic vowel signs;
*   a letter that Unicode decomposes into another and such marks becomes the other: `õ` is `o`, `ά`
    is `α`, `ё` is `е`, and so is `й` `и`;
*   so does a Latin letter that is named after another, such as `ø`, "o with stroke", or `ł`;
*   a few are spelled out: `ß` is `ss`, `æ` is `ae`, `þ` is `th`.

Composed and decomposed texts of these scripts then have the same words. All other marks stay, since
a word is another one without them, or none: the vowel signs of Devanagari, Thai and their
neighbours, the voicing of kana, Hangul jamo, the hamza and madda of Arabic letters. German `ü` is
`u`, not `ue`: nothing in a text says which language it is.

From Unicode 14.0; `python -m tests.reference.character_rules` derives the file again.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("characters.tsv")
CODE_POINTS = 0x110000
SPACE = 0x20


@cache
def character_map(keep_accents: bool) -> dict[int, int | str | None]:
    """What each code point becomes, as `str.translate` takes it: others, `SPACE` or None.

    Those that stay as they are, are not in it, but for the space itself.
    """
    found: dict[int, int | str | None] = {}
    rows = [row.split("\t") for row in TABLE.read_text("utf-8").splitlines()[1:]]
    for first, last, step, rule, value in rows:
        codes = range(int(first, 16), int(last, 16) + 1, int(step))
        if rule == "lower":
            # Accents come before: a capital folds as its small letter does.
            for code in codes:
                small = code + int(value)
                found[code] = found.get(small, small)
        elif rule != "accent" or not keep_accents:
            for code in codes:
                found[code] = SPACE if rule == "separator" else value or None
    return found
