"""Estimates a log's examination curve: its positions, propensities and intervals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.positions.curve import ExaminationCurve
from dssm_tf.positions.harvesting import all_pairs, connected_positions, interventions
from dssm_tf.positions.impressions import ImpressionCounts

HARVESTING = "harvesting"
OPTION = "--position-weights"
MIN_CLICKS = 20
"""Minimum number of clicks at a position, on titles displayed at several positions.

The curve ends before the first position with fewer.
"""

_MAX_POSITIONS = 50
_BOOTSTRAP_SAMPLES = 200
_MIN_CONNECTED = 0.95  # fraction of the bootstrap samples in which each position is connected
_MIN_PROPENSITY = 1e-3  # above 0, so that its logarithm is finite
_Z_95 = 1.96  # quantile of the normal distribution for a 95 % interval


def estimate(log: ImpressionCounts, seed: int = 0) -> ExaminationCurve:
    """Estimates the examination curve of a log by harvesting interventions.

    Args:
        log: impressions and clicks by query, title and position.
        seed: random seed of the bootstrap.

    Returns:
        The examination curve. It covers the leading positions that have at least `MIN_CLICKS`
        clicks on titles displayed at several positions, and that such titles connect to position 1
        (see `connected_positions`). If there are fewer than two such positions, the curve is 1
        everywhere and has a `problem`. Propensities are limited to 1: no later position counts as
        examined more often than the first. The 95 % intervals come from a bootstrap over queries,
        and assume that the logarithm of a propensity is normally distributed.

    Raises:
        UserError: no row has both a position and impressions.
    """
    if not len(log.pair):
        raise UserError(
            f"{OPTION} estimates from rows with a position, from 1, and impressions, but no row "
            "has both; give a file with position and propensity."
        )
    previous, positions = 0, _MAX_POSITIONS
    leading = log
    # A title may remain at only one position when others are dropped, so repeat until stable.
    while positions > 1 and previous != positions:
        previous, leading = positions, log.up_to_position(positions)
        clicks = leading.sum_by_position(leading.clicks * leading.at_several_positions, positions)
        positions = int(np.argmin(np.append(clicks >= MIN_CLICKS, False)))
    if positions < 2:
        if not log.at_several_positions.any():
            return _no_estimate(log, "no title was displayed at several positions for one query")
        return _no_estimate(
            log,
            f"position {positions + 1} has fewer than {MIN_CLICKS} clicks on titles displayed at "
            "several positions for one query",
        )
    entries = interventions(leading, positions)
    # The first sums are over the log, the others over the bootstrap samples.
    queries = int(leading.query.max()) + 1
    samples = chain([np.ones(queries)], _bootstrap_counts(queries, seed))
    sums = [entries.sums(query_counts) for query_counts in samples]
    connected = np.array([connected_positions(clicks) for _, clicks in sums])
    # The log connects at least as many positions, because it has all connections of a sample.
    positions = np.sort(connected[1:])[int((1 - _MIN_CONNECTED) * _BOOTSTRAP_SAMPLES)]
    if positions < 2:
        return _no_estimate(
            log, "too few queries have clicked titles displayed at several positions"
        )
    usable = [sums[sample] for sample in np.flatnonzero(connected >= positions)]
    weights = np.stack([weight for weight, _ in usable])
    clicks = np.stack([clicks for _, clicks in usable])
    curves = np.maximum(all_pairs(weights, clicks)[:, :positions], _MIN_PROPENSITY)
    standard_error = np.log(curves[1:]).std(axis=0, ddof=1)
    propensities = np.minimum(curves[0], 1)
    low = propensities * np.exp(-_Z_95 * standard_error)
    high = propensities * np.exp(_Z_95 * standard_error)
    return ExaminationCurve(
        tuple(propensities.tolist()),
        tuple(zip(low.tolist(), high.tolist(), strict=True)),
        HARVESTING,
        _basis(leading),
    )


def _bootstrap_counts(query_count: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """How often each bootstrap sample contains each query, `(queries,)` per sample.

    One sample is drawn at a time, so memory does not grow with the number of samples.
    """
    random, probabilities = np.random.default_rng(seed), np.full(query_count, 1 / query_count)
    for _ in range(_BOOTSTRAP_SAMPLES):
        yield random.multinomial(query_count, probabilities).astype(np.float64)


def _no_estimate(log: ImpressionCounts, reason: str) -> ExaminationCurve:
    problem = f"{reason}; examination cannot be estimated from this log"
    return ExaminationCurve((1.0,), (), HARVESTING, _basis(log), problem)


def _basis(log: ImpressionCounts) -> dict[str, int]:
    """Counts of the data used for an estimate."""
    return {
        "queries": int(log.query.max()) + 1,
        "pairs": int(log.pair.max()) + 1,
        "pairs at several positions": len(np.unique(log.pair[log.at_several_positions])),
        "impressions": int(log.impressions.sum()),
        "clicks": int(log.clicks.sum()),
        "clicks on pairs at several positions": int(log.clicks[log.at_several_positions].sum()),
    }
