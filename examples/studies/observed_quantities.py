"""Quantities that measure whether the papers' observations of trained models hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dssm_tf.analysis.cells import Array

Flags = NDArray[np.bool_]
Indices = NDArray[np.integer[Any]]

_TAIL = 0.025  # on either side of a 95 % interval
_MIN_VALUES = 3  # for a meaningful rank agreement


def over_seeds(values: Iterable[float]) -> tuple[float, float]:
    """The mean over seeds, and half the width of Student's 95 % interval around it.

    Args:
        values: one value per seed; NaN is left out.

    Returns:
        The mean and half the width. The width is infinite for one value; both are NaN for none.
    """
    known = np.array([value for value in values if not np.isnan(value)], np.float64)
    if not len(known):
        return float("nan"), float("nan")
    if len(known) == 1:
        return float(known[0]), float("inf")
    half_width = stats.t.ppf(1 - _TAIL, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known))
    return float(known.mean()), float(half_width)


class Contrast(NamedTuple):
    """A quantity on marked words compared with the other words of the same texts.

    Attributes:
        marked: the mean over texts of the mean over their marked words.
        others: the same for their other words.
        lower: how often a marked word is below another word of its text; .5 is chance.
        texts: number of texts with words of both kinds.
    """

    marked: float
    others: float
    lower: float
    texts: int


def contrast(values: Sequence[Array], marked: Sequence[Flags]) -> Contrast:
    """Compares a quantity on marked words, such as stop words, with the other words.

    Only texts with words of both kinds count, with equal weights. Differences between texts, such
    as their length, therefore do not appear as differences between words.

    Args:
        values: the values of each text, `(words,)`.
        marked: the mask of the marked words of each text, `(words,)`.

    Returns:
        The contrast; its means are NaN if no text has words of both kinds.

    Reference: Palangi et al. 2016, sec. V-A1: input gates attenuate unimportant words. `lower` is
    the statistic of Mann and Whitney 1947 as a fraction; equal values count half.
    """
    rows = []
    for text_values, mask in zip(values, marked, strict=True):
        if not mask.any() or mask.all():
            continue
        marked_values, other_values = text_values[mask], text_values[~mask]
        differences = other_values[:, None] - marked_values[None, :]
        lower = (differences > 0).mean() + (differences == 0).mean() / 2
        rows.append((marked_values.mean(), other_values.mean(), lower))
    if not rows:
        return Contrast(np.nan, np.nan, np.nan, 0)
    marked_mean, others_mean, lower_mean = map(float, np.mean(rows, axis=0))
    return Contrast(marked_mean, others_mean, lower_mean, len(rows))


def written_values(activations: Mapping[str, Array]) -> Array:
    """The values that each word writes into the cells, `i(t) y_g(t) = c(t) - f(t) c(t-1)`.

    Args:
        activations: `c`, and `f` if there is a forget gate, each `(words, cells)` in reading order.

    Returns:
        `(words, cells)`.

    Reference: Palangi et al. 2016, eq. 2.
    """
    c = np.asarray(activations["c"])
    before = np.concatenate([np.zeros_like(c[:1]), c[:-1]])
    return c - activations.get("f", np.ones_like(c)) * before


class Hits(NamedTuple):
    """How often a keyword is a word of another text.

    Attributes:
        with_keyword: fraction of the texts that have a keyword.
        hits: fraction of these texts whose first keyword is a word of the other text.
        chance: the same for a random candidate word of each of these texts.
    """

    with_keyword: float
    hits: float
    chance: float


def first_keyword(
    keywords: Sequence[Flags], candidates: Sequence[Flags], shared: Sequence[Flags]
) -> Hits:
    """How often the first keyword of a query is a word of the title that was clicked.

    Args:
        keywords: mask of the keywords of each query, `(words,)`.
        candidates: mask of the words that can be keywords, `(words,)`: not the first word read.
        shared: mask of the words that are in the title, `(words,)`.
    """
    hits, chances = [], []
    for is_keyword, is_candidate, is_shared in zip(keywords, candidates, shared, strict=True):
        mask = is_keyword & is_candidate
        if mask.any():
            hits.append(bool(is_shared[mask.argmax()]))
            chances.append(is_shared[is_candidate].mean())
    if not hits:
        return Hits(0.0, np.nan, np.nan)
    return Hits(len(hits) / len(keywords), float(np.mean(hits)), float(np.mean(chances)))


def signed_cells(vectors: Array, count: int) -> NDArray[np.intp]:
    """Each text's most active cells; positive and negative values of a cell count as two cells.

    Args:
        vectors: `(texts, dimension)`.
        count: number of cells.

    Returns:
        Cell indices, `(texts, count)`; `dimension` is added to the index of a negative cell.
    """
    cells = np.argsort(-np.abs(vectors), axis=1, kind="stable")[:, :count]
    negative = np.take_along_axis(vectors, cells, axis=1) < 0
    return cells + vectors.shape[1] * negative


def purity(cells: Indices, labels: Indices) -> float:
    """The purity of cells: the fraction of texts that have the main label of their cell.

    Args:
        cells: the most active cells of each text, `(texts, active)`.
        labels: the topic of each text, from 0, `(texts,)`.

    Returns:
        `sum_k max_l n(k, l) / sum_kl n(k, l)`, `n` counting texts of label l with cell k.

    Reference: Manning et al. 2008, "Introduction to Information Retrieval", sec. 16.3; for
    Palangi et al. 2016, sec. V-A3 and table III.
    """
    counts = np.zeros((int(cells.max()) + 1, int(labels.max()) + 1))
    np.add.at(counts, (cells, labels[:, None]), 1)
    return float(counts.max(axis=1).sum() / counts.sum())


def shuffled_purity(cells: Indices, labels: Indices, seed: int = 0, times: int = 20) -> float:
    """The purity of cells that are independent of topics: the mean over shuffled labels."""
    rng = np.random.default_rng(seed)
    return float(np.mean([purity(cells, rng.permutation(labels)) for _ in range(times)]))


def rotated_coordinates(vectors: Array, seed: int = 0) -> Array:
    """Vectors in random orthogonal coordinates: cosines do not change, but cells do.

    A result that also holds in these coordinates is a property of the space, not of the cells.

    Args:
        vectors: `(texts, dimension)`.
        seed: random seed of the coordinates, which are uniform over all orthogonal matrices.
    """
    rng = np.random.default_rng(seed)
    axes, triangle = np.linalg.qr(rng.standard_normal((vectors.shape[1],) * 2))
    return vectors @ (axes * np.sign(np.diag(triangle)))


def rotations(words: Sequence[str]) -> list[list[str]]:
    """All rotations of a text: every word occurs once in every position.

    >>> rotations(["a", "b", "c"])
    [['a', 'b', 'c'], ['b', 'c', 'a'], ['c', 'a', 'b']]
    """
    return [[*words[start:], *words[:start]] for start in range(len(words))]


def influence(vectors: Array) -> Array:
    """The fraction of each position in the change of the vector when a word is removed.

    The change is 1 minus the cosine. With a text's `rotations`, all words are in all positions, so
    positions do not differ by the words that usually occur there.

    Args:
        vectors: unit vectors `(texts, 1 + words, dimension)`, of each text and of the text without
            the word in each position.

    Returns:
        `(words,)` with sum 1; each value is 1 / words for a model that ignores order.
    """
    complete, shortened = vectors[:, :1], vectors[:, 1:]
    changes = (1 - (complete * shortened).sum(axis=-1)).mean(axis=0)
    return changes / changes.sum()


def retained_fraction(forget: Array, c: Array) -> float:
    """The fraction of the first word's cell values that is left after the last word.

    `sum_k |c_k(1)| prod_{t>1} f_k(t) / sum_k |c_k(1)|`.

    Args:
        forget: `f(t)`, `(words, cells)` in reading order.
        c: `c(t)`, `(words, cells)`.

    Reference: Palangi et al. 2016, eq. 2 and sec. V, which leaves the forget gate out.
    """
    first = np.abs(c[0])
    return float((first * np.prod(forget[1:], axis=0)).sum() / first.sum())


class Agreement(NamedTuple):
    """Rank agreement: Kendall's tau-b and Spearman's rho, NaN where one variable is constant."""

    kendall: float
    spearman: float


def agreement(left: Array, right: Array) -> Agreement:
    """Rank agreement of two lists of values.

    Args:
        left: `(words,)`, such as contributions of words by one explanation.
        right: `(words,)`, by another explanation.

    Returns:
        From -1 to 1; NaN for fewer than three values.
    """
    if len(left) < _MIN_VALUES or np.ptp(left) == 0 or np.ptp(right) == 0:
        return Agreement(np.nan, np.nan)
    return Agreement(
        float(stats.kendalltau(left, right).statistic),
        float(stats.spearmanr(left, right).statistic),
    )
