"""Query likelihood with a Dirichlet prior, for words, pairs of words or translations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]


def log_likelihoods(
    queries: sparse.csr_matrix,
    counts: sparse.csr_matrix,
    background: Floats,
    lengths: NDArray[Any],
    mu: float,
) -> Floats:
    """`queries @ log((counts + mu background) / (lengths + mu))`: `(queries, titles)`, in nats.

    Args:
        queries: how often each query contains each feature, `(queries, features)`.
        counts: count of each feature in each title, `(features, titles)`; not always whole numbers.
        background: probability of each feature in the corpus, `(features,)`; features with
            probability 0 are left out.
        lengths: number of words of each title, `(titles,)`.
        mu: number of words of the prior, which are added to every title.

    Reference: Zhai and Lafferty 2001.
    """
    used = np.unique(queries.indices)
    used = used[background[used] > 0]
    queries = queries[:, used]
    gains, log_pseudo_counts = log_gains(counts[used], mu * background[used])
    scores = (queries @ gains).toarray() + (queries @ log_pseudo_counts)[:, None]
    scores -= np.outer(queries @ np.ones(len(used)), np.log(lengths + mu))
    return scores


def log_gains(counts: sparse.csr_matrix, pseudo_counts: Floats) -> tuple[sparse.csr_matrix, Floats]:
    """`log(counts + pseudo_counts)` in two parts; only the first depends on the title.

    Args:
        counts: `(features, titles)`.
        pseudo_counts: counts of the Dirichlet prior, `(features,)`, above 0.

    Returns:
        `log(counts / pseudo_counts + 1)`, `(features, titles)`, which is 0 if the title does not
        have the feature; and `log(pseudo_counts)`, `(features,)`.
    """
    gains = counts.tocsr(copy=True)
    gains.data = np.log1p(gains.data / np.repeat(pseudo_counts, np.diff(gains.indptr)))
    return gains, np.log(pseudo_counts)
