"""Adds one typing error to a text; the same text gets the same error in every run."""

from __future__ import annotations

import re
from random import Random
from string import ascii_lowercase

from dssm_tf.text.unspaced import blank_unspaced

_MIN_LETTERS = 4  # shorter words get no typing error


def with_typo(text: str, seed: int = 0) -> str:
    """Edits one letter of the longest word of a text; of equally long words, the first.

    A letter between the first and the last is selected. It is deleted, replaced or swapped with the
    next letter, or another letter is inserted before it. Of these edits, those that change the text
    are equally likely. A text whose words all have fewer than four letters does not change.

    Words of scripts that are written without spaces, such as Chinese, Japanese and Thai, are never
    edited, because a letter from a to z in them is no typing error. So a text of such words only
    does not change. See `dssm_tf.text.unspaced`.

    Args:
        text: the text to misspell.
        seed: another seed usually gives another edit.

    >>> with_typo("angle bracket"), with_typo("3 in. box")
    ('angle barcket', '3 in. box')
    """
    words = re.finditer(r"[^\W\d_]+", blank_unspaced(text))
    longest = max(words, key=lambda word: len(word[0]), default=None)
    if longest is None or len(longest[0]) < _MIN_LETTERS:
        return text
    random = Random(f"{seed or ''}{text}")
    offset = longest.start() + random.randrange(1, len(longest[0]) - 1)
    before, after = text[:offset], text[offset + 2 :]
    first, second = text[offset], text[offset + 1]
    other = random.choice(ascii_lowercase.replace(first.lower(), ""))
    edits = [
        second + after,
        other + second + after,
        other + first + second + after,
        second + first + after,
    ]
    return before + random.choice([edit for edit in edits if before + edit != text])
