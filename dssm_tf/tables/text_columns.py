"""Columns of texts at once, as pipelines read them: normal forms, fingerprints and words."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.text.fields import SEPARATOR, cut
from dssm_tf.text.rules import Rules


def normal_forms(texts: pl.Series, rules: Rules) -> pl.Series:
    """The normal form of each text: ASCII all at once, the rest one by one."""
    found = texts.str.to_lowercase().str.replace_all("[^0-9a-z]+", " ").str.strip_chars(" ")
    odd = texts.str.contains("[^\\x00-\\x7f]").arg_true()
    return found.scatter(odd, [rules.key(text) for text in texts.gather(odd)])


def fingerprints(texts: pl.Series) -> pl.Series:
    """The unsigned 64-bit fingerprint of each text, see `dssm_tf.text.fingerprint`."""
    digests = (blake2b(one.encode(), digest_size=8).digest() for one in texts.to_list())
    return pl.Series(np.frombuffer(b"".join(digests), "<u8"), dtype=pl.UInt64)


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
