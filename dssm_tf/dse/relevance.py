"""Which title answers which query: from classes, links or clicks, as training tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.common.errors import UserError

_DENSE = 1 << 26  # pairs whose relevance is held as a table of bytes, for speed


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

    @property
    def tuples(self) -> int:
        """How many tuples the batch stands for."""
        return int(self.counted.sum())


def same_class(labels: Sequence[str]) -> sparse.csr_matrix:
    """Relevance of pages to each other where they are of one class.

    Returns:
        Bool `(pages, pages)`, symmetric; no page is relevant to itself.

    Raises:
        UserError: a class without a name, a class of a single page, or a single class.
    """
    names, members = np.unique(np.asarray(labels), return_inverse=True)
    counts = np.bincount(members, minlength=len(names))
    if "" in names:
        raise UserError(f"{int(counts[list(names).index('')])} pages have an empty class.")
    if (counts < 2).any():
        small = int(np.argmin(counts))
        raise UserError(
            f"class {str(names[small])!r} has {counts[small]} page; a class needs at least 2, "
            "so that one can be relevant to another. Leave it out, or add pages."
        )
    if len(names) < 2:
        raise UserError(
            f"{len(names)} class in the pages; at least 2 are needed for a page to be irrelevant."
        )
    of_class = sparse.csr_matrix(
        (np.ones(len(members), dtype=np.int32), (np.arange(len(members)), members))
    )
    relevant = (of_class @ of_class.T).astype(bool).tolil()
    relevant.setdiag(False)
    return _tidy(relevant)


def linked(pages: Sequence[str], links: Iterable[tuple[str, str]]) -> sparse.csr_matrix:
    """Relevance of pages to each other where one links to the other.

    Args:
        pages: their ids, in the order of rows and columns.
        links: ids of source and target; repeats and links of a page to itself count nothing.

    Returns:
        Bool `(pages, pages)`, symmetric.

    Raises:
        UserError: a link names an unknown page, a page id comes twice, or no link is left.
    """
    places = {page: place for place, page in enumerate(pages)}
    if len(places) < len(pages):
        twice = next(page for place, page in enumerate(pages) if places[page] != place)
        raise UserError(f"page {twice!r} comes twice; give each page its own id.")
    sources, targets = [], []
    for number, link in enumerate(links, start=1):
        for page in link:
            if page not in places:
                raise UserError(
                    f"link {number}, {link[0]!r} to {link[1]!r}, names a page that is not among "
                    f"the {len(places)} pages: {page!r}. Add the page, or drop the link."
                )
        if link[0] != link[1]:
            sources.append(places[link[0]])
            targets.append(places[link[1]])
    if not sources:
        raise UserError("there is no link between two pages; relevance needs at least one.")
    one_way = sparse.csr_matrix(
        (np.ones(len(sources), dtype=bool), (sources, targets)), (len(pages), len(pages))
    )
    return _tidy(one_way + one_way.T)


def split_links(
    relevant: sparse.csr_matrix, share: float, seed: int = 0
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Two symmetric parts of a symmetric relevance: a pair is in one of them, both ways round.

    Args:
        relevant: bool `(pages, pages)`, symmetric.
        share: of the pairs that the first part gets, between 0 and 1.
        seed: of the drawing; with one seed a larger share holds the smaller one.

    Raises:
        ValueError: the share is not between 0 and 1.
        UserError: a part would be empty.
    """
    if not 0 < share < 1:
        raise ValueError(f"split_links received share={share}; expected 0 < share < 1.")
    upper = sparse.triu(relevant, k=1).tocoo()
    order = np.random.default_rng(seed).permutation(upper.nnz)
    first = round(share * upper.nnz)
    if not 0 < first < upper.nnz:
        raise UserError(
            f"{share:.0%} of {upper.nnz} links leaves no link on one side; give more links."
        )

    def part(chosen: NDArray[np.int64]) -> sparse.csr_matrix:
        half = sparse.csr_matrix(
            (np.ones(len(chosen), dtype=bool), (upper.row[chosen], upper.col[chosen])),
            relevant.shape,
        )
        return _tidy(half + half.T)

    return part(order[:first]), part(order[first:])


class TupleBatches:
    """Endless batches of training tuples (query, relevant, irrelevant).

    The relevant titles of the other queries of a batch serve as irrelevant ones, where they are:
    a batch of 256 links holds up to 256 * 255 tuples for the encoding of 512 texts, where
    tuples drawn one by one take three texts each.

    Args:
        relevant: links to train on, bool `(queries, titles)`.
        known: what must not serve as irrelevant, the same shape; the links by default.
        batch_size: links a batch.
        weights: how often each link is drawn compared with the others, aligned with the entries
            of `relevant` row by row; all alike by default.
        tuples: size of a fixed training set of tuples, each used again and again, instead of all
            that the links allow.
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
        if batch_size < 2:
            raise ValueError(f"TupleBatches received batch_size={batch_size}; expected 2 or more.")
        if weights is not None and tuples is not None:
            raise ValueError("TupleBatches received weights and tuples; expected one of them.")
        links = relevant.tocoo()
        self._links = np.stack([links.row, links.col], axis=1).astype(np.int64)
        self._known = (relevant if known is None else known).tocsr()
        size = self._known.shape[0] * self._known.shape[1]
        self._dense = self._known.toarray() if size <= _DENSE else None
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
            if batch.tuples:
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
        if self._dense is not None:
            relevant = self._dense[np.ix_(queries, titles)].astype(bool)
        else:
            relevant = self._known[queries][:, titles].toarray().astype(bool)
        # A query may stand among the titles, as a page does: it is no answer to itself.
        if self._known.shape[0] == self._known.shape[1]:
            relevant |= queries[:, None] == titles[None, :]
        return TupleBatch(queries, titles, (~relevant).astype(np.float32))


def _tidy(relevant: sparse.spmatrix) -> sparse.csr_matrix:
    found = relevant.tocsr().astype(bool)
    found.eliminate_zeros()
    found.sort_indices()
    return found
