"""Judged lists made up, and their simulated clicks as estimators take them."""

from __future__ import annotations

import numpy as np

from dssm_tf.positions.shown import Shown
from examples.simulate_clicks import JudgedList, Users, simulate


def lists(queries: int = 200, titles: int = 6) -> list[JudgedList]:
    """Lists whose rankers know something of relevance, and no grade."""
    random = np.random.default_rng(7)
    names = [f"t{n}" for n in range(titles)]
    grades = random.integers(0, 4, (queries, titles)).astype(float)
    scores = random.standard_normal(grades.shape) + 0.3 * grades
    return [JudgedList(f"q{n}", names, grades[n], scores[n]) for n in range(queries)]


def shown(users: Users, sessions: int = 100_000, seed: int = 0, **options) -> Shown:
    """What simulated users leave in a log."""
    rows = simulate(lists(), users, sessions, seed=seed, **options)
    return Shown.of(
        [
            (int(row.query[1:]), int(row.title[1:]), row.position, row.impressions, row.clicks)
            for row in rows
        ]
    )
