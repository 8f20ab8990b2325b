"""A log's examination curve: which positions, by which method, how sure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import OptionError
from dssm_tf.positions import em
from dssm_tf.positions.curve import ExaminationCurve
from dssm_tf.positions.harvesting import all_pairs, connected, interventions
from dssm_tf.positions.shown import Shown

NONE, AUTO, HARVESTING, EM = "none", "auto", "harvesting", "em"
METHODS = (AUTO, HARVESTING, EM)
OPTION = "--position-weights"
LEAST_CLICKS = 20
"""Clicks that a position needs; the curve ends before the first one with fewer."""
_MOST_POSITIONS = 50
_DRAWS = {HARVESTING: 200, EM: 30}
_SMALLEST = 1e-3
_SURE = 1.96


def estimate(shown: Shown, method: str = AUTO, seed: int = 0) -> ExaminationCurve:
    """Estimates the examination curve of a log.

    Args:
        shown: what the log says.
        method: `harvesting`; `em`; or `auto`, which harvests where titles that stood at several
            positions have enough clicks at each, and fits by EM elsewhere.
        seed: of the bootstrap.

    Returns:
        The curve over the positions with enough clicks. Propensities are at most 1: nobody is
        believed to look at a further position more often than at the first. Intervals are those
        of a bootstrap over queries, normal in the logarithm.

    Raises:
        OptionError: the log cannot answer.
    """
    positions = _positions(shown)
    shown = shown.first(positions)
    moves = interventions(shown, positions)
    draws = np.random.default_rng(seed).multinomial(
        queries := int(shown.query.max()) + 1,
        np.full(queries, 1 / queries),
        size=_DRAWS[HARVESTING],
    )
    times = np.concatenate([np.ones((1, queries)), draws])
    problem = _short_of_interventions(shown, moves.sums(times[0])[1], positions)
    if method == AUTO:
        method = EM if problem else HARVESTING
    if method == HARVESTING and problem:
        raise OptionError(OPTION, f"harvesting: {problem}; give em, or auto.")
    if method == HARVESTING:
        sums = [np.stack(one) for one in zip(*map(moves.sums, times), strict=True)]
        found = all_pairs(sums[0], sums[1])
    else:
        found = _by_em(shown, positions, times[: 1 + _DRAWS[EM]])
    found = np.maximum(found, _SMALLEST)
    error = np.log(found[1:]).std(axis=0, ddof=1)
    best = np.minimum(found[0], 1)
    low, high = best * np.exp(-_SURE * error), best * np.exp(_SURE * error)
    return ExaminationCurve(
        tuple(map(float, best)),
        tuple(zip(map(float, low), map(float, high), strict=True)),
        method,
        {
            "queries": queries,
            "pairs": int(shown.pair.max()) + 1,
            "pairs at several positions": len(np.unique(shown.pair[shown.moved])),
            "impressions": int(shown.impressions.sum()),
            "clicks": int(shown.clicks.sum()),
            "clicks on pairs at several positions": int(shown.clicks[shown.moved].sum()),
        },
    )


def _positions(shown: Shown) -> int:
    """How many positions, from 1, have enough clicks."""
    if not len(shown.pair):
        raise OptionError(
            OPTION,
            "estimates from rows with position and impressions, and no row has both; give a file "
            "with position and propensity.",
        )
    clicks = shown.at(shown.clicks, _MOST_POSITIONS)
    enough = int(np.argmin(np.append(clicks >= LEAST_CLICKS, False)))
    if enough < 2:
        raise OptionError(
            OPTION,
            f"needs {LEAST_CLICKS} clicks at positions 1 and 2 each, on rows with impressions; "
            f"there are {clicks[0]:,.0f} and {clicks[1]:,.0f}. Give a file with position and "
            "propensity.",
        )
    return enough


def _short_of_interventions(shown: Shown, clicks: NDArray[np.float64], positions: int) -> str:
    """Why interventions do not say it all; empty if they do."""
    of_moved = shown.at(shown.clicks * shown.moved, positions)
    least = int(np.argmin(of_moved))
    if of_moved[least] < LEAST_CLICKS:
        return (
            f"position {least + 1} has {of_moved[least]:,.0f} clicks on titles that stood at other "
            f"positions too, for the same query; expected {LEAST_CLICKS}"
        )
    return "" if connected(clicks) else "no clicked titles tie all positions to the first"


def _by_em(shown: Shown, positions: int, times: NDArray[np.float64]) -> NDArray[np.float64]:
    model = em.fit(shown, positions)
    fits = [
        em.fit(shown, positions, one[shown.query], model, steps=200, tolerance=1e-4)
        for one in times[1:]
    ]
    found = np.stack([one.examination for one in (model, *fits)])
    return found / found[:, :1]
