"""The interface of every system in evaluation: a name and scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

CACHED_TITLE_LISTS = 8
"""Number of lists of titles for which a ranker caches its results."""


@runtime_checkable
class Ranker(Protocol):
    """A system that scores titles for a query; the higher the score, the better the title.

    Trained models, baselines and ensembles all have this interface, so the code
    that ranks, measures and searches does not depend on the kind of system. Only
    the order of the scores within one query matters; scores are finite, and
    equal titles get equal scores for the same query.

    Attributes:
        name: the system's name in tables and run files.
    """

    @property
    def name(self) -> str:
        """The system's name in tables and run files."""
        ...

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.floating[Any]]:
        """Scores titles for one query.

        Args:
            query: raw text; an empty or unknown query is defined, not an error.
            titles: raw texts, in any order; repeats allowed.

        Returns:
            `(len(titles),)`, aligned with `titles`.
        """
        ...

    def score_matrix(
        self, queries: Sequence[str], titles: Sequence[str]
    ) -> NDArray[np.floating[Any]]:
        """Scores every title for every query, many queries at once.

        An evaluation on a corpus calls this with a few hundred queries at a
        time and the same `titles` tuple each time, so an implementation may
        cache its results for the last tuple.

        Args:
            queries: raw texts.
            titles: raw texts.

        Returns:
            `(len(queries), len(titles))`; row `i` equals `score(queries[i], titles)`.
        """
        ...
