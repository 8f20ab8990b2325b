"""Columns of texts: normal forms, fingerprints and words."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from dssm_tf.text.fields import SEPARATOR, cut
from dssm_tf.text.rules import Rules


def normal_forms(texts: pl.Series, rules: Rules) -> pl.Series:
    """The normal form of each text: ASCII all at once, the rest one by one."""
    array = texts.to_arrow().cast(pa.large_string())
    ends = np.frombuffer(array.buffers()[1], np.int64)[array.offset :][: len(array) + 1]
    data = bytes(array.buffers()[2] or b"")[: ends[-1]]
    if data.isascii():
        return _of_ascii(data.translate(_ascii_rule(rules)), ends)
    letters = np.frombuffer(data, np.uint8)
    # The text that each letter outside ASCII is in.
    odd = np.unique(np.searchsorted(ends, np.flatnonzero(letters > 127), side="right") - 1)
    plain = np.where(letters > 127, ord(" "), letters).astype(np.uint8).tobytes()
    found = _of_ascii(plain.translate(_ascii_rule(rules)), ends)
    one_by_one = [rules.key(text) for text in texts.gather(odd)]
    return found.scatter(odd, one_by_one)


def _of_ascii(translated: bytes, ends: NDArray[np.int64]) -> pl.Series:
    buffers = pa.py_buffer(ends), pa.py_buffer(translated)
    found = pl.Series(pa.LargeStringArray.from_buffers(len(ends) - 1, *buffers))
    return found.str.replace_all(" {2,}", " ").str.strip_chars(" ")


@lru_cache
def _ascii_rule(rules: Rules) -> bytes:
    """What each ASCII letter becomes, as `bytes.translate` wants it."""
    letters = (rules.key(chr(code)) or " " for code in range(128))
    return "".join(letters).encode("ascii") + bytes(128)


def fingerprints(texts: pl.Series) -> pl.Series:
    """The unsigned 64-bit fingerprint of each text, see `dssm_tf.text.fingerprint`."""
    digests = (blake2b(one.encode(), digest_size=8).digest() for one in texts.to_list())
    return pl.Series(np.frombuffer(b"".join(digests), "<u8"), dtype=pl.UInt64)


def mix(numbers: NDArray[np.uint64], salt: int = 0) -> NDArray[np.uint64]:
    """Other 64-bit numbers, as if drawn at random (splitmix64)."""
    found = numbers + np.uint64(0x9E3779B97F4A7C15 * (salt + 1) % (1 << 64))
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))


def unit(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """64-bit numbers as fractions from 0 to 1."""
    return (numbers >> np.uint64(11)).astype(np.float64) / (1 << 53)


def all_words(forms: pl.Series, rules: Rules) -> pl.Series:
    """All words of normal forms, as lists; words of fields with rows of their own are marked."""
    if rules.own_fields > 1 and forms.str.contains(SEPARATOR, literal=True).any():
        return pl.Series([*map(rules.words, forms)], dtype=pl.List(pl.String))
    return forms.str.replace_all(f"{SEPARATOR}+", " ").str.strip_chars(" ").str.split(" ")


def words_read(words: pl.Series, rules: Rules) -> tuple[pl.Series, NDArray[np.int64]]:
    """What is read of lists of words, end to end: the first so many, each to its first letters.

    Returns:
        The words, and how many each list has.
    """
    first = words.list.head(rules.max_words)
    flat = first.explode()
    long = (flat.str.len_chars() > rules.max_letters).arg_true()
    if len(long):
        flat = flat.scatter(long, [cut(word, rules.max_letters) for word in flat.gather(long)])
    return flat, first.list.len().to_numpy().astype(np.int64)


def lists_of(values: NDArray[np.integer], counts: NDArray[np.integer]) -> pa.Array:
    """Arrow lists of 32-bit numbers, of so many each."""
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.astype(np.int32)))
