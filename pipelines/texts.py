"""Columns of texts: normal forms, fingerprints and words; and random numbers of fingerprints."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.text.fields import SEPARATOR, cut
from dssm_tf.text.rules import Rules

Hashes = NDArray[np.uint64]
SPLIT, DRAW = range(2)
"""Purposes of random numbers: no two have the same."""


def normal_forms(texts: pl.Series, rules: Rules) -> pl.Series:
    """The normal form of each text: ASCII all at once, the rest one by one."""
    found = texts.str.to_lowercase().str.replace_all("[^0-9a-z]+", " ").str.strip_chars(" ")
    odd = texts.str.contains("[^\\x00-\\x7f]").arg_true()
    return found.scatter(odd, [rules.key(text) for text in texts.gather(odd)])


def fingerprints(texts: pl.Series) -> pl.Series:
    """The unsigned 64-bit fingerprint of each text, see `dssm_tf.text.fingerprint`."""
    digests = (blake2b(one.encode(), digest_size=8).digest() for one in texts.to_list())
    return pl.Series(np.frombuffer(b"".join(digests), "<u8"), dtype=pl.UInt64)


def mix(numbers: Hashes, salt: int = 0) -> Hashes:
    """Other 64-bit numbers, as if drawn at random (splitmix64)."""
    found = numbers + np.uint64(0x9E3779B97F4A7C15 * (salt + 1) % (1 << 64))
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))


def unit(numbers: Hashes) -> NDArray[np.float64]:
    """64-bit numbers as fractions from 0 to 1."""
    return (numbers >> np.uint64(11)).astype(np.float64) / (1 << 53)


def random(numbers: Hashes, seed: int, purpose: int) -> Hashes:
    """Numbers that depend on the given ones, the seed and the purpose alone."""
    return mix(numbers, 3 * seed + purpose)


def words_read(forms: pl.Series, rules: Rules) -> tuple[pl.Series, NDArray[np.int64]]:
    """What is read of normal forms, end to end: the first words, of each its first letters.

    Returns:
        The words, of which those of fields with rows of their own are marked; and how many each
        text has.
    """
    most = rules.max_letters
    if rules.own_fields > 1:
        lists = [[cut(word, most) for word in rules.words(form)] for form in forms]
        words = pl.Series(lists, dtype=pl.List(pl.String))
    else:
        words = forms.str.replace_all(f"{SEPARATOR}+", " ").str.strip_chars(" ").str.split(" ")
    words = words.list.head(rules.max_words)
    flat = words.explode()
    flat = flat.str.head(most) if rules.own_fields == 1 else flat
    return flat, words.list.len().to_numpy().astype(np.int64)


class BlockList(NamedTuple):
    """Words and whole queries to drop.

    Args:
        words: a query that holds one of them is dropped.
        queries: normalised; a query that equals one is dropped.
    """

    words: Sequence[str] = ()
    queries: Sequence[str] = ()

    @classmethod
    def parse(cls, text: str, rules: Rules) -> BlockList:
        """From a file's lines: `word`, `several words`, `=word` and `# comment`."""
        words: list[str] = []
        queries: list[str] = []
        for line in map(str.strip, text.splitlines()):
            key = rules.key(line)
            if not line.startswith("#"):
                (queries if line.startswith("=") or " " in key else words).append(key)
        return cls(words, queries)

    def blocks(self, queries: pl.Series) -> pl.Series:
        """Whether each normalised query is to be dropped."""
        words, whole = (pl.Series(one, dtype=pl.String).implode() for one in self)
        hit = queries.str.split(" ").list.set_intersection(words).list.len() > 0
        return hit | queries.is_in(whole)
