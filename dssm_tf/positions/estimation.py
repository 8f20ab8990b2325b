"""A log's examination curve: which positions, by which method, how sure."""

from __future__ import annotations

from collections.abc import Iterator

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
_LEAST_TIED = 0.95  # of the draws of a bootstrap, for intervals to mean what they say
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
    if method != EM:
        found, problem = _by_harvesting(shown, positions, seed)
        if method == HARVESTING and problem:
            raise OptionError(OPTION, f"harvesting: {problem}; give em, or auto.")
        method = EM if problem else HARVESTING
    if method == EM:
        found = _by_em(shown, positions, seed)
    found = np.maximum(found, _SMALLEST)
    error = np.log(found[1:]).std(axis=0, ddof=1)
    best = np.minimum(found[0], 1)
    low, high = best * np.exp(-_SURE * error), best * np.exp(_SURE * error)
    return ExaminationCurve(
        tuple(map(float, best)),
        tuple(zip(map(float, low), map(float, high), strict=True)),
        method,
        {
            "queries": int(shown.query.max()) + 1,
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
            "estimates from rows with a position, from 1, and impressions, and no row has both; "
            "give a file with position and propensity.",
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


def _draws(shown: Shown, method: str, seed: int) -> Iterator[NDArray[np.float64]]:
    """How often each query counts: once each, then as often as in a bootstrap draw."""
    queries = int(shown.query.max()) + 1
    rng = np.random.default_rng(seed)
    yield np.ones(queries)
    for _ in range(_DRAWS[method]):
        yield rng.multinomial(queries, np.full(queries, 1 / queries)).astype(np.float64)


def _by_harvesting(shown: Shown, positions: int, seed: int) -> tuple[NDArray[np.float64], str]:
    """Curves of the log and its draws, `(1 + draws, positions)`, and why they do not say it all.

    A draw in which nothing ties all positions to the first has no curve and is left out.
    """
    if problem := _short_of_interventions(shown, positions):
        return np.empty((0, positions)), problem
    moves = interventions(shown, positions)
    whole, *drawn = map(moves.sums, _draws(shown, HARVESTING, seed))
    tied = [sums for sums in drawn if connected(sums[1])]
    if not connected(whole[1]):
        return np.empty((0, positions)), "no clicked titles tie all positions to the first"
    if len(tied) < _LEAST_TIED * len(drawn):
        return np.empty((0, positions)), (
            "too few queries have titles that stood at several positions: in "
            f"{len(drawn) - len(tied)} of {len(drawn)} bootstrap draws nothing ties all positions "
            "to the first"
        )
    weights, clicks = (np.stack(one) for one in zip(whole, *tied, strict=True))
    return all_pairs(weights, clicks), ""


def _short_of_interventions(shown: Shown, positions: int) -> str:
    """Which position has too few clicks on titles that stood elsewhere, too; empty if none."""
    of_moved = shown.at(shown.clicks * shown.moved, positions)
    least = int(np.argmin(of_moved))
    if of_moved[least] >= LEAST_CLICKS:
        return ""
    return (
        f"position {least + 1} has {of_moved[least]:,.0f} clicks on titles that stood at other "
        f"positions too, for the same query; expected {LEAST_CLICKS}"
    )


def _by_em(shown: Shown, positions: int, seed: int) -> NDArray[np.float64]:
    """Curves of the log and its draws, `(1 + draws, positions)`."""
    model = em.fit(shown, positions)
    _, *draws = _draws(shown, EM, seed)
    fits = [
        em.fit(shown, positions, one[shown.query], model, steps=500, tolerance=1e-5)
        for one in draws
    ]
    found = np.stack([one.examination for one in (model, *fits)])
    return found / found[:, :1]
