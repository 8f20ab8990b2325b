"""Training tuples (query, relevant title, irrelevant title), drawn from links in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.common.errors import UserError

_EMPTY = 1000  # batches without a tuple in a row: there is none


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
    """Endless batches of training tuples (query, relevant, irrelevant), the same ones each time.

    The relevant titles of the other queries of a batch serve as irrelevant ones, where they are:
    a batch of 256 links holds up to 256 * 255 tuples for the encoding of 512 texts, where
    tuples drawn one by one take three texts each.

    Args:
        relevant: links to train on, bool `(queries, titles)`.
        known: what must not serve as irrelevant, the same shape.
        batch_size: links a batch, at least 2.
        weights: how often each link is drawn compared with the others, aligned with the entries
            of `relevant` row by row; all alike by default.
        seed: of the drawing.

    Attributes:
        links: numbers of query and title, `(links, 2)`.

    Raises:
        UserError: there is no link; or, once iterated, no linked title is irrelevant to a linked
            query.

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
        # A few links fill a batch once, not again and again.
        self.batch_size = max(2, min(batch_size, len(self.links)))
        self._weights = None if weights is None else weights / weights.sum()
        self.seed = seed

    def __iter__(self) -> Iterator[TupleBatch]:
        random = np.random.default_rng(self.seed)
        number = len(self.links)
        pool = np.empty(0, dtype=np.int64)
        empty = 0
        while empty < _EMPTY:
            if self._weights is not None:
                chosen = random.choice(number, self.batch_size, p=self._weights)
            else:
                while len(pool) < self.batch_size:
                    pool = np.concatenate([pool, random.permutation(number)])
                chosen, pool = pool[: self.batch_size], pool[self.batch_size :]
            batch = self.batch(chosen)
            if batch.counted.any():
                empty = 0
                yield batch
            else:
                empty += 1
        raise UserError(
            "every linked title is relevant to every linked query; there is nothing to rank. "
            "Add other titles with queries of their own."
        )

    def batch(self, chosen: NDArray[np.int64]) -> TupleBatch:
        """The batch of some links, by their numbers."""
        queries, titles = self.links[chosen].T
        relevant = self._known[queries][:, titles].toarray().astype(bool)
        # A query may stand among the titles, as a page does: it is no answer to itself.
        if self._known.shape[0] == self._known.shape[1]:
            relevant |= queries[:, None] == titles[None, :]
        return TupleBatch(queries, titles, (~relevant).astype(np.float32))
