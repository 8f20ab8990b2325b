"""Team-draft interleaving: merges two rankings into one list; clicks on it show which is better."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from dssm_tf.common.errors import UserError

TEAMS = "a", "b"
"""The teams of the first and of the second ranking."""
NO_TEAM = ""
"""The team of titles whose clicks do not count."""

T = TypeVar("T", bound=Hashable)


class Interleaved(NamedTuple):  # not Generic: Python 3.10 allows no other base
    """Two rankings merged into one list.

    Args:
        titles: the titles to show, best first, each once.
        teams: the team of each title: `a`, `b`, or empty if its clicks do not count.
    """

    titles: list[Any]
    teams: list[str]


def team_draft(
    a: Iterable[T], b: Iterable[T], k: int = 10, *, seed: int | str | None = None
) -> Interleaved:
    """Interleaves two rankings by team draft.

    In each round, a coin decides which ranking picks first. Each ranking picks its best title that
    is not in the list yet, and the title joins the ranking's team. If users prefer a ranking, they
    click more titles of its team. At each position that has a team, both are equally likely.

    A round counts only if both rankings can pick a title, whichever picks first. After the last
    such round, the remaining titles follow in the same way, but without a team. Otherwise the
    longer ranking would have more titles than the other. Radlinski et al. stop at the end of the
    shorter ranking instead.

        >>> team_draft(["halo", "fable", "rage"], ["rage", "halo", "forza"], k=4, seed=1)
        Interleaved(titles=['halo', 'rage', 'forza', 'fable'], teams=['a', 'b', 'b', 'a'])

    Args:
        a: ids of titles, best first. If an id is repeated, only its first position counts.
        b: the ids of the other ranking.
        k: maximum length of the list.
        seed: seed of the coin. The list depends only on the rankings, `k` and the seed. Use a
            different seed for each search, such as the search's id as text. None uses a random
            seed.

    Raises:
        UserError: `k` is not a positive whole number, or a ranking is a text instead of a list.

    Reference: Radlinski, Kurup and Joachims 2008, "How does clickthrough data reflect retrieval
        quality?", algorithm 2.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise UserError(f"k is {k!r:.60}; expected a whole number from 1.")
    for name, ranking in (("a", a), ("b", b)):
        if isinstance(ranking, (str, bytes)):
            raise UserError(f"{name} is the text {ranking!r:.60}; expected a list of ids.")
    random = Random(seed)
    return draft([*dict.fromkeys(a)], [*dict.fromkeys(b)], k, lambda: random.random() < 0.5)


def draft(a: Sequence[T], b: Sequence[T], k: int, a_first: Callable[[], bool]) -> Interleaved:
    """Interleaves two rankings without repeated ids; see `team_draft`.

    Args:
        a: distinct ids of titles, best first.
        b: the ids of the other ranking.
        k: maximum length of the list.
        a_first: the coin of each round: returns whether `a` picks first.
    """
    team_of: dict[T, str] = {}  # in the order of the list
    ranking_of = dict(zip(TEAMS, (a, b), strict=True))
    round_counts = True
    while len(team_of) < k:
        teams = TEAMS if a_first() else TEAMS[::-1]
        round_counts = round_counts and (
            _can_complete(a, b, team_of) and _can_complete(b, a, team_of)
        )
        size = len(team_of)
        for team in teams:
            title = next(_remaining(ranking_of[team], team_of), None)
            if title is not None and len(team_of) < k:
                team_of[title] = team if round_counts else NO_TEAM
        if len(team_of) == size:
            break
    return Interleaved([*team_of], [*team_of.values()])


def _remaining(ranking: Sequence[T], used: dict[T, str]) -> Iterator[T]:
    return (title for title in ranking if title not in used)


def _can_complete(first: Sequence[T], second: Sequence[T], used: dict[T, str]) -> bool:
    """Whether both rankings can pick a title if `first` picks first."""
    first_pick = next(_remaining(first, used), None)
    return first_pick is not None and any(title != first_pick for title in _remaining(second, used))
