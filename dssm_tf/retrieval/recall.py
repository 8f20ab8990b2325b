"""How much of the exact answer an index finds, and the fastest setting that finds enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from dssm_tf.retrieval.approximate import SETTINGS, ApproximateIndex
from dssm_tf.retrieval.index import ExactIndex, FlatIndex, VectorIndex, Vectors
from dssm_tf.text.rules import FOLDED

KINDS = ("auto", "exact", "flat", *SETTINGS)
TARGET = 0.98
"""The least recall@10 that an approximate index is used with."""

EXACT_UP_TO = 100_000
"""Titles that `auto` compares one by one."""

PROBES = 400
"""Queries that an approximate index is tried on; half choose its setting, half confirm it."""

_SEED = 20131027
_DEPTHS = (10, 100)
_SURE = 1.64
"""Standard errors: a setting whose recall is above the target by so many has it 19 times in 20."""


@dataclass(frozen=True)
class Measured:
    """What an index finds of what `ExactIndex` finds.

    Attributes:
        kind: one of `KINDS` but `auto`.
        setting: name and value of an approximate index, such as `("nprobe", 16)`, or none.
        recall: at 10 and 100 titles, means over queries that had no part in the choice. 1 of an
            exact index.
        queries: how many these were.
        note: why it is another kind than the one asked for, or empty.
    """

    kind: str
    setting: tuple[str, int] | None = None
    recall: tuple[float, float] = (1.0, 1.0)
    queries: int = 0
    note: str = ""

    def sentence(self) -> str:
        """What is printed of it.

        >>> Measured("hnsw", ("efSearch", 64), (0.9931, 0.981), 200).sentence()
        'hnsw, efSearch 64: recall@10 .993, @100 .981, on 200 queries'
        """
        if self.setting is None:
            return f"{self.note + ' ' if self.note else ''}{self.kind}: all titles are compared"
        at_10, at_100 = (f"{one:.3f}".removeprefix("0") for one in self.recall)
        return (
            f"{self.kind}, {self.setting[0]} {self.setting[1]}: recall@10 {at_10}, @100 {at_100}, "
            f"on {self.queries} queries"
        )


def recall(found: Vectors, exact: Vectors) -> NDArray[np.float64]:
    """The share of each query's exact titles that was found: `(queries,)`.

    A title found counts where its score is at least that of the last exact one: of titles that tie
    at the cut, any will do.

    >>> recall(np.array([[0.9, 0.5, 0.4]]), np.array([[0.9, 0.8, 0.5]])).round(2).tolist()
    [0.67]

    Args:
        found: scores, `(queries, k)`, -inf for none.
        exact: scores of the best `k`, best first.
    """
    shares: NDArray[np.float64] = (found >= exact[:, -1:]).mean(axis=1)
    return shares


def probe_queries(titles: Sequence[str], count: int = PROBES) -> list[str]:
    """Queries made of some of the words of titles drawn by lot; each word stays with even odds.

    Args:
        titles: at least one has a word.
        count: how many queries.
    """
    random = np.random.default_rng(_SEED)
    made: list[str] = []
    for row in cycle(random.permutation(len(titles))):
        own = FOLDED.words(titles[row])
        kept = [word for word in own if random.random() < 0.5]
        if own:
            made.append(" ".join(kept or [own[random.integers(len(own))]]))
        if len(made) == count:
            return made
    raise ValueError("There are no titles.")


def choose_index(
    vectors: Vectors,
    queries: Callable[[], Vectors],
    kind: str = "auto",
    target: float = TARGET,
    report: Callable[[str], None] = lambda step: None,
) -> tuple[VectorIndex, Measured]:
    """The index of a kind, set so that it finds enough; an exact one where it cannot.

    Every other query chooses: the fastest setting whose recall@10 is above the target by more than
    chance. The other queries confirm that one setting, once; their recall is what is reported.

    Args:
        vectors: of the titles, `(titles, dimension)`.
        queries: makes vectors to try it with, `(queries, dimension)`.
        kind: one of `KINDS`. `auto` compares all of at most 100,000 titles, and beyond takes
            `hnsw` where faiss is installed.
        target: least recall@10.
        report: told what is being done.

    Raises:
        UserError: faiss is asked for and not installed.
    """
    note = ""
    if kind == "auto":
        kind = "hnsw" if len(vectors) > EXACT_UP_TO else "exact"
        if kind == "hnsw" and not _has_faiss():
            kind, note = "exact", "faiss is not installed;"
    if kind == "exact":
        return ExactIndex(vectors), Measured("exact", note=note)
    if kind == "flat":
        return FlatIndex(vectors), Measured("flat")
    report(f"building {kind}")
    index = ApproximateIndex.build(vectors, kind)
    report("comparing with exact search")
    asked = queries()
    choosing, confirming = asked[::2], asked[1::2]
    exact = ExactIndex(vectors)
    wanted = exact.search(choosing, _DEPTHS[0])[0]
    for value in SETTINGS[kind][1]:
        report(f"trying {SETTINGS[kind][0]} {value}")
        tried = index.with_value(value)
        found = recall(tried.search(choosing, _DEPTHS[0])[0], wanted)
        if found.mean() - _SURE * found.std() / len(found) ** 0.5 >= target:
            break
    at_10, at_100 = (
        float(recall(tried.search(confirming, k)[0], exact.search(confirming, k)[0]).mean())
        for k in _DEPTHS
    )
    if at_10 >= target:
        setting = (tried.setting.name, value)
        return tried, Measured(kind, setting, (at_10, at_100), len(confirming))
    why = (
        f"{kind} finds {at_10:.4f} of what it should (recall@10), and {target:g} is wanted, as "
        "happens where titles are nearly equal;"
    )
    return exact, replace(Measured("exact"), note=why)


def _has_faiss() -> bool:
    from importlib.util import find_spec

    return find_spec("faiss") is not None
