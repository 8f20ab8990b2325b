"""Ranks the validation queries of a data directory: what training stops and tunes by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.schema import text_id
from dssm_tf.evaluation.intervals import interval, mean_intervals
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranking import relevant_ranks, tie_key
from dssm_tf.tables.judgments import judgments_from_clicks

CUTOFFS = (1, 3, 10)
PRIOR_WEIGHTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3)


@dataclass(frozen=True)
class ValidationTask:
    """Validation queries, the titles they rank, and the grades their clicks give.

    Args:
        queries: distinct queries of the validation part.
        titles: of the log and the corpus, the most clicked ones where there are more than a
            maximum, and the clicked ones of these queries; in the order that ties go by.
        grades: `(queries, titles)`: 3 for a query's most clicked title, 2 for at least half of
            its clicks, else 1; 0 where nobody clicked.
    """

    queries: tuple[str, ...]
    titles: tuple[str, ...]
    grades: NDArray[np.float32]

    about = (
        "Queries held out of training rank the titles of the log, and of the corpus where one was "
        "given, the most clicked ones where these are many (`validation.titles`); a query's most "
        "clicked title has grade 3, one with at least half of its clicks 2, any other clicked "
        "title 1."
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
            max_titles: the most clicked ones, where there are more.
            known: `text_id`s of queries to leave out.
        """
        clicks: list[tuple[str, str, float]] = []
        chosen: dict[str, None] = {}
        normalize, keep = data.vocabulary.normalize, data.vocabulary.limits.keep_accents
        for query, clicked_title, count in data.clicks("validation"):
            if query in chosen or (len(chosen) < max_queries and text_id(query, keep) not in known):
                chosen[query] = None
                clicks.append((query, clicked_title, count))
        ranked = {normalize(title): title for _, title, _ in clicks}
        for title in data.titles:
            if len(ranked) >= max_titles:
                break
            ranked.setdefault(normalize(title.text), title.text)
        titles = sorted(ranked, key=tie_key)
        column = {key: i for i, key in enumerate(titles)}
        row = {query: i for i, query in enumerate(chosen)}
        grades = np.zeros((len(row), len(titles)), np.float32)
        for judgment in judgments_from_clicks(clicks, keep_accents=keep):
            grades[row[judgment.query], column[normalize(judgment.title)]] = judgment.grade
        return cls(tuple(chosen), tuple(ranked[key] for key in titles), grades)

    def ndcg(self, scores: NDArray[np.float32]) -> dict[str, float]:
        """Mean NDCG at each cut-off of scores `(queries, titles)`."""
        return {name: float(row.mean()) for name, row in self.per_query(scores).items()}

    def measured(self, scores: NDArray[np.float32]) -> dict[str, float]:
        """The same, and the ends of each mean's 95 % interval, `low ndcg@1` and `high ndcg@1`."""
        values = self.per_query(scores)
        found = {name: float(row.mean()) for name, row in values.items()}
        ends = mean_intervals(np.stack([*values.values()], axis=1))
        for name, (low, high) in zip(values, ends.tolist(), strict=True):
            found |= {f"low {name}": low, f"high {name}": high}
        return found

    def per_query(self, scores: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
        """NDCG of each query; every one has a clicked title."""
        names = [f"ndcg@{k}" for k in CUTOFFS]
        return per_query(relevant_ranks(self.ranked(scores), self.grades), names)

    def ranked(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The scores, -inf where a query does not rank a title."""
        return scores

    def best_prior_weight(
        self, cosines: NDArray[np.float32], log_prior: NDArray[np.float32]
    ) -> tuple[float, dict[float, dict[str, float]]]:
        """The weight of the log-prior with the best mean of the NDCGs; the smaller of equals.

        Args:
            cosines: `(queries, titles)`.
            log_prior: `(titles,)`, in nats.

        Returns:
            The weight, and the NDCGs of each weight tried.
        """
        tried = {weight: self.ndcg(cosines + weight * log_prior) for weight in PRIOR_WEIGHTS}
        best = max(tried, key=lambda weight: (np.mean(list(tried[weight].values())), -weight))
        return best, tried


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


Encode = Callable[[str, tuple[str, ...]], NDArray[np.float32]]


def cosines(encode: Encode, task: ValidationTask) -> NDArray[np.float32]:
    """Cosines `(queries, titles)` of a task under an encoder."""
    matrix: NDArray[np.float32] = encode("query", task.queries) @ encode("title", task.titles).T
    return matrix


def ndcg_by_length(
    encode: Encode, task: ValidationTask, lengths: Sequence[int]
) -> dict[str, dict[str, float]]:
    """NDCG by the cosine of the vectors' first numbers, for each of these lengths and for all.

    Args:
        encode: gives unit vectors.
        task: what is ranked.
        lengths: of vectors, below the whole.
    """
    queries, titles = encode("query", task.queries), encode("title", task.titles)

    def cut(vectors: NDArray[np.float32], length: int) -> NDArray[np.float32]:
        shorter = vectors[:, :length]
        sizes = np.linalg.norm(shorter, axis=1, keepdims=True)
        return shorter / np.maximum(sizes, np.finfo(np.float32).tiny)

    return {
        str(length): task.ndcg(cut(queries, length) @ cut(titles, length).T)
        for length in (*lengths, queries.shape[1])
    }
