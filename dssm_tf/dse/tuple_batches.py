"""Training tuples (query, relevant title, irrelevant title), drawn from links in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.common.errors import UserError

_MAX_EMPTY_BATCHES = 1000  # in a row; then the links are assumed to have no tuple


class TupleBatch(NamedTuple):
    """Some queries, a relevant title of each, and which of the titles are irrelevant to each query.

    Row `i` stands for the tuples `(query i, relevant title i, irrelevant title j)` for which
    `is_irrelevant[i, j]` is 1. Each title is encoded once, even if it is in several tuples.

    Args:
        queries: indices of the queries, `(batch,)`.
        titles: indices of their relevant titles, `(batch,)`.
        is_irrelevant: float32 `(batch, batch)`: 1 where title j is irrelevant to query i, so that
            (query i, title i, title j) is a training tuple; else 0.
    """

    queries: NDArray[np.int64]
    titles: NDArray[np.int64]
    is_irrelevant: NDArray[np.float32]


class TupleBatches:
    """Endless batches of training tuples (query, relevant title, irrelevant title).

    Every iteration yields the same batches. The relevant titles of the other queries of a batch
    serve as irrelevant ones unless they are known to be relevant. So a batch of 256 links has up to
    256 * 255 tuples for the encoding of 512 texts; tuples drawn one by one need three texts each.

    Args:
        relevant: links to train on, bool `(queries, titles)`.
        known: pairs that are never irrelevant, the same shape.
        batch_size: links per batch, at least 2.
        weights: relative frequency of each link, aligned with the entries of `relevant` row by
            row; None draws all equally often.
        seed: seed of the random draws.

    Attributes:
        links: indices of query and title, `(links, 2)`.

    Raises:
        UserError: there is no link. During iteration: every linked title is relevant to every
            linked query.

    Reference: Wu et al. 2014, sec. 2.3 and 4.2-4.3.
    """

    def __init__(
        self,
        relevant: sparse.csr_matrix,
        known: sparse.csr_matrix,
        batch_size: int = 256,
        weights: NDArray[np.float64] | None = None,
        seed: int = 0,
    ) -> None:
        self.links = np.stack(relevant.nonzero(), axis=1).astype(np.int64)
        if not len(self.links):
            raise UserError("there is no link to train on; a relevant title is needed.")
        self._known = known.tocsr()
        # If there are fewer links, a batch has each of them once.
        self.batch_size = max(2, min(batch_size, len(self.links)))
        self._weights = None if weights is None else weights / weights.sum()
        self.seed = seed

    def __iter__(self) -> Iterator[TupleBatch]:
        random = np.random.default_rng(self.seed)
        count = len(self.links)
        pool = np.empty(0, dtype=np.int64)
        empty_batches = 0
        while empty_batches < _MAX_EMPTY_BATCHES:
            if self._weights is not None:
                chosen = random.choice(count, self.batch_size, p=self._weights)
            else:
                while len(pool) < self.batch_size:
                    pool = np.concatenate([pool, random.permutation(count)])
                chosen, pool = pool[: self.batch_size], pool[self.batch_size :]
            batch = self.batch(chosen)
            if batch.is_irrelevant.any():
                empty_batches = 0
                yield batch
            else:
                empty_batches += 1
        raise UserError(
            "every linked title is relevant to every linked query; there is nothing to rank. "
            "Add other titles with queries of their own."
        )

    def batch(self, chosen: NDArray[np.int64]) -> TupleBatch:
        """The batch of some links, by their indices."""
        queries, titles = self.links[chosen].T
        relevant = self._known[queries][:, titles].toarray().astype(bool)
        # If queries and titles are the same pages, a page is not compared with itself.
        if self._known.shape[0] == self._known.shape[1]:
            relevant |= queries[:, None] == titles[None, :]
        return TupleBatch(queries, titles, (~relevant).astype(np.float32))
