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
        table: `(words, words)`, the probability of each target word (column) given a source word
            (row). The row of a source word in a pair sums to one; other rows are empty.
        log_likelihoods: the log-likelihood before each step of EM and after the last one, divided
            by the sum of the weights, in nats.
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

    `c` is the weight of a pair, `n` the count of a word in its text, and `l` the number of words of
    the source text. Each step of EM increases the log-likelihood

        sum over pairs of c * sum over target words f of
            n(f) log(sum over source words e of n(e) P(f | e) / l)

    EM starts from equal probabilities. The log-likelihood is concave, so EM would reach the same
    maximum from other positive starts, only in another number of steps.

    Args:
        source: one text per pair, all words known.
        target: one text per pair, all words known.
        weights: `(pairs,)`, above 0.
        iterations: number of steps of EM.
        on_step_end: called after each step with its number, from 1, and the log-likelihood before
            the step, as in `Translation`.

    Reference: Brown et al. 1993, sec. 4.1.
    """
    sources, targets, words = source.counts, target.counts, source.size
    # A group is a pair of texts and a distinct word of its target text. A cell is a group and a
    # distinct word of the source text. An entry of the table is a source word and a target word;
    # several cells can share an entry.
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
