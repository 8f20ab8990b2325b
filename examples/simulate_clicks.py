"""Makes a click log with a known position bias from judged lists.

    python examples/simulate_clicks.py --judgments judgments.tsv --eta 1 --out LOG.tsv
    dssm preprocess --input LOG.tsv --position-weights harvesting --output DATA

Several rankers order each query's titles by BM25 plus noise, without the grades. A random one of
them answers each session, so titles are shown at several positions. Simulated users examine
position k with probability `k ** -eta` and click according to the grade. The log has the columns
query, title, position, impressions and clicks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf import UserError
from dssm_tf.baselines.bm25 import BM25
from dssm_tf.tables.cells import MAX_GRADE
from dssm_tf.tables.graded_lists import GradedList, read_lists
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import FOLDED

Probabilities = NDArray[np.float64]


@dataclass(frozen=True)
class Users:
    """A click model of simulated users.

    Args:
        model: one of `MODELS`.
        eta: position bias, from 0 to 2: position k is examined with probability `k ** -eta`.
        noise: probability of a click on an examined title of grade 0.
        trust: for the model `trust`: probability of a click because of a high position on a title
            that is not clicked for its relevance; divided by the position.
    """

    model: str = "position"
    eta: float = 1.0
    noise: float = 0.1
    trust: float = 0.3

    def examination(self, positions: int) -> Probabilities:
        """The true propensities, `(positions,)`."""
        curve: Probabilities = np.arange(1.0, positions + 1) ** -self.eta
        return curve

    def relevance(self, grades: Probabilities, best: float) -> Probabilities:
        """The probability of a click on an examined title.

            noise + (1 - noise) (2^grade - 1) / (2^best - 1)

        Reference: Ai et al. 2018, "Unbiased Learning to Rank with Unbiased Propensity Estimation",
            section 5.2.
        """
        gain: Probabilities = (2.0**grades - 1) / (2.0**best - 1)
        return self.noise + (1 - self.noise) * gain


def _position_based(users: Users, relevance: Probabilities) -> Probabilities:
    """A title is clicked if it is examined and relevant (Richardson et al. 2007)."""
    return users.examination(len(relevance)) * relevance


def _cascade(users: Users, relevance: Probabilities) -> Probabilities:
    """Users examine titles from the top to the first click (Craswell et al. 2008).

    After position k, a fraction `1 - (k / (k + 1)) ** eta` of the users leaves. Position k is
    therefore examined with probability `k ** -eta` if nothing above it is clicked.
    """
    above = np.cumprod(np.append(1.0, 1 - relevance[:-1]))
    return users.examination(len(relevance)) * above * relevance


def _trust(users: Users, relevance: Probabilities) -> Probabilities:
    """Titles are also clicked because of a high position (Agarwal et al. 2019, trust bias)."""
    trusted = users.trust / np.arange(1, len(relevance) + 1)
    return users.examination(len(relevance)) * (relevance + (1 - relevance) * trusted)


MODELS: Mapping[str, Callable[[Users, Probabilities], Probabilities]] = {
    "position": _position_based,
    "cascade": _cascade,
    "trust": _trust,
}
"""Click models by name: functions from users and the relevance of a list's titles to the
probability of a click at each position. A session of the cascade model has at most one click."""


class JudgedList(NamedTuple):
    """A query's judged titles with grades, and the scores before the rankers' noise.

    Args:
        query: query of the judgments.
        titles: titles of the judgments, distinct.
        grades: grades, `(titles,)`.
        scores: scores of a system that does not use the grades, `(titles,)`.
    """

    query: str
    titles: Sequence[str]
    grades: Probabilities
    scores: NDArray[np.floating]


class ClickRow(NamedTuple):
    """Impressions and clicks of a title at one position of a query's lists."""

    query: str
    title: str
    position: int
    impressions: int
    clicks: int


COLUMNS = ClickRow._fields


