"""Normal forms, fingerprints and words of columns of texts, for pipelines."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.text.fields import SEPARATOR, truncate_word
from dssm_tf.text.rules import TextRules


def normal_forms(texts: pl.Series, rules: TextRules) -> pl.Series:
    """The normal form of each text; ASCII texts are converted at once, other texts one by one."""
    forms = texts.str.to_lowercase().str.replace_all("[^0-9a-z]+", " ").str.strip_chars(" ")
    non_ascii = texts.str.contains("[^\\x00-\\x7f]").arg_true()
    return forms.scatter(non_ascii, [rules.key(text) for text in texts.gather(non_ascii)])


def fingerprints(texts: pl.Series) -> pl.Series:
    """The unsigned 64-bit fingerprint of each text, see `dssm_tf.text.stable_hash`."""
    digests = (blake2b(text.encode(), digest_size=8).digest() for text in texts.to_list())
    return pl.Series(np.frombuffer(b"".join(digests), "<u8"), dtype=pl.UInt64)


def explode_words(forms: pl.Series, rules: TextRules) -> tuple[pl.Series, NDArray[np.int64]]:
    """Splits normal forms into words, limited to `max_words` and `max_letters` of the rules.

    Returns:
        The words of all texts in one series, marked with their field if fields have separate
        letter n-grams (`TextRules.own_fields`); and the number of words of each text.
    """
    max_letters = rules.max_letters
    if rules.own_fields > 1:
        lists = [[truncate_word(word, max_letters) for word in rules.words(form)] for form in forms]
        words = pl.Series(lists, dtype=pl.List(pl.String))
    else:
        words = forms.str.replace_all(f"{SEPARATOR}+", " ").str.strip_chars(" ").str.split(" ")
    words = words.list.head(rules.max_words)
    flat = words.explode()
    flat = flat.str.head(max_letters) if rules.own_fields == 1 else flat
    return flat, words.list.len().to_numpy().astype(np.int64)
