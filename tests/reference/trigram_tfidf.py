"""TF-IDF over letter trigrams in float64, written from the formula, text by text.

The weight of trigram `g` in a text is `count * (1 + ln((1 + N) / (1 + n)))`, with `N` titles of the
corpus of which `n` hold `g`; a trigram that no title holds counts nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from dssm_tf.text.rules import FOLDED


def _counts(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for word in FOLDED.key(text).split():
        marked = f"#{word}#"
        found.update(marked[at : at + 3] for at in range(len(word)))
    return found


def cosines(queries: Sequence[str], titles: Sequence[str], corpus: Sequence[str]) -> np.ndarray:
    """Cosines float64 `(queries, titles)`; 0 for a text without a known trigram."""
    holders: Counter[str] = Counter()
    for title in corpus:
        holders.update(set(_counts(title)))
    rarity = {g: 1 + math.log((1 + len(corpus)) / (1 + n)) for g, n in holders.items()}

    def vector(text: str) -> dict[str, float]:
        weights = {g: n * rarity[g] for g, n in _counts(text).items() if g in rarity}
        length = math.sqrt(sum(value**2 for value in weights.values()))
        return {g: value / length for g, value in weights.items()}

    asked, ranked = list(map(vector, queries)), list(map(vector, titles))
    return np.array(
        [[sum(q.get(g, 0.0) * t[g] for g in t) for t in ranked] for q in asked], np.float64
    )
