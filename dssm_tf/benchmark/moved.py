"""Fusion and vector files as a benchmark reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write

Vectors = NDArray[np.float32]
_UNIT = 1e-3  # of length 1, as far as float32 sums of some thousand squares tell

MODEL = "model"


@dataclass(frozen=True)
class ChosenHybrid:
    """How to fuse rankings.

    Attributes:
        members: what is fused: `bm25`, `model` for a trained one, `prior` for the titles'
            log-prior, or another baseline's name.
        kind: `linear`, weighted scores, or `rrf`, reciprocal ranks.
        values: `scale` and `weights`, one a member; or `k`.
        depth: titles of each ranking that are joined.
        parameters: arguments of the member's constructor, by its place in `members`.
        chosen: on what, by which metric, and the mean there; for the reader of the file.
    """

    members: tuple[str, ...]
    kind: Literal["linear", "rrf"]
    values: Mapping[str, Any]
    depth: int
    parameters: tuple[Mapping[str, Any], ...]
    chosen: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Writes JSON."""
        with atomic_write(path) as file:
            json.dump(asdict(self), file, indent=2)
            file.write("\n")

    def fuse(self, scores: Sequence[NDArray[np.float64]] | NDArray[np.float64]) -> Any:
        """Fused scores `(titles,)`.

        Args:
            scores: `(members, titles)`, -inf for what a member does not list.
        """
        if self.kind == "rrf":
            return sum(1 / (self.values["k"] + ranks(own)) for own in scores)
        filled = [fill(own) for own in scores]
        # Sums that differ by rounding only are the same score.
        return linear_fusion(filled, self.values["weights"], self.values["scale"]).round(12)


def linear_fusion(
    scores: Sequence[ArrayLike],
    weights: Sequence[float] | None = None,
    normalization: Literal["min-max", "z-norm"] = "min-max",
) -> NDArray[np.float64]:
    """Weighted sum of the systems' scores, each system's brought to one scale first.

        min-max   (s - min) / (max - min)             from 0 to 1
        z-norm    (s - mean) / standard deviation     mean 0, variance 1

    taken over the given titles. Unlike rank fusion it keeps how far apart two
    titles are. A system whose scores are all equal contributes 0.

    >>> linear_fusion([[1.0, 3.0, 2.0], [10.0, 10.0, 20.0]]).tolist()
    [0.0, 0.5, 0.75]

    Args:
        scores: for each system, the finite scores of the same titles: `(systems, titles)`.
        weights: one a system; equal ones that add up to 1 by default.
        normalization: `"min-max"` or `"z-norm"`.

    Returns:
        `(titles,)`, in the order given.

    Raises:
        ValueError: the lists differ in length, a score is not finite, or weights are missing.

    Reference: Fox and Shaw 1994 (CombSUM); Bruch, Gai and Ingber 2023 for min-max and z-norm.
    """
    lengths = {np.size(row) for row in scores}
    if len(lengths) != 1:
        raise ValueError(
            f"The systems scored {sorted(lengths)} titles; expected at least one system, and the "
            "same titles for each."
        )
    table = np.asarray(scores, np.float64).reshape(len(scores), -1)
    if not np.isfinite(table).all():
        raise ValueError("A score is not finite; leave titles out that a system did not score.")
    share = np.full(len(table), 1 / len(table)) if weights is None else np.asarray(weights, float)
    if share.shape != (len(table),):
        raise ValueError(f"{len(table)} systems and {share.size} weights; expected one a system.")
    if not table.size:
        return np.zeros(0)
    fused: NDArray[np.float64] = share @ _scaled(table, normalization)
    return fused


def pool_titles(
    rankings: Sequence[tuple[NDArray[np.integer[Any]], NDArray[np.floating[Any]]]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The titles that any of several rankings lists, and what each gives them.

    >>> pool_titles([(np.array([7, 2]), np.array([0.5, 0.25])), (np.array([2]), np.array([9.0]))])
    (array([2, 7]), array([[0.25, 0.5 ],
           [9.  , -inf]]))

    Args:
        rankings: places of titles and their scores, best first.

    Returns:
        Places `(titles,)`, increasing, and scores `(rankings, titles)`, -inf where one lists none.
    """
    rows = np.unique(np.concatenate([listed for listed, _ in rankings])).astype(np.int64)
    scores = np.full((len(rankings), len(rows)), -np.inf)
    for own, (listed, given) in zip(scores, rankings, strict=True):
        own[np.searchsorted(rows, listed)] = given
    return rows, scores


def fill(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores `(titles,)` in which what is not listed, -inf, has the lowest score that is."""
    listed = np.isfinite(scores)
    return np.where(listed, scores, scores[listed].min() if listed.any() else 0.0)


def ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, ties in the order given; infinite for what is not listed, -inf."""
    order = np.argsort(-scores, kind="stable")
    found = np.empty(len(scores))
    found[order] = np.arange(1, len(scores) + 1)
    return np.where(np.isfinite(scores), found, np.inf)


def _scaled(table: NDArray[np.float64], normalization: str) -> NDArray[np.float64]:
    least = table.min(axis=1, keepdims=True)
    spread = table.max(axis=1, keepdims=True) - least
    flat = spread == 0
    if normalization == "min-max":
        middle, scale = least, spread
    elif normalization == "z-norm":
        middle, scale = table.mean(axis=1, keepdims=True), table.std(axis=1, keepdims=True)
    else:
        raise ValueError(f"normalization is {normalization!r}; expected 'min-max' or 'z-norm'.")
    scaled: NDArray[np.float64] = np.where(flat, 0.0, table - middle) / np.where(flat, 1.0, scale)
    return scaled


def ids_path(path: Path) -> Path:
    """Where the ids of an `.npy` file stand, one a line."""
    return path.with_name(f"{path.stem}.ids.txt")


def read_ids(path: Path) -> list[str]:
    """The ids beside an `.npy` file.

    Raises:
        UserError: they are not UTF-8.
    """
    try:
        with ids_path(path).open(encoding="utf-8", newline="\n") as lines:
            return [line.rstrip("\n") for line in lines]
    except UnicodeDecodeError as error:
        raise UserError(f"{ids_path(path)} is not UTF-8 at byte {error.start + 1}.") from None


def have_prior(queries: Vectors, titles: Vectors) -> bool:
    """Whether vectors hold the prior in their last dimension, as `dssm embed` writes them.

    Those of queries end with exactly 1, and what stands before it is of length 1, or zero, on
    both sides. Their inner product is the score; a cosine would mix the prior into the lengths.
    """
    if queries.shape[1] < 2:
        return False
    lengths = np.concatenate([np.linalg.norm(one[:, :-1], axis=1) for one in (queries, titles)])
    unit = (np.abs(lengths - 1) < _UNIT) | (lengths == 0)
    return bool((queries[:, -1] == 1).all() and unit.all())