def simulate(
    lists: Sequence[JudgedList],
    users: Users,
    sessions: int,
    *,
    rankers: int = 3,
    ranker_noise: float = 1.0,
    length: int = 10,
    seed: int = 0,
) -> Iterator[ClickRow]:
    """Simulates sessions: a random query, a random ranker, and the clicks on its list.

    Args:
        lists: judged lists.
        users: click model.
        sessions: number of sessions.
        rankers: number of rankers; each adds its own fixed noise to the scores.
        ranker_noise: standard deviation of the noise, relative to that of the list's scores.
        length: maximum number of titles per session.
        seed: random seed.

    Yields:
        Rows with at least one impression, grouped by query.

    Raises:
        UserError: no grade is above 0.
    """
    best = max(float(judged.grades.max()) for judged in lists)
    if best <= 0:
        raise UserError("no grade is above 0; expected relevant titles.")
    # Two generators, so that impressions are the same for all users and grades.
    impression_random, click_random = np.random.default_rng(seed).spawn(2)
    query_sessions = impression_random.multinomial(sessions, np.full(len(lists), 1 / len(lists)))
    for judged, session_count in zip(lists, query_sessions, strict=True):
        relevance = users.relevance(judged.grades, best)
        spread = judged.scores.std() or 1.0
        noise = impression_random.standard_normal((rankers, len(judged.titles)))
        ranker_scores = judged.scores / spread + ranker_noise * noise
        ranker_sessions = impression_random.multinomial(
            session_count, np.full(rankers, 1 / rankers)
        )
        counts: dict[tuple[int, int], list[int]] = {}  # impressions and clicks
        orders = np.argsort(-ranker_scores, kind="stable")[:, :length]
        for order, impressions in zip(orders, ranker_sessions, strict=True):
            clicks = _clicks(click_random, users, relevance[order], int(impressions))
            for position, (title, clicked) in enumerate(zip(order, clicks, strict=True), start=1):
                count = counts.setdefault((int(title), position), [0, 0])
                count[0] += int(impressions)
                count[1] += int(clicked)
        for (title, position), (displayed, clicked) in sorted(counts.items()):
            if displayed:
                yield ClickRow(judged.query, judged.titles[title], position, displayed, clicked)


def _clicks(
    random: np.random.Generator, users: Users, relevance: Probabilities, impressions: int
) -> NDArray[np.int64]:
    """Draws the clicks at each position of a list that is displayed `impressions` times."""
    probability = MODELS[users.model](users, relevance)
    if users.model == "cascade":  # at most one click, or none
        no_click = max(0.0, 1 - probability.sum())
        return random.multinomial(impressions, np.append(probability, no_click))[:-1]
    return random.binomial(impressions, probability)


def judged_lists(graded: Sequence[GradedList], count: int = 0, seed: int = 0) -> list[JudgedList]:
    """Selects graded lists and adds BM25 scores, with word statistics of all lists.

    Args:
        graded: the graded lists of all queries.
        count: number of randomly selected queries; 0 for all.
        seed: random seed of the selection.
    """
    selected = sorted(np.random.default_rng(seed).permutation(len(graded))[: count or None])
    ranker = BM25().fit([], dict.fromkeys(title for row in graded for title in row.titles))
    return [
        JudgedList(row.query, row.titles, np.array(row.values), ranker.score(row.query, row.titles))
        for row in (graded[index] for index in selected)
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Writes a simulated log."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--judgments", required=True, help="table with query, title, grade")
    parser.add_argument("--model", default="position", choices=MODELS, help="how users click")
    parser.add_argument("--eta", type=float, default=1.0, help="position bias, 0 (none) to 2")
    parser.add_argument("--sessions", type=int, default=100_000, help="number of sessions")
    parser.add_argument("--lists", type=int, default=0, help="number of random queries; 0: all")
    parser.add_argument("--length", type=int, default=10, help="maximum number of titles per list")
    parser.add_argument(
        "--rankers", type=int, default=3, help="with 1, each title has one position"
    )
    parser.add_argument(
        "--ranker-noise", type=float, default=1.0, help="relative to the spread of BM25 scores"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, type=Path, metavar="LOG.tsv")
    options = parser.parse_args(argv)
    if options.out.exists():
        sys.exit(f"{options.out} exists; choose another file with --out.")
    users = Users(options.model, options.eta)
    try:
        graded = read_lists(options.judgments, "grade", (0, MAX_GRADE), FOLDED)
        rows = list(
            simulate(
                judged_lists(graded, options.lists, options.seed),
                users,
                options.sessions,
                rankers=options.rankers,
                ranker_noise=options.ranker_noise,
                length=options.length,
                seed=options.seed,
            )
        )
    except UserError as error:
        sys.exit(str(error))
    write_table(options.out, COLUMNS, (map(str, row) for row in rows))
    truth = ", ".join(f"{value:.3g}" for value in users.examination(options.length))
    print(f"{options.out}: {sum(row.clicks for row in rows):,} clicks")
    print(f"positions 1, 2, ... are examined with probability {truth}")


if __name__ == "__main__":
    main()
