"""Makes a click log with a known position bias from judged lists.

    python examples/simulate_clicks.py --judgments judgments.tsv --eta 1 --out LOG.tsv
    dssm preprocess --input LOG.tsv --position-weights harvesting --output DATA

Rankers order each query's titles by BM25 plus noise of their own and do not see the grades. One of
them, drawn at random, answers each session, so titles are shown at several positions. Simulated
users look at position k with probability `k ** -eta` and click according to the grade. The columns
of the log are query, title, position, impressions and clicks.
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
from dssm_tf.tables.cells import LARGEST_GRADE
from dssm_tf.tables.graded_lists import GradedList, read_lists
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import FOLDED

Probabilities = NDArray[np.float64]


@dataclass(frozen=True)
class Users:
    """How simulated users click.

    Args:
        model: of `MODELS`.
        eta: position bias: position k is looked at with probability `k ** -eta`, from 0 to 2.
        noise: probability of a click on a title of grade 0 that is looked at.
        trust: of the model `trust`: the share of the titles not clicked for their relevance that
            are clicked for being at the top; divided by the position.
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
        """The probability of a click on a title that is looked at.

            noise + (1 - noise) (2^grade - 1) / (2^best - 1)

        Reference: Ai et al. 2018, "Unbiased Learning to Rank with Unbiased Propensity Estimation",
            section 5.2.
        """
        share: Probabilities = (2.0**grades - 1) / (2.0**best - 1)
        return self.noise + (1 - self.noise) * share


def _position_based(users: Users, relevance: Probabilities) -> Probabilities:
    """A title is clicked if it is looked at and relevant (Richardson et al. 2007)."""
    return users.examination(len(relevance)) * relevance


def _cascade(users: Users, relevance: Probabilities) -> Probabilities:
    """From the top to the first click (Craswell et al. 2008).

    Before each further title `1 - (k / (k + 1)) ** eta` of the users leave, so that position k is
    looked at with probability `k ** -eta` if nothing above is clicked.
    """
    above = np.cumprod(np.append(1.0, 1 - relevance[:-1]))
    return users.examination(len(relevance)) * above * relevance


def _trust(users: Users, relevance: Probabilities) -> Probabilities:
    """High titles are also clicked because they are high (Agarwal et al. 2019, trust bias)."""
    trusted = users.trust / np.arange(1, len(relevance) + 1)
    return users.examination(len(relevance)) * (relevance + (1 - relevance) * trusted)


MODELS: Mapping[str, Callable[[Users, Probabilities], Probabilities]] = {
    "position": _position_based,
    "cascade": _cascade,
    "trust": _trust,
}
"""From users and the relevance of a list's titles to the probability of a click at each position;
that of the cascade is of the first click, of which a session has one at most."""


class JudgedList(NamedTuple):
    """A query's titles with their grades, and the scores that rankers start from.

    Args:
        query: as judged.
        titles: as judged; a log cannot tell equal ones apart.
        grades: `(titles,)`.
        scores: `(titles,)`, of a system that does not see the grades.
    """

    query: str
    titles: Sequence[str]
    grades: Probabilities
    scores: NDArray[np.floating]


class ClickRow(NamedTuple):
    """A title at a position of a query's lists."""

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
    """Draws sessions: a query and a ranker, all equally likely, and the clicks on its list.

    Args:
        lists: of judged titles.
        users: how they click.
        sessions: how many.
        rankers: how many; each adds fixed noise of its own to the scores.
        ranker_noise: its standard deviation, in those of a list's scores.
        length: titles that a list shows at most.
        seed: of everything.

    Yields:
        Rows with an impression at least, query by query.

    Raises:
        UserError: no grade is above 0.
    """
    best = max(float(one.grades.max()) for one in lists)
    if best <= 0:
        raise UserError("no grade is above 0; expected titles that somebody would click.")
    # What is shown does not depend on what is clicked, and is the same for all users.
    random, clicking = np.random.default_rng(seed).spawn(2)
    asked = random.multinomial(sessions, np.full(len(lists), 1 / len(lists)))
    for one, number in zip(lists, asked, strict=True):
        relevance = users.relevance(one.grades, best)
        spread = one.scores.std() or 1.0
        noise = random.standard_normal((rankers, len(one.titles)))
        ranked = one.scores / spread + ranker_noise * noise
        answered = random.multinomial(number, np.full(rankers, 1 / rankers))
        found: dict[tuple[int, int], list[int]] = {}
        for order, times in zip(np.argsort(-ranked, kind="stable"), answered, strict=True):
            order = order[:length]
            clicks = _clicks(clicking, users, relevance[order], int(times))
            for position, (title, clicked) in enumerate(zip(order, clicks, strict=True), start=1):
                row = found.setdefault((int(title), position), [0, 0])
                row[0] += int(times)
                row[1] += int(clicked)
        for (title, position), (impressions, clicked) in sorted(found.items()):
            if impressions:
                yield ClickRow(one.query, one.titles[title], position, impressions, clicked)


def _clicks(
    random: np.random.Generator, users: Users, relevance: Probabilities, times: int
) -> NDArray[np.int64]:
    """Clicks at each position of a list that was shown some times."""
    probability = MODELS[users.model](users, relevance)
    if users.model == "cascade":  # one click at most: positions exclude each other
        return random.multinomial(times, np.append(probability, max(0.0, 1 - probability.sum())))[
            :-1
        ]
    return random.binomial(times, probability)


def judged_lists(judged: Sequence[GradedList], number: int = 0, seed: int = 0) -> list[JudgedList]:
    """The judged titles of some queries with their BM25 scores; words are counted in all titles.

    Args:
        judged: of all queries.
        number: of queries, drawn; 0 for all.
        seed: of the draw.
    """
    places = np.random.default_rng(seed).permutation(len(judged))[: number or None]
    ranker = BM25().fit([], dict.fromkeys(title for one in judged for title in one.titles))
    return [
        JudgedList(one.query, one.titles, np.array(one.values), ranker.score(one.query, one.titles))
        for one in (judged[place] for place in sorted(places))
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Writes a simulated log."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--judgments", required=True, help="table with query, title, grade")
    parser.add_argument("--model", default="position", choices=MODELS, help="how users click")
    parser.add_argument("--eta", type=float, default=1.0, help="position bias, 0 (none) to 2")
    parser.add_argument("--sessions", type=int, default=100_000, help="lists shown")
    parser.add_argument("--lists", type=int, default=0, help="queries, drawn; 0: all")
    parser.add_argument("--length", type=int, default=10, help="titles of a list at most")
    parser.add_argument("--rankers", type=int, default=3, help="1: no title moves")
    parser.add_argument("--ranker-noise", type=float, default=1.0, help="in BM25's spread")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, type=Path, metavar="LOG.tsv")
    options = parser.parse_args(argv)
    if options.out.exists():
        sys.exit(f"{options.out} exists; name another file with --out.")
    users = Users(options.model, options.eta)
    try:
        judged = read_lists(options.judgments, "grade", (0, LARGEST_GRADE), FOLDED)
        rows = list(
            simulate(
                judged_lists(judged, options.lists, options.seed),
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
    truth = ", ".join(f"{one:.3g}" for one in users.examination(options.length))
    print(f"{options.out}: {sum(row.clicks for row in rows):,} clicks")
    print(f"positions 1, 2, ... are looked at with probability {truth}")


if __name__ == "__main__":
    main()
