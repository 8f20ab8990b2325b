"""One typing error in a text, the same in every run."""

from __future__ import annotations

import re
from random import Random
from string import ascii_lowercase

_LEAST = 4  # letters of a word that gets an error


def with_typo(text: str, number: int = 0) -> str:
    """A text with one edit in its longest word, the first of equals.

    A letter after the first is left out, replaced, preceded by another one, or swapped with the
    next, all equally likely. A text whose words have fewer than four letters stays as it is.

    Args:
        text: to misspell.
        number: other numbers give other edits.

    >>> with_typo("angle bracket"), with_typo("3 in. box")
    ('angle barcket', '3 in. box')
    """
    words = re.finditer(r"[^\W\d_]+", text)
    longest = max(words, key=lambda word: len(word[0]), default=None)
    if longest is None or len(longest[0]) < _LEAST:
        return text
    random = Random(f"{number or ''}{text}")
    place = longest.start() + random.randrange(1, len(longest[0]) - 1)
    before, after = text[:place], text[place + 2 :]
    first, second = text[place], text[place + 1]
    other = random.choice(ascii_lowercase.replace(first.lower(), ""))
    edits = [
        second + after,
        other + second + after,
        other + first + second + after,
        second + first + after,
    ]
    return before + random.choice([one for one in edits if before + one != text])
