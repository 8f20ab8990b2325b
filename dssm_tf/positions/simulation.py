"""Click logs with a known truth: simulated users over judged lists.

A ranker orders a query's titles by words, with noise of its own; which ranker answers a session is
drawn, so that a title stands at several positions. No ranker knows a grade.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError

Probabilities = NDArray[np.float64]


@dataclass(frozen=True)
class Users:
    """How simulated users click.

    Args:
        model: of `MODELS`.
        eta: position bias: position k is looked at with probability `k ** -eta`, from 0 to 2.
        noise: probability of a click on a title of grade 0 that is looked at.
        trust: of the model `trust`: the share of the titles not clicked for their relevance that
            are clicked for standing at the top; divided by the position.

    Raises:
        UserError: a value is out of range.
    """

    model: str = "position"
    eta: float = 1.0
    noise: float = 0.1
    trust: float = 0.3

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise UserError(f"model is {self.model!r}; expected one of {', '.join(MODELS)}.")
        for name, most in (("eta", 2), ("noise", 1), ("trust", 1)):
            if not 0 <= (value := getattr(self, name)) <= most:
                raise UserError(f"{name} is {value:g}; expected a number from 0 to {most}.")

    def examination(self, positions: int) -> Probabilities:
        """The true propensities, `(positions,)`."""
        curve: Probabilities = np.arange(1.0, positions + 1) ** -self.eta
        return curve

    def relevance(self, grades: Probabilities, best: float) -> Probabilities:
        """How likely a title is clicked that is looked at.

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
    looked at with probability `k ** -eta` where nothing above is clicked.
    """
    above = np.cumprod(np.append(1.0, 1 - relevance[:-1]))
    return users.examination(len(relevance)) * above * relevance


def _trust(users: Users, relevance: Probabilities) -> Probabilities:
    """What stands high is also clicked because it does (Agarwal et al. 2019, trust bias)."""
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
    """A query's titles with their grades, and what rankers go by.

    Args:
        query: as judged.
        titles: as judged; a log cannot tell equal ones apart.
        grades: `(titles,)`.
        scores: `(titles,)`, of a system that knows no grade.
    """

    query: str
    titles: Sequence[str]
    grades: NDArray[np.float64]
    scores: NDArray[np.float64]


class ClickRow(NamedTuple):
    """What a log says of a title at a position of a query's lists."""

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
    """Draws sessions: a query and a ranker, all alike, and the clicks on its list.

    Args:
        lists: of judged titles.
        users: how they click.
        sessions: how many.
        rankers: how many; each adds noise of its own, once and for all, to the scores.
        ranker_noise: its standard deviation, in those of a list's scores.
        length: titles that a list shows at most.
        seed: of everything.

    Yields:
        Rows with an impression at least, query by query.

    Raises:
        UserError: a number is out of range.
    """
    for name, value in (("sessions", sessions), ("rankers", rankers), ("length", length)):
        if value < 1:
            raise UserError(f"{name} is {value}; expected 1 or more.")
    if not (lists and 0 <= ranker_noise < np.inf):
        raise UserError(
            f"there are {len(lists)} lists and a ranker noise of {ranker_noise:g}; expected one "
            "list at least and a number of 0 or more."
        )
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
