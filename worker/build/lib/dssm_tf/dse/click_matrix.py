"""A click log as a matrix: which title answers which query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Click
from dssm_tf.baselines.clicked_pairs import ClickedPairs
from dssm_tf.text.rules import FOLDED


class ClickMatrix(NamedTuple):
    """Distinct texts of a log and its clicks.

    Attributes:
        queries: distinct normalised queries, in alphabetical order.
        titles: distinct titles: those of the corpus, then clicked ones it lacks.
        clicks: float64 `(queries, titles)`, how often each title was clicked for each query.
    """

    queries: list[str]
    titles: list[str]
    clicks: sparse.csr_matrix

    @classmethod
    def of(cls, clicks: Iterable[Click], titles: Iterable[str], name: str) -> ClickMatrix:
        """Collects a log.

        Raises:
            NoClicks: no click has both a query and a title of words.
        """
        pairs = ClickedPairs.of(clicks, name)
        queries = _numbered(pairs.queries)
        known = _numbered([*map(FOLDED.key, titles), *pairs.titles])
        ends = [queries[text] for text in pairs.queries], [known[text] for text in pairs.titles]
        matrix = sparse.csr_matrix((pairs.clicks, ends), (len(queries), len(known)))
        return cls([*queries], [*known], matrix)

    def held_out(self, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of the held-out queries and of the others; a share that is no query is none."""
        order = np.random.default_rng(seed).permutation(len(self.queries))
        cut = int(share * len(order))
        return np.sort(order[:cut]), np.sort(order[cut:])

    def of_queries(self, rows: NDArray[np.int64]) -> sparse.csr_matrix:
        """The clicks of some queries; the rows of the others are empty."""
        itself = sparse.csr_matrix((np.ones(len(rows)), (rows, rows)), (len(self.queries),) * 2)
        return (itself @ self.clicks).tocsr()

    def training(
        self, rows: NDArray[np.int64], title_queries: float
    ) -> tuple[sparse.csr_matrix, sparse.csr_matrix, NDArray[np.float64]]:
        """Clicks of some queries, and titles as queries below them.

        Args:
            rows: the queries to learn from.
            title_queries: share of the draws that a title as its own query gets.

        Returns:
            Links to draw from and what is known to be relevant, bool `(queries + titles,
            titles)`, and the weight of each link.
        """
        clicks = self.of_queries(rows)
        clicks.data /= clicks.data.sum()
        with_words = np.array([1.0 if title else 0.0 for title in self.titles])
        own = sparse.diags(with_words / with_words.sum()).tocsr()
        own.eliminate_zeros()
        links = sparse.vstack([(1 - title_queries) * clicks, title_queries * own]).tocsr()
        links.eliminate_zeros()
        # A held-out click must not serve as an irrelevant title, which it is known not to be.
        known = sparse.vstack([self.clicks > 0, own > 0]).tocsr()
        return links.astype(bool), known, links.data


def can_be_ranked(links: sparse.csr_matrix) -> bool:
    """Whether any query has both a relevant and an irrelevant title."""
    relevant = np.diff(links.indptr)
    return bool(((relevant > 0) & (relevant < links.shape[1])).any())


def _numbered(texts: Iterable[str]) -> dict[str, int]:
    """The distinct texts, each with its number, in order of first appearance."""
    return {text: number for number, text in enumerate(dict.fromkeys(texts))}
