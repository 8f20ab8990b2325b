"""A log's examination curve: over which positions, and how sure."""

from __future__ import annotations

import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.positions.curve import ExaminationCurve
from dssm_tf.positions.harvesting import all_pairs, interventions, tied
from dssm_tf.positions.shown import Shown

HARVESTING = "harvesting"
OPTION = "--position-weights"
LEAST_CLICKS = 20
"""Clicks on titles that moved which a position needs; the curve ends before one with fewer."""
_MOST_POSITIONS = 50
_DRAWS = 200
_LEAST_TIED = 0.95  # of the draws of a bootstrap, for intervals to mean what they say
_SMALLEST = 1e-3
_SURE = 1.96


def estimate(shown: Shown, seed: int = 0) -> ExaminationCurve:
    """Estimates the examination curve of a log by harvesting interventions.

    Args:
        shown: the log's titles at positions.
        seed: of the bootstrap.

    Returns:
        The curve over the first positions that have enough clicks on titles that moved, and that
        such titles tie to position 1; 1 everywhere, with its `problem`, if these are fewer than
        two. Propensities are at most 1: nobody is believed to look at a further position more
        often than at the first. Intervals are those of a bootstrap over queries, normal in the
        logarithm.

    Raises:
        UserError: no row has both a position and impressions.
    """
    if not len(shown.pair):
        raise UserError(
            f"{OPTION} estimates from rows with a position, from 1, and impressions, and no row "
            "has both; give a file with position and propensity."
        )
    asked, positions = 0, _MOST_POSITIONS
    found = shown
    # A title that moved may be at one of the first positions only.
    while positions > 1 and asked != positions:
        asked, found = positions, shown.first(positions)
        enough = found.at(found.clicks * found.moved, asked) >= LEAST_CLICKS
        positions = int(np.argmin(np.append(enough, False)))
    if positions < 2:
        if not shown.moved.any():
            return _cannot_tell(shown, "no title was shown at several positions for one query")
        return _cannot_tell(
            shown,
            f"position {positions + 1} has fewer than {LEAST_CLICKS} clicks on titles shown at "
            "several positions for one query",
        )
    moves = interventions(found, positions)
    queries, random = int(found.query.max()) + 1, np.random.default_rng(seed)
    times = random.multinomial(queries, np.full(queries, 1 / queries), _DRAWS).astype(float)
    sums = [moves.sums(one) for one in (np.ones(queries), *times)]
    reached = np.array([tied(clicks) for _, clicks in sums])
    positions = np.sort(reached[1:])[int((1 - _LEAST_TIED) * _DRAWS)]  # at most those of the log
    if positions < 2:
        return _cannot_tell(shown, "too few queries have clicked titles shown at several positions")
    tied_sums = [one for one, number in zip(sums, reached, strict=True) if number >= positions]
    weights = np.stack([weight for weight, _ in tied_sums])
    clicks = np.stack([clicks for _, clicks in tied_sums])
    curves = np.maximum(all_pairs(weights, clicks)[:, :positions], _SMALLEST)
    error = np.log(curves[1:]).std(axis=0, ddof=1)
    best = np.minimum(curves[0], 1)
    low, high = best * np.exp(-_SURE * error), best * np.exp(_SURE * error)
    return ExaminationCurve(
        tuple(best.tolist()),
        tuple(zip(low.tolist(), high.tolist(), strict=True)),
        HARVESTING,
        _basis(found),
    )


def _cannot_tell(shown: Shown, reason: str) -> ExaminationCurve:
    problem = f"{reason}; the log cannot tell how often a position is looked at"
    return ExaminationCurve((1.0,), (), HARVESTING, _basis(shown), problem)


def _basis(shown: Shown) -> dict[str, int]:
    """What a curve rests on."""
    return {
        "queries": int(shown.query.max()) + 1,
        "pairs": int(shown.pair.max()) + 1,
        "pairs at several positions": len(np.unique(shown.pair[shown.moved])),
        "impressions": int(shown.impressions.sum()),
        "clicks": int(shown.clicks.sum()),
        "clicks on pairs at several positions": int(shown.clicks[shown.moved].sum()),
    }
