"""Titles of several fields, such as title, brand and category: one text, `Halo␟Microsoft␟Games`.

The separator is U+241F, the symbol for the unit separator: it can be seen, typed and sent as JSON,
no title holds it otherwise, and `characters` has it among the characters that separate words.
So a title stays one string everywhere, and what knows nothing of fields reads all their words.

Fields share the rows of the first matrix, or a text rule (`TextLimits.own_fields`) gives those
after the first rows of their own: `sony` of field 1 is then the word `1␟sony`, whose trigrams are
`1#so`, `1son`, `1ony` and `1ny#`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dssm_tf.common.errors import UserError

SEPARATOR = "␟"
MOST_OWN_FIELDS = 6
"""Fields with rows of their own: 6 numbers and three code points make a key of 63 bits."""


def join_fields(cells: Sequence[str]) -> str:
    """Fields as one text; empty ones at the end leave nothing.

    >>> join_fields(["Halo", "", "Games"]), join_fields(["Halo", "", ""])
    ('Halo␟␟Games', 'Halo')
    """
    return SEPARATOR.join(cells).rstrip(SEPARATOR)


def split_fields(text: str, most: int = -1) -> list[str]:
    """The fields of a text; all that follows the last is part of it.

    Args:
        text: of any number of fields.
        most: how many there are at most; as many as the text has if below 1.

    >>> split_fields("Halo␟Microsoft␟Games␟More", 3)
    ['Halo', 'Microsoft', 'Games␟More']
    """
    return text.split(SEPARATOR, most - 1 if most > 0 else -1)


def marked(word: str, field: int) -> str:
    """A word of a field that has rows of its own; words of field 0 stay as they are.

    >>> marked("sony", 1), marked("halo", 0)
    ('1␟sony', 'halo')
    """
    return f"{field}{SEPARATOR}{word}" if field else word


def unmarked(word: str) -> tuple[str, str]:
    """A word's mark, `""` for field 0, and the word itself.

    >>> unmarked("1␟sony"), unmarked("halo")
    (('1', 'sony'), ('', 'halo'))
    """
    return (word[0], word[2:]) if word[1:2] == SEPARATOR else ("", word)


def cut(word: str, letters: int) -> str:
    """The first letters of a word, its mark not counted."""
    return word[: letters + 2] if word[1:2] == SEPARATOR else word[:letters]


def parse_fields(names: str) -> tuple[str, ...]:
    """The columns that `--title-fields` names, without case and outer white space.

    Raises:
        UserError: there is none, or one comes twice.

    >>> parse_fields("Title, brand")
    ('title', 'brand')
    """
    found = tuple(name.strip().lower() for name in names.split(","))
    if "" in found or len({*found}) < len(found):
        raise UserError(
            f"--title-fields is {names!r}; expected names of columns with commas between, each "
            "once, such as title,brand,category."
        )
    return found
