"""Ranks the validation queries of a data directory: what training stops and tunes by."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.intervals import interval, mean_intervals
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranking import RelevantRanks, ranks_of, tie_key
from dssm_tf.tables.judgments import judgments_from_clicks
from dssm_tf.text.rules import Key

CUTOFFS = (1, 3, 10)
NDCG_NAMES = [f"ndcg@{k}" for k in CUTOFFS]
PRIOR_WEIGHTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3)

# Scores held at once while validation queries are ranked: 16 MiB.
_CELLS = 1 << 22

Matrix = NDArray[np.float32]
Values = NDArray[np.float64]


class Vectors(NamedTuple):
    """Unit vectors of a task's texts, `(queries, dimension)` and `(titles, dimension)`."""

    queries: Matrix
    titles: Matrix


@dataclass(frozen=True)
class ValidationTask:
    """Validation queries, the titles they rank, and the grades their clicks give.

    Args:
        queries: distinct queries of the validation part.
        titles: of the log and the corpus; where there are more than a maximum, the clicked ones
            of these queries and a random sample of the others. In the order that ties go by.
        grades: sparse `(queries, titles)`: 3 for a query's most clicked title, 2 for at least
            half of its clicks, else 1; 0 where nobody clicked.
    """

    queries: tuple[str, ...]
    titles: tuple[str, ...]
    grades: sparse.csr_array

    about = (
        "Queries held out of training rank the titles of the log, and of the corpus if one was "
        "given, or a random sample of them if these are more than `validation.titles`; a query's "
        "most clicked title has grade 3, one with at least half of its clicks 2, any other "
        "clicked title 1."
    )

    @classmethod
    def of(
        cls,
        data: Preprocessed,
        max_queries: int,
        max_titles: int,
        known: Collection[int] = frozenset(),
    ) -> ValidationTask:
        """Reads the validation records, and the titles that are known.

        Args:
            data: what preprocess wrote.
            max_queries: the first ones, where there are more.
            max_titles: a sample, where there are more.
            known: ids of queries to leave out.
        """
        clicks: list[tuple[str, str, float]] = []
        chosen: dict[str, None] = {}
        rules = data.rules
        for query, clicked_title, count in data.clicks("validation"):
            if query in chosen or (len(chosen) < max_queries and rules.id(query) not in known):
                chosen[query] = None
                clicks.append((query, clicked_title, count))
        texts = {rules.key(title): title for _, title, _ in clicks}
        others: dict[Key, str] = {}
        for title in data.titles:
            if (key := rules.key(title.text)) not in texts:
                others.setdefault(key, title.text)
        if len(others) > (room := max(0, max_titles - len(texts))):
            # Clicked titles alone would be too easy: deployment ranks all the others, too.
            sample = random.Random(0).sample(sorted(others), room)
            others = {key: others[key] for key in sample}
        texts |= others
        titles = sorted(texts, key=tie_key)
        column = {key: i for i, key in enumerate(titles)}
        row = {query: i for i, query in enumerate(chosen)}
        grades = {
            (row[one.query], column[rules.key(one.title)]): one.grade
            for one in judgments_from_clicks(clicks, rules)
        }
        shape = len(row), len(titles)
        return cls(tuple(chosen), tuple(texts[key] for key in titles), of_cells(grades, shape))

    def ndcg(self, vectors: Vectors) -> dict[str, float]:
        """Mean NDCG at each cut-off, by the cosine."""
        return dict(zip(NDCG_NAMES, self.per_query(vectors)[0].mean(axis=0).tolist(), strict=True))

    def measured(self, vectors: Vectors, bonus: Matrix | float = 0.0) -> dict[str, float]:
        """NDCG by the cosine plus a bonus `(titles,)`, and its intervals, see `with_ends`."""
        return with_ends(self.per_query(vectors, [bonus])[0])

    def per_query(self, vectors: Vectors, bonuses: Sequence[Matrix | float] = (0.0,)) -> Values:
        """NDCG by the cosine plus each of these bonuses `(titles,)`; every query has a click.

        Queries rank the titles block by block, so that memory stays bounded.

        Returns:
            `(bonuses, queries, cutoffs)`.
        """
        rows, columns = self.grades.nonzero()
        ranks = np.zeros((len(bonuses), len(rows)), np.int64)
        step = max(1, _CELLS // max(1, len(self.titles)))
        for start in range(0, len(self.queries), step):
            block = slice(start, start + step)
            cosines = vectors.queries[block] @ vectors.titles.T
            own = slice(*np.searchsorted(rows, [start, start + step]))
            for found, bonus in zip(ranks, bonuses, strict=True):
                scores = self.ranked(cosines + bonus, block)
                found[own] = ranks_of(scores, rows[own] - start, columns[own])
        grades = self.grades.data.astype(np.float64)
        each = (RelevantRanks(len(self.queries), rows, one, grades) for one in ranks)
        return np.stack([np.stack([*per_query(one, NDCG_NAMES).values()], axis=1) for one in each])

    def ranked(self, scores: Matrix, block: slice) -> Matrix:
        """The scores of these queries, -inf where one does not rank a title."""
        return scores

    def best_prior_weight(self, vectors: Vectors, log_prior: Matrix) -> float:
        """The weight of the log-prior with the best mean of the NDCGs; the smaller of equals.

        Args:
            vectors: of queries and titles.
            log_prior: `(titles,)`, in nats.
        """
        tried = self.per_query(vectors, [weight * log_prior for weight in PRIOR_WEIGHTS])
        return PRIOR_WEIGHTS[int(tried.mean(axis=(1, 2)).argmax())]


def with_ends(values: Values) -> dict[str, float]:
    """Means of NDCG, and the ends of their 95 % intervals, `low ndcg@1` and `high ndcg@1`.

    Args:
        values: `(queries, cutoffs)`.
    """
    found = dict(zip(NDCG_NAMES, values.mean(axis=0).tolist(), strict=True))
    for name, (low, high) in zip(NDCG_NAMES, mean_intervals(values).tolist(), strict=True):
        found |= {f"low {name}": low, f"high {name}": high}
    return found


def of_cells(values: Mapping[tuple[int, int], float], shape: tuple[int, int]) -> sparse.csr_array:
    """A sparse matrix of its cells that are not 0, row by row."""
    cells = {cell: value for cell, value in values.items() if value}
    rows, columns = zip(*cells, strict=True) if cells else ((), ())
    return sparse.csr_array(([*cells.values()], (rows, columns)), shape, dtype=np.float32)


def with_intervals(measured: Mapping[str, float]) -> str:
    """What `ValidationTask.measured` found, in a line.

    >>> with_intervals({f"{end}ndcg@{k}": 0.5 for end in ("", "low ", "high ") for k in CUTOFFS})
    'NDCG@1/3/10 0.500/0.500/0.500 (.500-.500/.500-.500/.500-.500)'
    """
    means = "/".join(f"{measured[f'ndcg@{k}']:.3f}" for k in CUTOFFS)
    ends = "/".join(
        interval(measured[f"low ndcg@{k}"], measured[f"high ndcg@{k}"]) for k in CUTOFFS
    )
    return f"NDCG@{'/'.join(map(str, CUTOFFS))} {means} ({ends})"


Encode = Callable[[str, tuple[str, ...]], Matrix]


def encoded(encode: Encode, task: ValidationTask) -> Vectors:
    """Vectors of a task's queries and titles under an encoder."""
    return Vectors(encode("query", task.queries), encode("title", task.titles))


def ndcg_by_length(
    encode: Encode, task: ValidationTask, lengths: Sequence[int]
) -> dict[str, dict[str, float]]:
    """NDCG by the cosine of the vectors' first numbers, for each of these lengths and for all.

    Args:
        encode: gives unit vectors.
        task: what is ranked.
        lengths: of vectors, below the whole.
    """
    vectors = encoded(encode, task)

    def cut(side: Matrix, length: int) -> Matrix:
        shorter = side[:, :length]
        sizes = np.linalg.norm(shorter, axis=1, keepdims=True)
        return shorter / np.maximum(sizes, np.finfo(np.float32).tiny)

    return {
        str(length): task.ndcg(Vectors(*(cut(side, length) for side in vectors)))
        for length in (*lengths, vectors.queries.shape[1])
    }
