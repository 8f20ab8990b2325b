"""Remembered clicks: the log's own clicks of a frequent query, mixed into the scores of its titles.

For a remembered query `q` and a title `t`, the expected fraction of the clicks is

    m(t|q) = (c(q, t) + mu p(t|q)) / (c(q) + mu)
    p(t|q) = exp(gamma score(q, t)) / Z(q)

with c(q, t) the remembered clicks of the pair, c(q) those of the query, and p the model's
distribution over titles: a softmax of its scores, which include the prior. `gamma` is the factor of
the training's softmax. `Z(q)` is the sum of exp(gamma score) over the titles that the index ranks
first for the query, at most `NORMALIZED_TITLES` of them, and over the titles with remembered
clicks.

Titles are ranked by m. So that the parts of a score still add up, and a title without remembered
clicks keeps its score, the score becomes

    score(q, t) + ln(1 + c(q, t) / (mu p(t|q))) / gamma

This is ln m(t|q) / gamma plus a number that is equal for all titles of the query.

Reference: Zhai and Lafferty 2004 (Dirichlet smoothing).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import read_arrays
from dssm_tf.common.errors import UserError
from dssm_tf.text.rules import Key
from dssm_tf.text.stable_hash import fingerprint64

REMEMBERED_CLICKS = "remembered_clicks.npz"

NORMALIZED_TITLES = 1000
"""Maximum number of best titles over which the model's distribution is normalized."""

_HINT = "Build the index again: dssm index --model RUN --corpus CORPUS --clicks LOG --out INDEX"


class QueryClicks(NamedTuple):
    """The remembered clicks of one query.

    Attributes:
        rows: positions of its titles in the arrays of `RememberedClicks`.
        titles: int64 `(titles,)`, hashes of the titles' keys.
        clicks: int64 `(titles,)`.
        log_sum: `ln Z(q)`.
    """

    rows: slice
    titles: NDArray[np.int64]
    clicks: NDArray[np.int64]
    log_sum: float


class RememberedClicks(NamedTuple):
    """The remembered clicks of all queries. Queries and titles are stored as hashes.

    Attributes:
        queries: int64 `(queries,)`, ascending hashes of the queries' words.
        starts: int64 `(queries + 1,)`, the start of each query's titles.
        titles: int64 `(pairs,)`, hashes of the titles' keys.
        clicks: int64 `(pairs,)`, the clicks of each pair of query and title, at least 1.
        log_sums: float64 `(queries,)`, `ln Z(q)`.
        mu: the number of clicks that the model's distribution counts as.
        gamma: the factor of the softmax.
    """

    queries: NDArray[np.int64]
    starts: NDArray[np.int64]
    titles: NDArray[np.int64]
    clicks: NDArray[np.int64]
    log_sums: NDArray[np.float64]
    mu: float
    gamma: float

    def of_query(self, words: Sequence[str]) -> QueryClicks | None:
        """The clicks of a query, by its words in order; None if it has no remembered clicks."""
        query = query_hash(words)
        row = int(np.searchsorted(self.queries, query))
        if row == len(self.queries) or self.queries[row] != query:
            return None
        rows = slice(int(self.starts[row]), int(self.starts[row + 1]))
        return QueryClicks(rows, self.titles[rows], self.clicks[rows], float(self.log_sums[row]))

    def added(
        self, clicks: NDArray[np.int64], scores: NDArray[Any], log_sum: float
    ) -> NDArray[np.float64]:
        """The part of the scores of some titles that remembered clicks add, `(titles,)`.

        Args:
            clicks: `(titles,)`, the remembered clicks of each title.
            scores: `(titles,)`, the model's scores, with the prior.
            log_sum: `ln Z(q)` of the query.
        """
        with np.errstate(divide="ignore"):  # ln 0 is -inf, which adds 0
            log_clicks = np.log(clicks)
        ratio = log_clicks - np.log(self.mu) + log_sum - self.gamma * scores.astype(np.float64)
        added: NDArray[np.float64] = np.logaddexp(0.0, ratio) / self.gamma
        return added

    def added_to_titles(
        self, words: Sequence[str], titles: Sequence[Key], scores: NDArray[Any]
    ) -> NDArray[np.float64]:
        """The part of the scores of any titles that remembered clicks add, `(titles,)`.

        Args:
            words: the words of the query, in order.
            titles: the keys of the titles.
            scores: `(titles,)`, the model's scores, with the prior.
        """
        query_clicks = self.of_query(words)
        added = np.zeros(len(titles))
        if query_clicks is None:
            return added
        clicks_of = dict(
            zip(query_clicks.titles.tolist(), query_clicks.clicks.tolist(), strict=True)
        )
        clicks = np.array([clicks_of.get(fingerprint64(title), 0) for title in titles], np.int64)
        clicked = np.flatnonzero(clicks)
        added[clicked] = self.added(clicks[clicked], scores[clicked], query_clicks.log_sum)
        return added

    def save(self, directory: Path) -> None:
        """Writes `REMEMBERED_CLICKS`."""
        np.savez(directory / REMEMBERED_CLICKS, **self._asdict())


def query_hash(words: Sequence[str]) -> int:
    """The hash of a query: that of its words in order."""
    return fingerprint64(" ".join(words))


def read_remembered_clicks(directory: Path) -> RememberedClicks:
    """Reads and checks the file that `RememberedClicks.save` wrote.

    Raises:
        UserError: the file cannot be read, or a value is impossible.
    """
    path = directory / REMEMBERED_CLICKS
    arrays = read_arrays(path, _HINT)
    if problem := _problem(arrays):
        raise UserError(f"{path}: {problem}. {_HINT}")
    mu, gamma = (float(arrays.pop(name)) for name in ("mu", "gamma"))
    return RememberedClicks(**arrays, mu=mu, gamma=gamma)


def _problem(arrays: dict[str, NDArray[Any]]) -> str | None:
    """Describes the problem of the arrays; None if they are valid."""
    if {*arrays} != {*RememberedClicks._fields}:
        return f"it has the arrays {', '.join(sorted(arrays))[:100]}"
    for name in ("queries", "starts", "titles", "clicks"):
        if arrays[name].dtype != np.int64 or arrays[name].ndim != 1:
            return f"{name} is {arrays[name].dtype} {arrays[name].shape}; expected whole numbers"
    for name in ("mu", "gamma"):
        if arrays[name].shape != () or not 0 < float(arrays[name]) < np.inf:
            return f"{name} is {arrays[name]!r:.60}; expected a number above 0"
    queries, starts, clicks = (arrays[name] for name in ("queries", "starts", "clicks"))
    if arrays["log_sums"].shape != queries.shape or not np.isfinite(arrays["log_sums"]).all():
        return "log_sums does not have a finite number for each query"
    if (queries[1:] <= queries[:-1]).any():
        return "queries is not sorted"
    is_valid = len(starts) == len(queries) + 1 and starts[0] == 0 and starts[-1] == len(clicks)
    if not is_valid or (np.diff(starts) < 1).any() or clicks.shape != arrays["titles"].shape:
        return "starts, titles and clicks do not fit together"
    return "a number of clicks is below 1" if (clicks < 1).any() else None
