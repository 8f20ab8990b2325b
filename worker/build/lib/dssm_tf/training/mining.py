"""Hard negatives from rankings: by any system, once, or by the model itself while it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dssm_tf.common.arrays import read_arrays
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.progress import progress_of
from dssm_tf.config import NegativesConfig
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.ranking import Scores, tie_key, top_columns
from dssm_tf.tables.hard_negatives import read_hard_negatives
from dssm_tf.training.validation import Encode

_CELLS = 1 << 24  # scores held at once
_MAX_QUERIES = 1024  # scored at once

Pairs = NDArray[np.int64]
"""Numbers of queries and of titles, `(pairs, 2)`."""

ScoreMatrix = Callable[[Sequence[str], Sequence[str]], NDArray[np.floating[Any]]]
"""Scores `(queries, titles)`; -inf for a title that is no answer at all."""


def hard_columns(
    scores: Scores, clicked: NDArray[np.int64], ranks: tuple[int, int], margin: float
) -> NDArray[np.int64]:
    """The columns of a query's hard negatives, best first.

    Those that were clicked are left out, and those that may be as good, though nobody clicked
    them: whose score is above the best clicked title's less `margin` of it. What is left is
    ranked.

    Args:
        scores: `(titles,)`; -inf is never a negative.
        clicked: columns of the titles that were clicked for the query, anywhere in the log.
        ranks: first and last, from 1, of what is left.
        margin: share of the clicked title's score, at least 0 and below 1.

    Reference: Moreira et al. 2024 (NV-Retriever), sec. 3.2, TopK-PercPos, where `1 - margin` is
    the percentage.
    """
    allowed = np.array(scores, np.float64)
    best = allowed[clicked].max(initial=-np.inf)
    allowed[clicked] = -np.inf
    if np.isfinite(best):
        allowed[allowed > best - margin * abs(best)] = -np.inf
    return top_columns(allowed, min(ranks[1], len(allowed)))[ranks[0] - 1 :]


def hard_pairs(
    data: Preprocessed,
    score: ScoreMatrix,
    ranks: tuple[int, int],
    margin: float,
    progress: str = "",
) -> Iterator[tuple[int, int, int, float]]:
    """Hard negatives of every query, of all titles: numbers of both, rank and score.

    Ties go as everywhere, see `tie_key`.

    Args:
        data: what preprocess wrote.
        score: what ranks.
        ranks: see `hard_columns`.
        margin: see `hard_columns`.
        progress: what to call it on the error stream; empty to show nothing.
    """
    texts = data.texts("titles")
    order = np.array(sorted(range(len(texts)), key=lambda one: tie_key(texts[one])), np.int64)
    column, titles = np.argsort(order), [texts[number] for number in order.tolist()]
    queries = sorted((text, number) for number, text in enumerate(data.texts("queries")))
    clicked = data.clicked.to_pylist()
    step = min(max(1, _CELLS // max(len(titles), 1)), _MAX_QUERIES)
    with progress_of(progress, len(queries), bool(progress), unit="queries") as task:
        for start in range(0, len(queries), step):
            block = queries[start : start + step]
            matrix = score([text for text, _ in block], titles)
            for (_, query), scores in zip(block, matrix, strict=True):
                hard = hard_columns(scores, column[clicked[query]], ranks, margin)
                for rank, at in enumerate(hard, ranks[0]):
                    yield query, int(order[at]), rank, float(scores[at])
            task.advance(len(block))


def by_cosine(encode: Encode) -> ScoreMatrix:
    """Scores by the cosine of an encoder's unit vectors, without a prior: what training compares.

    Titles, which are the same in each call, are encoded once.
    """
    vectors: list[NDArray[np.float32]] = []

    def score(queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float32]:
        if not vectors:
            vectors.append(encode("title", titles))
        return encode("query", queries) @ vectors[0].T

    return score


def by_bm25(data: Preprocessed) -> ScoreMatrix:
    """Scores by BM25 over the titles of the data; a title without a word of the query is none."""
    from dssm_tf.baselines.bm25 import BM25

    ranker = BM25().fit([], sorted(set(data.texts("titles")), key=tie_key))

    def score(queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        scores = ranker.score_matrix(queries, titles)
        return np.where(scores > 0, scores, -np.inf)

    return score


def read_mined(negatives: NegativesConfig, data: Preprocessed) -> Pairs:
    """What `negatives.mined_from` holds; says aloud what the data do not know.

    The table is of `dssm mine`, or any with the columns query and title.

    Raises:
        UserError: the table cannot be read, or no row is of these data.
    """
    path = negatives.mined_from
    if path is None:
        return np.zeros((0, 2), np.int64)
    queries, titles = zip(*read_hard_negatives(path), strict=True)
    pairs = np.stack([data.find("queries", queries), data.find("titles", titles)], axis=1)
    known: NDArray[np.bool_] = np.all(pairs >= 0, axis=1)
    if not known.all():
        query, title = next(zip(*(np.array(one)[~known] for one in (queries, titles)), strict=True))
        line = (
            f"{path}: {(~known).sum():,} of {len(known):,} rows have a query or a title that "
            f"{data.directory} does not hold, such as {query!r:.60} with {title!r:.60}"
        )
        if not known.any():
            raise UserError(f"{line}. No row is left; mine with this data.")
        console = Console(stderr=True)
        console.print(f"{line}; these are left out", style="yellow", highlight=False)
    return np.unique(pairs[known], axis=0)


class Remining:
    """Mines by the model that is being trained, and keeps what was found for a run that resumes.

    Args:
        negatives: how often, and which ranks.
        data: what preprocess wrote.
        encode: of the model with the weights to rank with.
        folder: of the run's state.
        chief: whether this process writes there.
        quiet: no line on the terminal.

    Reference: Xiong et al. 2021 (ANCE), sec. 4, who mine beside the training, not between epochs.
    """

    def __init__(
        self,
        negatives: NegativesConfig,
        data: Preprocessed,
        encode: Encode,
        folder: Path,
        chief: bool,
        quiet: bool,
    ) -> None:
        self._negatives = negatives
        self._data = data
        self._encode = encode
        self._folder = folder
        self._chief = chief
        self._console = Console(quiet=quiet or not chief)

    def stages(self, first: int, epochs: int, step: int = 0) -> Iterator[tuple[int, int]]:
        """Epochs done before and after each stage of training, in which negatives are the same.

        An epoch that is resumed after its first steps is a stage of its own.

        >>> negatives = NegativesConfig(mined=2, mine_every=3)
        >>> remining = Remining(negatives, None, None, Path(), True, True)
        >>> list(remining.stages(first=4, epochs=10))
        [(4, 6), (6, 9), (9, 10)]
        """
        every = self._negatives.mine_every or max(epochs, 1)
        if step:
            yield first, first + 1
            first += 1
        for start in range(first - first % every, epochs, every):
            yield max(start, first), min(start + every, epochs)

    def check_table(self, mined: Pairs) -> None:
        """Raises UserError if the run began with another table of negatives.

        Args:
            mined: what `read_mined` returned.
        """
        if not np.array_equal(self._kept("from", 0, lambda: mined), mined):
            raise UserError(
                f"negatives.mined_from: {self._negatives.mined_from} is not what it was when the "
                "run began; put the table back, or choose another --out."
            )

    def after(self, phase: str, epoch: int) -> Pairs:
        """What the model finds, or found before the run was interrupted.

        Args:
            phase: of training.
            epoch: epochs done; what counts is the last of them after which was to be mined.
        """
        pairs = self._kept(phase, epoch - epoch % self._negatives.mine_every, self._mined)
        if not len(pairs):
            raise UserError(
                "negatives.mine_ranks: the model ranks no title there for any query, once clicked "
                "ones and those within negatives.mine_margin of them are left out; start at rank 1."
            )
        return pairs

    def _mined(self) -> Pairs:
        ranks, margin = self._negatives.mine_ranks, self._negatives.mine_margin
        found = hard_pairs(self._data, by_cosine(self._encode), ranks, margin)
        pairs = np.array([pair[:2] for pair in found], np.int64).reshape(-1, 2)
        self._console.print(f"{len(pairs):,} hard negatives mined", highlight=False)
        return pairs

    def _kept(self, name: str, epoch: int, make: Callable[[], Pairs]) -> Pairs:
        """What was written after an epoch, or is made and written now."""
        path = self._folder / f"mined-{name}.npz"
        if path.exists():
            arrays = read_arrays(path, "Remove the run's directory to start again.")
            if int(arrays["epoch"]) == epoch:
                return arrays["pairs"]
        pairs = make()
        if self._chief:
            with atomic_write(path, "wb") as file:
                np.savez(file, pairs=pairs, epoch=np.array(epoch))
        return pairs
