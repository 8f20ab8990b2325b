"""Ranks the validation queries of a data directory: what training stops and tunes by."""

from __future__ import annotations

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
from dssm_tf.tables.graded_lists import GradedList
from dssm_tf.text.rules import Rules

CUTOFFS = (1, 3, 10)
NDCG_NAMES = [f"ndcg@{k}" for k in CUTOFFS]
PRIOR_WEIGHTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3)
BY_CLICKS = (
    "Queries held out of training rank the titles of the log, and of the corpus if one was given, "
    "or a random sample of them if these are more than `validation.titles`; a query's most clicked "
    "title has grade 3, one with at least half of its clicks 2, any other clicked title 1."
)
BY_GRADES = (
    "Judged queries held out of training rank the titles that were judged for them, by their "
    "grades."
)

# Scores held at once while validation queries are ranked: 16 MiB.
_CELLS = 1 << 22

Matrix = NDArray[np.float32]
Values = NDArray[np.float64]
Encode = Callable[[str, Sequence[str]], Matrix]


class Vectors(NamedTuple):
    """Unit vectors of a task's texts, `(queries, dimension)` and `(titles, dimension)`."""

    queries: Matrix
    titles: Matrix


@dataclass(frozen=True)
class ValidationTask:
    """Validation queries, the titles they rank, and their grades.

    Args:
        queries: distinct queries.
        titles: in the order that ties go by.
        grades: sparse `(queries, titles)`, above 0.
        about: where the grades come from, in words.
        judged: sparse `(queries, titles)`, 1 if somebody judged: a query ranks these titles and no
            others; None if each ranks all.
    """

    queries: tuple[str, ...]
    titles: tuple[str, ...]
    grades: sparse.csr_array
    about: str = BY_CLICKS
    judged: sparse.csr_array | None = None

    @classmethod
    def of(
        cls,
        data: Preprocessed,
        max_queries: int,
        max_titles: int,
        known: Collection[int] = frozenset(),
    ) -> ValidationTask:
        """The validation pairs, and the titles of the log and the corpus.

        Args:
            data: what preprocess wrote.
            max_queries: the first ones, if there are more.
            max_titles: if there are more, the clicked ones and a random sample of the others.
            known: ids of queries to leave out.
        """
        pairs, texts = data.parts["validation"], data.texts("titles")
        new = np.isin(data.ids["queries"], [*known], invert=True)[pairs.query]
        queries = np.array([*dict.fromkeys(pairs.query[new].tolist())][:max_queries], np.int64)
        pairs = pairs.of(np.isin(pairs.query, queries))
        clicked = np.unique(pairs.titles[:, 0])
        titles = np.setdiff1d(np.arange(len(texts)), clicked)
        if len(titles) > (room := max(0, max_titles - len(clicked))):
            # Clicked titles alone would be too easy: deployment ranks all the others, too.
            titles = np.random.default_rng(0).choice(titles, room, replace=False)
        numbers = [*clicked.tolist(), *titles.tolist()]
        numbers.sort(key=lambda number: tie_key(data.rules.key(texts[number])))
        row, column = np.empty(len(data.clicked), int), np.empty(len(texts), int)
        row[queries], column[numbers] = np.arange(len(queries)), np.arange(len(numbers))
        row, column = row[pairs.query], column[pairs.titles[:, 0]]
        most = np.zeros(len(queries))
        np.maximum.at(most, row, pairs.clicks)
        grades = 1.0 + (2 * pairs.clicks >= most[row]) + (pairs.clicks == most[row])
        names = data.texts("queries")
        return cls(
            tuple(names[number] for number in queries),
            tuple(texts[number] for number in numbers),
            sparse.csr_array((grades, (row, column)), (len(queries), len(numbers))),
        )

    @classmethod
    def of_lists(
        cls, lists: Sequence[GradedList], rules: Rules, max_queries: int
    ) -> ValidationTask | None:
        """Each judged query ranks its judged titles; None if there is no good title.

        Args:
            lists: held out.
            rules: which titles are one.
            max_queries: the first ones with a title above grade 0.
        """
        chosen = [one for one in lists if max(one.values) > 0][:max_queries]
        if not chosen:
            return None
        texts = {rules.key(title): title for one in chosen for title in one.titles}
        keys = sorted(texts, key=tie_key)
        column = {key: number for number, key in enumerate(keys)}
        cells = [
            (row, column[rules.key(title)], value)
            for row, one in enumerate(chosen)
            for title, value in zip(one.titles, one.values, strict=True)
        ]
        row, column_of, values = zip(*cells, strict=True)
        grades = sparse.csr_array((values, (row, column_of)))
        judged = sparse.csr_array((np.ones(len(cells)), (row, column_of)))
        grades.eliminate_zeros()
        return cls(
            tuple(one.query for one in chosen),
            tuple(texts[key] for key in keys),
            grades,
            BY_GRADES,
            judged,
        )

    def ndcg(self, vectors: Vectors) -> dict[str, float]:
        """Mean NDCG at each cut-off, by the cosine."""
        return dict(zip(NDCG_NAMES, self.per_query(vectors)[0].mean(axis=0).tolist(), strict=True))

    def measured(self, vectors: Vectors, bonus: Matrix | float = 0.0) -> dict[str, float]:
        """NDCG by the cosine plus a bonus `(titles,)`, and its intervals, see `with_ends`."""
        return with_ends(self.per_query(vectors, [bonus])[0])

    def per_query(self, vectors: Vectors, bonuses: Sequence[Matrix | float] = (0.0,)) -> Values:
        """NDCG by the cosine plus each of these bonuses `(titles,)`.

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
        """The scores of these queries, -inf if one does not rank a title."""
        if self.judged is None:
            return scores
        return np.where(self.judged[block].toarray(), scores, np.float32(-np.inf))

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


def with_intervals(measured: Mapping[str, float]) -> str:
    """What `ValidationTask.measured` returned, in a line.

    >>> with_intervals({f"{end}ndcg@{k}": 0.5 for end in ("", "low ", "high ") for k in CUTOFFS})
    'NDCG@1/3/10 0.500/0.500/0.500 (.500-.500/.500-.500/.500-.500)'
    """
    means = "/".join(f"{measured[name]:.3f}" for name in NDCG_NAMES)
    ends = "/".join(
        interval(measured[f"low {name}"], measured[f"high {name}"]) for name in NDCG_NAMES
    )
    return f"NDCG@{'/'.join(map(str, CUTOFFS))} {means} ({ends})"


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
        norms = np.linalg.norm(side[:, :length], axis=1, keepdims=True)
        return side[:, :length] / np.maximum(norms, np.finfo(np.float32).tiny)

    return {
        str(length): task.ndcg(Vectors(*(cut(side, length) for side in vectors)))
        for length in (*lengths, vectors.queries.shape[1])
    }
