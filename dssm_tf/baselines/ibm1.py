"""IBM model 1: which word of one text each word of its partner comes from, learned by EM."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.tokens import Ids, Tokens, ranges

if TYPE_CHECKING:
    from typing_extensions import Self


class Translation(NamedTuple):
    """What IBM model 1 learned.

    Attributes:
        table: `(words + 1, words)` the probability of a word (column) given a source word (row);
            the last row is the empty word. Rows of words that were seen sum to one.
        log_likelihoods: before each step of EM and after the last, in nats a click.
    """

    table: sparse.csr_matrix
    log_likelihoods: list[float]


def translate(
    source: Tokens,
    target: Tokens,
    weights: NDArray[np.float64],
    *,
    iterations: int,
    empty_word: bool = True,
    step_done: Callable[[int, float], None] = lambda step, log_likelihood: None,
) -> Translation:
    """Learns `P(target word | source word)` from pairs of texts.

    With `c` the weight of a pair, `n` counts of words in its texts and `l` the source's words,
    the empty word included, EM raises

        sum over pairs of c * sum over target words f of
            n(f) log(sum over source words e of n(e) P(f | e) / l)

    It starts from equal probabilities, and the likelihood is concave: there is one summit, so
    the start matters only for how many steps it takes.

    Args:
        source: one text a pair, all words known.
        target: one text a pair, all words known.
        weights: `(pairs,)` above 0.
        iterations: steps of EM.
        empty_word: whether every source also holds a word that stands for nothing, which takes
            the words that no other explains.
        step_done: called after each step with its number, from 1, and the likelihood before it.

    Reference: Brown et al. 1993, sec. 4.1.
    """
    cells = _Cells.of(source, target, empty_word)
    words = source.size
    probabilities = np.full(len(cells.sources), 1 / max(words, 1))
    weight_of_group = weights[cells.pair_of_group] * cells.group_counts
    lengths = (source.lengths + empty_word)[cells.pair_of_group]
    log_likelihoods = []
    for step in range(iterations + 1):
        shares = cells.source_counts * probabilities[cells.parameter]
        sums = np.add.reduceat(shares, cells.group_starts) if len(shares) else shares
        log_likelihoods.append(float(weight_of_group @ np.log(sums / lengths) / weights.sum()))
        if step == iterations:
            break
        shares *= np.repeat(weight_of_group / sums, cells.group_sizes)
        expected = np.bincount(cells.parameter, shares, len(probabilities))
        totals = np.bincount(cells.sources, expected, words + 1)
        probabilities = expected / totals[cells.sources]
        step_done(step + 1, log_likelihoods[-1])
    table = sparse.csr_matrix(
        (probabilities, (cells.sources, cells.targets)), shape=(words + 1, words)
    )
    table.sort_indices()
    return Translation(table, log_likelihoods)


class _Cells(NamedTuple):
    """Every meeting of a distinct target word of a pair (a group) and a distinct source word.

    Attributes:
        parameter: `(cells,)` which entry of the table it concerns.
        source_counts: `(cells,)` how often the pair's source holds the source word.
        group_starts: `(groups,)` first cell of each group.
        group_sizes: `(groups,)` cells of each group.
        group_counts: `(groups,)` how often the pair's target holds the target word.
        pair_of_group: `(groups,)`.
        sources: `(parameters,)` row of each entry of the table.
        targets: `(parameters,)` column of each entry of the table.
    """

    parameter: Ids
    source_counts: NDArray[np.float64]
    group_starts: Ids
    group_sizes: Ids
    group_counts: NDArray[np.float64]
    pair_of_group: Ids
    sources: Ids
    targets: Ids

    @classmethod
    def of(cls, source: Tokens, target: Tokens, empty_word: bool) -> Self:
        sources, targets = source.counts, target.counts
        if empty_word:
            ones = sparse.csr_matrix(np.ones((len(source), 1)))
            sources = sparse.hstack([sources, ones], format="csr")
        pair_of_group = np.repeat(np.arange(len(target)), np.diff(targets.indptr))
        group_sizes = np.diff(sources.indptr)[pair_of_group].astype(np.int64)
        where = ranges(sources.indptr[pair_of_group].astype(np.int64), group_sizes)
        keys = sources.indices[where].astype(np.int64) * source.size
        keys += np.repeat(targets.indices, group_sizes)
        entries, parameter = np.unique(keys, return_inverse=True)
        ends = np.cumsum(group_sizes)
        return cls(
            parameter,
            sources.data[where],
            ends - group_sizes,
            group_sizes,
            targets.data,
            pair_of_group,
            *np.divmod(entries, max(source.size, 1)),
        )
