"""IBM model 1: translation probabilities of words, learned from pairs of texts by EM."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.tokens import Tokens


class Translation(NamedTuple):
    """The result of IBM model 1.

    Attributes:
        table: `(words, words)` the probability of a word (column) given a source word (row);
            rows of words that occur sum to one.
        log_likelihoods: the value before each step of EM and after the last, in nats per click.
    """

    table: sparse.csr_matrix
    log_likelihoods: list[float]


def translate(
    source: Tokens,
    target: Tokens,
    weights: NDArray[np.float64],
    *,
    iterations: int,
    on_step_end: Callable[[int, float], None] = lambda step, log_likelihood: None,
) -> Translation:
    """Learns `P(target word | source word)` from pairs of texts.

    With `c` the weight of a pair, `n` counts of words in its texts and `l` the source's words,
    EM raises

        sum over pairs of c * sum over target words f of
            n(f) log(sum over source words e of n(e) P(f | e) / l)

    It starts from equal probabilities, and the likelihood is concave: it has one maximum, so
    the start matters only for the number of steps.

    Args:
        source: one text per pair, all words known.
        target: one text per pair, all words known.
        weights: `(pairs,)` above 0.
        iterations: steps of EM.
        on_step_end: called after each step with its number, from 1, and the likelihood before it.

    Reference: Brown et al. 1993, sec. 4.1.
    """
    sources, targets, words = source.counts, target.counts, source.size
    # A group is a distinct word of a target text. A cell is a group and a distinct word of its
    # source text. An entry of the table is a pair of words; several cells may have the same.
    pair = np.repeat(np.arange(len(target)), np.diff(targets.indptr))
    sizes = np.diff(sources.indptr)[pair]
    starts = np.cumsum(sizes) - sizes
    cells = np.arange(sizes.sum()) + np.repeat(sources.indptr[pair] - starts, sizes)
    keys = sources.indices[cells].astype(np.int64) * max(words, 1)
    entries, entry_of_cell = np.unique(
        keys + np.repeat(targets.indices, sizes), return_inverse=True
    )
    rows, columns = np.divmod(entries, max(words, 1))
    counts, lengths = sources.data[cells], source.lengths[pair]
    group_weights = weights[pair] * targets.data
    probabilities = np.full(len(entries), 1 / max(words, 1))
    log_likelihoods = []
    for step in range(iterations + 1):
        expectations = counts * probabilities[entry_of_cell]
        sums = np.add.reduceat(expectations, starts) if len(expectations) else expectations
        log_likelihoods.append(float(group_weights @ np.log(sums / lengths) / weights.sum()))
        if step == iterations:
            break
        expectations *= np.repeat(group_weights / sums, sizes)
        expected = np.bincount(entry_of_cell, expectations, len(entries))
        probabilities = expected / np.bincount(rows, expected)[rows]
        on_step_end(step + 1, log_likelihoods[-1])
    table = sparse.csr_matrix((probabilities, (rows, columns)), shape=(words, words))
    table.sort_indices()
    return Translation(table, log_likelihoods)
