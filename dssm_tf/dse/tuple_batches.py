"""Training tuples (query, relevant title, irrelevant title), drawn from links in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.common.errors import UserError


class TupleBatch(NamedTuple):
    """Some queries, a relevant title of each, and which of the titles are irrelevant to which.

    Row `i` stands for the tuples `(query i, relevant title i, irrelevant title j)` with
    `counted[i, j]`; every title is encoded once, whatever the tuples it takes part in.

    Args:
        queries: numbers of the queries, `(batch,)`.
        titles: numbers of their relevant titles, `(batch,)`.
        counted: float32 `(batch, batch)`: 1 where the title is irrelevant to the query and the
            tuple belongs to the training set, else 0.
    """

    queries: NDArray[np.int64]
    titles: NDArray[np.int64]
    counted: NDArray[np.float32]


class TupleBatches:
    """Endless batches of training tuples (query, relevant, irrelevant).

    The relevant titles of the other queries of a batch serve as irrelevant ones, where they are:
    a batch of 256 links holds up to 256 * 255 tuples for the encoding of 512 texts, where
    tuples drawn one by one take three texts each.

    Args:
        relevant: links to train on, bool `(queries, titles)`.
        known: what must not serve as irrelevant, the same shape; the links by default.
        batch_size: links a batch, at least 2.
        weights: how often each link is drawn compared with the others, aligned with the entries
            of `relevant` row by row; all alike by default.
        tuples: size of a fixed training set of tuples, each used again and again, instead of all
            that the links allow; without weights.
        seed: of the drawing.

    Raises:
        UserError: there is no link, or no linked title is irrelevant to a linked query.

    Reference: Wu et al. 2014, sec. 2.3 and 4.2-4.3.
    """

    def __init__(
        self,
        relevant: sparse.csr_matrix,
        known: sparse.csr_matrix | None = None,
        *,
        batch_size: int = 256,
        weights: NDArray[np.float64] | None = None,
        tuples: int | None = None,
        seed: int = 0,
    ) -> None:
        links = relevant.tocoo()
        self._links = np.stack([links.row, links.col], axis=1).astype(np.int64)
        self._known = (relevant if known is None else known).tocsr()
        if not len(self._links):
            raise UserError("there is no link to train on; a relevant title is needed.")
        if not self._rivals():
            raise UserError(
                "every linked title is relevant to every linked query; there is nothing to rank. "
                "Add other titles with queries of their own."
            )
        # A few links fill a batch once, not again and again.
        self._batch_size = max(2, min(batch_size, len(self._links)))
        self._weights = None if weights is None else weights / weights.sum()
        self._tuples = tuples
        self._seed = seed

    def _rivals(self) -> bool:
        """Whether any two links make a tuple: the title of one is irrelevant to the other's query.

        Else the search for a batch with a tuple would not end.
        """
        queries, titles = (np.unique(ends) for ends in self._links.T)
        known = self._known[queries][:, titles]
        missing = len(titles) - np.diff(known.indptr)
        if self._known.shape[0] == self._known.shape[1]:
            itself = np.isin(queries, titles)
            linked = np.asarray(self._known[queries, queries]).ravel() != 0
            missing -= itself & ~linked
        return bool((missing > 0).any())

    def __iter__(self) -> Iterator[TupleBatch]:
        """Batches without end, the same ones each time."""
        return self._drawn() if self._tuples is None else self._fixed(self._tuples)

    def _drawn(self) -> Iterator[TupleBatch]:
        random = np.random.default_rng(self._seed)
        number = len(self._links)
        pool = np.empty(0, dtype=np.int64)
        while True:
            if self._weights is not None:
                chosen = random.choice(number, self._batch_size, p=self._weights)
            else:
                while len(pool) < self._batch_size:
                    pool = np.concatenate([pool, random.permutation(number)])
                chosen, pool = pool[: self._batch_size], pool[self._batch_size :]
            batch = self._batch(self._links[chosen])
            if batch.counted.any():
                yield batch

    def _fixed(self, tuples: int) -> Iterator[TupleBatch]:
        """The same blocks of links in every round, in another order, with the same tuples."""
        random = np.random.default_rng(self._seed)
        order = random.permutation(len(self._links))[:tuples]
        blocks = [
            order[start : start + self._batch_size]
            for start in range(0, len(order), self._batch_size)
        ]
        share = tuples / len(order)
        seeds = random.integers(2**31, size=len(blocks))
        while True:
            found = False
            for number in random.permutation(len(blocks)):
                batch = self._batch(self._links[blocks[number]])
                kept = self._thinned(batch.counted, share, int(seeds[number]))
                if kept.any():
                    found = True
                    yield batch._replace(counted=kept)
            if not found:
                raise UserError(
                    f"the {len(order):,} links drawn for {tuples:,} tuples make none; give more."
                )

    def _thinned(
        self, counted: NDArray[np.float32], a_link: float, seed: int
    ) -> NDArray[np.float32]:
        """Keeps `a_link` tuples of every row, or all of them; a fraction by chance."""
        random = np.random.default_rng(seed)
        keep = int(a_link) + (random.random(len(counted)) < a_link - int(a_link))
        priority = np.where(counted > 0, random.random(counted.shape), 2.0)
        rank = np.argsort(np.argsort(priority, axis=1), axis=1)
        return counted * (rank < keep[:, None])

    def _batch(self, links: NDArray[np.int64]) -> TupleBatch:
        queries, titles = links[:, 0], links[:, 1]
        relevant = self._known[queries][:, titles].toarray().astype(bool)
        # A query may stand among the titles, as a page does: it is no answer to itself.
        if self._known.shape[0] == self._known.shape[1]:
            relevant |= queries[:, None] == titles[None, :]
        return TupleBatch(queries, titles, (~relevant).astype(np.float32))
