"""The loss of the DSE paper: a relevant title shall score a margin above an irrelevant one."""

from __future__ import annotations

from keras import ops


def margin_rank(scores, counted):
    """`max(0, 1 - s(q, d+) + s(q, d-))`, the mean over all tuples of the batch.

    The paper sums over the tuples; their mean weighs them alike, too, and does not grow with the
    batch. The margin of 1 is no parameter: dot products can grow, so another value only changes
    their scale.

    Args:
        scores: `(batch, batch)`, of every title for every query; title i is relevant to query i.
        counted: `(batch, batch)`, 1 where query i, its title i and title j make a tuple, else 0.

    Returns:
        A scalar; 0 without a tuple.

    Reference: Wu et al. 2014, eq. 14.
    """
    counted = ops.cast(counted, scores.dtype)
    hinges = ops.relu(1 - ops.expand_dims(ops.diagonal(scores), -1) + scores)
    return ops.sum(counted * hinges) / ops.maximum(ops.sum(counted), 1)
