"""Lower case, punctuation to space, white-space split; numbers kept, no stemming (S14 sec. 4)."""

from __future__ import annotations

from functools import cache

from dssm_tf.text.character_rules import DELETE, SPACE, character_map


@cache
def _translation() -> dict[int, int | None]:
    """The character map as `str.translate` wants it, without the characters that stay."""
    return {
        code: None if target == DELETE else target
        for code, target in enumerate(character_map())
        if target != code or code == SPACE
    }


def words(text: str) -> list[str]:
    """Splits a text into its words, by the rules of `character_rules`.

    >>> words("The Wizard-of-Oz, 1939!")
    ['the', 'wizard', 'of', 'oz', '1939']
    """
    # After translation the plain space is the only white space left.
    return text.translate(_translation()).split()


def normalize(text: str) -> str:
    """The words of a text, joined by single spaces: texts equal under it are the same query.

    >>> normalize("  Ice   CREAM?  ")
    'ice cream'
    """
    return " ".join(words(text))


def decode(raw: bytes) -> str:
    """Bytes as text; bad UTF-8 becomes U+FFFD, which separates words."""
    return raw.decode("utf-8", errors="replace")
