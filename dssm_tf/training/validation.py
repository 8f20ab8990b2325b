"""Ranks the validation queries of a data directory: what training stops and tunes by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.bm25 import BM25
from dssm_tf.config import Config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.fusion import DEPTH, WEIGHTS, fuse
from dssm_tf.evaluation.intervals import interval, mean_intervals
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranking import rank_of, ranks_of, tie_key, top_columns
from dssm_tf.model.prior import TitlePrior
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

_BLOCK = 64  # queries scored at once
_LEAST_QUERIES = 40  # whose 5th percentile has two queries below it
_MISSED = 5  # percent of good first results below the cut-off

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
        most = np.zeros(len(data.clicked))
        np.maximum.at(most, pairs.query, pairs.clicks)
        most = most[pairs.query]
        grades = 1.0 + (2 * pairs.clicks >= most) + (pairs.clicks == most)
        shape = len(data.clicked), len(texts)
        every = sparse.csr_array((grades, (pairs.query, pairs.titles[:, 0])), shape)
        names = data.texts("queries")
        return cls(
            tuple(names[number] for number in queries),
            tuple(texts[number] for number in numbers),
            every[queries][:, numbers],
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
        return dict(
            zip(
                NDCG_NAMES,
                self.per_query(vectors)[0].mean(axis=0).tolist(),
                strict=True,
            )
        )

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
        ranks = np.zeros((len(bonuses), len(rows)))
        step = max(1, _CELLS // max(1, len(self.titles)))
        for start in range(0, len(self.queries), step):
            block = slice(start, start + step)
            cosines = vectors.queries[block] @ vectors.titles.T
            own = slice(*np.searchsorted(rows, [start, start + step]))
            for found, bonus in zip(ranks, bonuses, strict=True):
                scores = self.ranked(cosines + bonus, block)
                found[own] = ranks_of(scores, rows[own] - start, columns[own])
        cells = pl.DataFrame({"query": rows, "grade": self.grades.data.astype(np.float64)})
        each = (cells.with_columns(rank=one) for one in ranks)
        measured = (per_query(one, len(self.queries), NDCG_NAMES) for one in each)
        return np.stack([np.stack([*one.values()], axis=1) for one in measured])

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


def weigh_prior(
    config: Config, prior: TitlePrior, task: ValidationTask | None, encode: Encode
) -> tuple[float, dict[str, float]]:
    """The weight of the log-prior, and the validation NDCG with it, see `Result`."""
    chosen = config.ranking.prior
    if task is None:
        return (0.0 if chosen == "auto" else chosen), {}
    vectors = encoded(encode, task)
    log_prior = prior(task.titles)
    if chosen == "auto":
        chosen = task.best_prior_weight(vectors, log_prior)
    measured = task.measured(vectors, chosen * log_prior)
    measured |= search_settings(task, vectors, chosen * log_prior)
    by_cosine = {f"cosine {name}": value for name, value in task.ndcg(vectors).items()}
    return chosen, measured | by_cosine | {"queries": float(len(task.queries))}


def search_settings(
    task: ValidationTask, vectors: Vectors, bonus: Matrix | float
) -> dict[str, float]:
    """Chooses `bm25_weight` and, if there are enough queries, `cutoff` on the validation queries.

    The weight of BM25 in `fuse` is the one with the best mean NDCG@10; of equals the one nearest to
    a half. The best titles of both are joined, as a search does.

    The cut-off is the 5th percentile of the first title's cosine, over the queries whose first
    title was clicked: of 20 good first titles one is below it. How many bad ones are below it
    depends on the queries, and nothing here measures it. The prior does not count, since a popular
    title is no better an answer to a query that nothing answers.

    Args:
        task: what is ranked.
        vectors: of its queries and titles.
        bonus: the weighted log-priors of its titles, `(titles,)`.
    """
    bm25 = BM25().fit([], task.titles)
    ranks: list[tuple[int, float, list[float], float]] = []  # see the columns below
    for start in range(0, len(task.queries), _BLOCK):
        block = slice(start, start + _BLOCK)
        cosines = vectors.queries[block] @ vectors.titles.T
        meaning = task.ranked(cosines + bonus, block)
        words = bm25.score_matrix(task.queries[block], task.titles)
        for row in range(len(meaning)):
            held = np.flatnonzero((words[row] > 0) & np.isfinite(meaning[row]))
            by_words = held[top_columns(words[row][held], DEPTH)]
            pool = np.union1d(by_words, top_columns(meaning[row], DEPTH))
            both = words[row][pool], meaning[row][pool]
            fused = np.stack([fuse(*both, weight) for weight in WEIGHTS], axis=1)
            relevant = task.grades[[start + row]]
            for title, grade in zip(relevant.indices, relevant.data, strict=True):
                found = np.flatnonzero(pool == title)
                at = rank_of(fused, found[0]) if len(found) else np.full(len(WEIGHTS), np.nan)
                cosine = float(cosines[row, title])
                ranks.append((start + row, float(grade), at.tolist(), cosine))
    table = pl.DataFrame(ranks, ["query", "grade", "ranks", "cosine"], orient="row")
    each = (table.with_columns(rank=pl.col("ranks").list.get(at)) for at in range(len(WEIGHTS)))
    means = [per_query(one, len(task.queries), ["ndcg@10"])["ndcg@10"].mean() for one in each]
    best = max(means, default=0.0)
    equals = [place for place, mean in enumerate(means) if mean == best]
    chosen = min(equals, key=lambda place: abs(WEIGHTS[place] - 0.5))
    settings = {"bm25_weight": WEIGHTS[chosen]}
    good = [cosine for *_, at, cosine in ranks if at[chosen] == 1]
    if len(good) >= _LEAST_QUERIES:
        settings["cutoff"] = float(np.percentile(good, _MISSED))
    return settings
