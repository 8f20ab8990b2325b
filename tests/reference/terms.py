"""Text batches with the terms that the score maxsim reads: IDF of words, pairs of neighbors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tests.reference.letter_trigrams import text_batch


def term_batch(
    texts: Sequence[Sequence[str]],
    known: Sequence[str],
    titles: int,
    words: Mapping[str, int],
    pairs: Mapping[str, int],
) -> dict[str, Any]:
    """Texts, each a list of words, as a text batch for `MaxSim`.

    Args:
        texts: lists of words.
        known: the trigrams that have an id.
        titles: number of titles.
        words: number of titles with each word.
        pairs: number of titles with each known pair `"w1 w2"`.
    """
    distinct = list(dict.fromkeys(word for text in texts for word in text))
    idf = [0.0, *(math.log(titles / max(words.get(word, 0), 0.5)) for word in distinct)]
    ids = {pair: number for number, pair in enumerate(sorted(pairs), start=1)}
    rows = [
        (row, pair)
        for row, text in enumerate(texts)
        for pair in dict.fromkeys(f"{a} {b}" for a, b in pairwise(text))
        if pair in ids
    ]
    return text_batch(texts, known) | {
        "word_idf": np.array(idf, np.float32),
        "pairs": np.array([*((row, ids[pair]) for row, pair in rows), (len(texts), 0)], np.int32),
        "pair_idf": np.array(
            [*(math.log(titles / pairs[pair]) for _, pair in rows), 0.0], np.float32
        ),
    }
