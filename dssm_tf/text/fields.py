"""Titles of several fields, such as title, brand and category: one text, `Halo␟Microsoft␟Games`.

The separator is U+241F, the symbol for the unit separator. It can be displayed, typed and sent as
JSON, other titles do not contain it, and it separates words, see `characters`. So a title is one
string everywhere, and code without support for fields reads the words of all fields.

By default, all fields share the rows of the first matrix. If `TextRules.own_fields` is above 1, the
fields after the first have separate rows: `sony` of field 1 is then the word `1␟sony`, with the
trigrams `1␟#so`, `1␟son`, `1␟ony` and `1␟ny#`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dssm_tf.common.errors import UserError

SEPARATOR = "␟"
MAX_OWN_FIELDS = 6
"""Maximum of `TextRules.own_fields`: one field number and 3 code points fit into 63 bits."""


def join_fields(cells: Sequence[str]) -> str:
    """Joins fields to one text, without empty fields at the end.

    >>> join_fields(["Halo", "", "Games"]), join_fields(["Halo", "", ""])
    ('Halo␟␟Games', 'Halo')
    """
    return SEPARATOR.join(cells).rstrip(SEPARATOR)


def split_fields(text: str, max_fields: int = -1) -> list[str]:
    """Splits a text into at most `max_fields` fields; the last one has the rest of the text.

    Args:
        text: a text of any number of fields.
        max_fields: maximum number of fields; no limit if below 1.

    >>> split_fields("Halo␟Microsoft␟Games␟More", 3)
    ['Halo', 'Microsoft', 'Games␟More']
    """
    return text.split(SEPARATOR, max_fields - 1 if max_fields > 0 else -1)


def mark_word(word: str, field: int) -> str:
    """Marks a word with the number of its field; words of field 0 are unchanged.

    >>> mark_word("sony", 1), mark_word("halo", 0)
    ('1␟sony', 'halo')
    """
    return f"{field}{SEPARATOR}{word}" if field else word


def split_mark(word: str) -> tuple[str, str]:
    """Splits a word into its mark, `""` for field 0, and the word itself.

    >>> split_mark("1␟sony"), split_mark("halo")
    (('1␟', 'sony'), ('', 'halo'))
    """
    return (word[:2], word[2:]) if word[1:2] == SEPARATOR else ("", word)


def without_marks(words: str) -> str:
    """A word, or a pair of words, as users read it: without the marks of fields.

    >>> without_marks("1␟sony"), without_marks("halo 1␟sony")
    ('sony', 'halo sony')
    """
    return " ".join(split_mark(word)[1] for word in words.split(" "))


def join_marked_words(words: Sequence[str]) -> str:
    """A text whose words are the given ones, in the order of their fields.

    >>> join_marked_words(["halo", "reach", "2␟games"])
    'halo reach␟␟games'
    """
    cells: list[list[str]] = [[] for _ in range(MAX_OWN_FIELDS)]
    for marked_word in words:
        mark, word = split_mark(marked_word)
        cells[int(mark[:1] or 0)].append(word)
    return join_fields([*map(" ".join, cells)])


def truncate_word(word: str, letters: int) -> str:
    """The first letters of a word; its mark does not count."""
    return word[: letters + 2] if word[1:2] == SEPARATOR else word[:letters]


def parse_fields(names: str) -> tuple[str, ...]:
    """Parses the value of `--title-fields`, ignoring case and outer white space.

    Raises:
        UserError: a name is empty or repeated.

    >>> parse_fields("Title, brand")
    ('title', 'brand')
    """
    fields = tuple(name.strip().lower() for name in names.split(","))
    if "" in fields or len({*fields}) < len(fields):
        raise UserError(
            f"--title-fields is {names!r}; expected names of columns separated by commas, each "
            "once, such as title,brand,category."
        )
    return fields
