"""Lower case without accents, punctuation to space, white-space split; numbers kept, no stemming.

S14 sec. 4, but for the accents: those can be kept.
"""

from __future__ import annotations

from functools import cache

from dssm_tf.text.character_rules import character_map
from dssm_tf.text.fields import SEPARATOR, join_fields, split_fields

_translation = cache(character_map)


@cache
def _ascii_translation() -> bytes:
    """The same of ASCII, of which nothing is deleted, as `bytes.translate` wants it."""
    found = {code: to for code, to in _translation(True).items() if isinstance(to, int)}
    return bytes(found.get(code, code) for code in range(128)) + bytes(128)


def words(text: str, keep_accents: bool = False) -> list[str]:
    """Splits a text into its words, by the rules of `character_rules` and `accents`.

    >>> words("The Wizard-of-Oz, 1939!")
    ['the', 'wizard', 'of', 'oz', '1939']
    >>> words("Leixões"), words("Leixões", keep_accents=True)
    (['leixoes'], ['leixões'])
    """
    # After translation the plain space is the only white space left.
    if text.isascii():  # a third of the time, for what most words are made of
        return text.encode("ascii").translate(_ascii_translation()).decode("ascii").split()
    return text.translate(_translation(keep_accents)).split()


def normalize(text: str, keep_accents: bool = False) -> str:
    """The words of a text, joined by single spaces: texts equal under it are the same query.

    Fields of a title stay apart.

    >>> normalize("  Ice   CREAM?  ")
    'ice cream'
    >>> normalize("Halo: Reach ␟ Microsoft ␟ ")
    'halo reach␟microsoft'
    """
    if SEPARATOR in text:
        return join_fields([normalize(one, keep_accents) for one in split_fields(text)])
    return " ".join(words(text, keep_accents))


def decode(raw: bytes) -> str:
    """Bytes as text; bad UTF-8 becomes U+FFFD, which separates words."""
    return raw.decode("utf-8", errors="replace")
