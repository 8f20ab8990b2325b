"""TF-IDF over letter trigrams in float64, from the formula, text by text.

The weight of trigram `g` in a text is `count * (1 + ln((1 + N) / (1 + n)))`, where `n` of the `N`
titles of the corpus contain `g`. A trigram of no title has weight 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from dssm_tf.text.rules import FOLDED


def _counts(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word in FOLDED.key(text).split():
        marked = f"#{word}#"
        counts.update(marked[start : start + 3] for start in range(len(word)))
    return counts


def cosines(queries: Sequence[str], titles: Sequence[str], corpus: Sequence[str]) -> np.ndarray:
    """Cosines float64 `(queries, titles)`; 0 for a text without a known trigram."""
    document_frequency: Counter[str] = Counter()
    for title in corpus:
        document_frequency.update(set(_counts(title)))
    idf = {g: 1 + math.log((1 + len(corpus)) / (1 + n)) for g, n in document_frequency.items()}

    def vector(text: str) -> dict[str, float]:
        weights = {g: n * idf[g] for g, n in _counts(text).items() if g in idf}
        length = math.sqrt(sum(value**2 for value in weights.values()))
        return {g: value / length for g, value in weights.items()}

    query_vectors, title_vectors = list(map(vector, queries)), list(map(vector, titles))
    return np.array(
        [[sum(q.get(g, 0.0) * t[g] for g in t) for t in title_vectors] for q in query_vectors],
        np.float64,
    )
