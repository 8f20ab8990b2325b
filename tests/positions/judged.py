"""Random judged lists, and counts of simulated clicks on them."""

from __future__ import annotations

import numpy as np

from dssm_tf.positions.impressions import ImpressionCounts
from examples.simulate_clicks import JudgedList, Users, simulate


def lists(queries: int = 200, titles: int = 6) -> list[JudgedList]:
    """Judged lists whose ranker scores correlate weakly with the grades."""
    random = np.random.default_rng(7)
    names = [f"t{n}" for n in range(titles)]
    grades = random.integers(0, 4, (queries, titles)).astype(float)
    scores = random.standard_normal(grades.shape) + 0.3 * grades
    return [JudgedList(f"q{n}", names, grades[n], scores[n]) for n in range(queries)]


def simulated_log(
    users: Users, sessions: int = 100_000, seed: int = 0, **options
) -> ImpressionCounts:
    """Impressions and clicks of simulated users on these lists."""
    rows = simulate(lists(), users, sessions, seed=seed, **options)
    return ImpressionCounts.from_cells(
        [
            (int(row.query[1:]), int(row.title[1:]), row.position, row.impressions, row.clicks)
            for row in rows
        ]
    )
