"""What the papers say of trained models, as numbers: each says whether an observation holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dssm_tf.analysis.cells import Array

Flags = NDArray[np.bool_]
Numbers = NDArray[np.integer[Any]]

_TAIL = 0.025  # on either side of a 95 % interval
_FEWEST = 3  # values that have a rank agreement worth the name


def over_seeds(values: Sequence[float]) -> tuple[float, float]:
    """The mean over seeds, and by how much it may be off: Student's 95 % interval is mean -+ half.

    Args:
        values: one a seed; NaN is left out.

    Returns:
        The mean and half the interval's width; infinite for one value, NaN for none.
    """
    known = np.array([value for value in values if not np.isnan(value)], np.float64)
    if not len(known):
        return float("nan"), float("nan")
    if len(known) == 1:
        return float(known[0]), float("inf")
    half = stats.t.ppf(1 - _TAIL, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known))
    return float(known.mean()), float(half)


class Contrast(NamedTuple):
    """A quantity on some words beside the same on the other words of the same texts.

    Attributes:
        marked: the mean over texts of the mean over their marked words.
        others: likewise of their other words.
        lower: how often a marked word has less than another one of its text; .5 says nothing.
        texts: how many have words of both kinds.
    """

    marked: float
    others: float
    lower: float
    texts: int


def contrast(values: Sequence[Array], marked: Sequence[Flags]) -> Contrast:
    """How much lower a quantity is on marked words, such as stop words, than on the others.

    Only texts with words of both kinds count, each as much as another: what differs between
    texts, such as their length, cannot pass for a difference between words.

    Args:
        values: of each text, `(words,)`.
        marked: of each text, `(words,)`.

    Returns:
        NaN in place of means if no text has both.

    Reference: P16 sec. V-A1: input gates attenuate unimportant words. `lower` is the statistic of
    Mann and Whitney 1947 as a share; equal values count half.
    """
    found = []
    for of_text, chosen in zip(values, marked, strict=True):
        if not chosen.any() or chosen.all():
            continue
        of_marked, of_others = of_text[chosen], of_text[~chosen]
        differences = of_others[:, None] - of_marked[None, :]
        less = (differences > 0).mean() + (differences == 0).mean() / 2
        found.append((of_marked.mean(), of_others.mean(), less))
    if not found:
        return Contrast(np.nan, np.nan, np.nan, 0)
    on_marked, on_others, lower = map(float, np.mean(found, axis=0))
    return Contrast(on_marked, on_others, lower, len(found))


def written(activations: Mapping[str, Array]) -> Array:
    """What each word writes into the cells, `i(t) y_g(t) = c(t) - f(t) c(t-1)`.

    Args:
        activations: `c`, and `f` if the forget gate is learned, each `(words, cells)` in the order
            of reading.

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
        found: share of the texts that have a keyword.
        hits: of these, the share whose first keyword is a word of the other text.
        chance: the same of a word drawn among the judged ones of each of these texts.
    """

    found: float
    hits: float
    chance: float


def first_keyword(
    keywords: Sequence[Flags], judged: Sequence[Flags], shared: Sequence[Flags]
) -> Hits:
    """How often the first keyword of a query is a word of the title that was clicked.

    Args:
        keywords: of each query, which words are keywords, `(words,)`.
        judged: which words the rule judges, `(words,)`: not the one read first.
        shared: which words are words of the title, `(words,)`.
    """
    hits, chances = [], []
    for keyword, known, common in zip(keywords, judged, shared, strict=True):
        if (keyword & known).any():
            hits.append(bool(common[(keyword & known).argmax()]))
            chances.append(common[known].mean())
    if not hits:
        return Hits(0.0, np.nan, np.nan)
    return Hits(len(hits) / len(keywords), float(np.mean(hits)), float(np.mean(chances)))


def signed_cells(vectors: Array, number: int) -> NDArray[np.intp]:
    """Each text's most active cells, a cell far above zero and the same far below being two.

    Args:
        vectors: `(texts, dimension)`.
        number: of cells.

    Returns:
        `(texts, number)`, from 0; from `dimension` on the cells below zero.
    """
    cells = np.argsort(-np.abs(vectors), axis=1, kind="stable")[:, :number]
    below = np.take_along_axis(vectors, cells, axis=1) < 0
    return cells + vectors.shape[1] * below


def purity(cells: Numbers, labels: Numbers) -> float:
    """How much cells keep to one topic: the share of texts that have their cell's main label.

    Args:
        cells: each text's most active cells, `(texts, active)`.
        labels: each text's topic, from 0, `(texts,)`.

    Returns:
        `sum_k max_l n(k, l) / sum_kl n(k, l)`, `n` counting texts of label l with cell k.

    Reference: Manning et al. 2008, "Introduction to Information Retrieval", sec. 16.3; for P16
    sec. V-A3 and table III.
    """
    counts = np.zeros((int(cells.max()) + 1, int(labels.max()) + 1))
    np.add.at(counts, (cells, labels[:, None]), 1)
    return float(counts.max(axis=1).sum() / counts.sum())


def shuffled_purity(cells: Numbers, labels: Numbers, seed: int = 0, times: int = 20) -> float:
    """The purity of cells that know nothing of topics: the mean over shuffled labels."""
    rng = np.random.default_rng(seed)
    return float(np.mean([purity(cells, rng.permutation(labels)) for _ in range(times)]))


def turned(vectors: Array, seed: int = 0) -> Array:
    """Vectors in other coordinates, drawn at random: all cosines stay, no cell does.

    What holds of the turned vectors' cells as well says something of the space, not of cells.

    Args:
        vectors: `(texts, dimension)`.
        seed: of the coordinates, uniform over all orthogonal ones.
    """
    rng = np.random.default_rng(seed)
    axes, triangle = np.linalg.qr(rng.standard_normal((vectors.shape[1],) * 2))
    return vectors @ (axes * np.sign(np.diag(triangle)))


def rotations(words: Sequence[str]) -> list[list[str]]:
    """The text begun at each of its words: every word stands once in every place.

    >>> rotations(["a", "b", "c"])
    [['a', 'b', 'c'], ['b', 'c', 'a'], ['c', 'a', 'b']]
    """
    return [[*words[place:], *words[:place]] for place in range(len(words))]


def influence(vectors: Array) -> Array:
    """What each place of a text has of the vector's change when a word is taken away.

    The change is 1 less the cosine. With a text's `rotations`, all words are in all places, so
    places differ by where they are and not by what usually stands there.

    Args:
        vectors: unit vectors `(texts, 1 + words, dimension)`, of each text and of it without the
            word in each place.

    Returns:
        `(words,)` with sum 1; each is 1 / words for a model that does not see the order.
    """
    whole, without = vectors[:, :1], vectors[:, 1:]
    changes = (1 - (whole * without).sum(axis=-1)).mean(axis=0)
    return changes / changes.sum()


def kept(forget: Array, c: Array) -> float:
    """How much of what the first word wrote is left in the cells after the last.

    `sum_k |c_k(1)| prod_{t>1} f_k(t) / sum_k |c_k(1)|`.

    Args:
        forget: `f(t)`, `(words, cells)` in the order of reading.
        c: `c(t)`, `(words, cells)`.

    Reference: Palangi et al. 2016, eq. 2 and sec. V, which leaves the forget gate out.
    """
    first = np.abs(c[0])
    return float((first * np.prod(forget[1:], axis=0)).sum() / first.sum())


class Agreement(NamedTuple):
    """Rank agreement: Kendall's tau-b and Spearman's rho, NaN where one side is constant."""

    kendall: float
    spearman: float


def agreement(left: Array, right: Array) -> Agreement:
    """How far two lists of values put their places in the same order.

    Args:
        left: `(places,)`, such as what words are worth by one explanation.
        right: `(places,)`, by another.

    Returns:
        From -1 to 1; NaN for fewer than three places too.
    """
    if len(left) < _FEWEST or np.ptp(left) == 0 or np.ptp(right) == 0:
        return Agreement(np.nan, np.nan)
    return Agreement(
        float(stats.kendalltau(left, right).statistic),
        float(stats.spearmanr(left, right).statistic),
    )
