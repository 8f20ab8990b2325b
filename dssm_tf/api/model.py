"""`dssm_tf.Model`: a trained model that scores, ranks, searches and explains."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray
from typing_extensions import Unpack

from dssm_tf.api.index import Filters, Index
from dssm_tf.api.inputs import (
    Corpus,
    Frame,
    model_layout,
    pyterrier_frame,
    pyterrier_ranks,
    query_list,
    read_titles,
    to_library_of,
)
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, atomic_write, refuse_existing
from dssm_tf.common.paths import AnyPath
from dssm_tf.runtime.trained_ranker import TrainedRanker, texts_of
from dssm_tf.tables.frames import DataFrame, is_data_frame
from dssm_tf.tables.judgments import CorpusTitle

if TYPE_CHECKING:
    from dssm_tf.analysis.explanation import Explanation
    from dssm_tf.text.training_log import TrainingLog

CORPUS = "corpus.parquet"
"""Name of the file in a model's directory that contains the titles for `Model.search`."""

RANKED = {
    "query": pl.String, "rank": pl.Int64, "title": pl.String, "score": pl.Float64,
    "position": pl.Int64,
}  # fmt: skip
"""The columns of a ranking, with their types."""

Floats = NDArray[np.floating[Any]]


class SearchOptions(TypedDict, total=False):
    """Keyword arguments of `Model.search`, for its overloads."""

    corpus: Corpus | None
    filters: Filters | None


class Model:
    """A trained model; `dssm_tf.train` and `dssm_tf.load` return one.

    The score of a query and a title is a similarity plus the weighted log-prior of the title.
    Scores of different queries are not comparable. Any string is valid, including an empty one.

    Attributes:
        path: the directory of the run, export, compact model or saved baseline; None for a model
            that has no directory.
    """

    path: Path | None

    def __init__(
        self,
        load_ranker: Callable[[], Any],
        path: Path | None = None,
        corpus: Corpus | None = None,
        index: Index | None = None,
        is_temporary: bool = False,
    ) -> None:
        self._load_ranker, self.path, self._corpus = load_ranker, path, corpus
        self._index = index
        self._is_temporary = is_temporary  # the directory is deleted with this object

    @cached_property
    def ranker(self) -> Any:
        """The `dssm_tf.TrainedRanker`, or the baseline, that computes the scores."""
        return self._load_ranker()

    @property
    def name(self) -> str:
        """The name of the model in tables."""
        return str(self.ranker.name)

    @property
    def mean_prior(self) -> float:
        """The mean of the weighted log-priors of the clicked titles; 0 without a prior."""
        return float(getattr(self.ranker, "mean_prior", 0.0))

    @property
    def training_log(self) -> TrainingLog | None:
        """Ids of the queries and pairs that the model was trained on; None if unknown."""
        log: TrainingLog | None = getattr(self.ranker, "training_log", None)
        return log

    def __repr__(self) -> str:
        ranker, facts = self.ranker, [repr(self.name)]
        if isinstance(ranker, TrainedRanker):
            from dssm_tf.runtime.vector_ranker import VectorRanker

            facts.append(f"score {'cosine' if isinstance(ranker, VectorRanker) else 'maxsim'}")
            facts.append(f"{len(ranker.vocabulary.ngrams):,} letter n-grams")
        else:
            facts.append("baseline")
        titles = self._corpus if self._index is None else self._index
        if isinstance(titles, (list, tuple, Index)):
            facts.append(f"{len(titles):,} titles to search")
        facts.append("temporary, see save" if self._is_temporary else f"path {self.path}")
        return f"<dssm_tf.Model {', '.join(facts)}>"

    def score(self, queries: str | Iterable[str], titles: Iterable[str]) -> Floats:
        """Scores titles.

        Args:
            queries: one text or several.
            titles: texts, in any order.

        Returns:
            Scores `(titles,)` for one query, `(queries, titles)` for several.
        """
        if isinstance(queries, str):
            scores: Floats = self.ranker.score(queries, titles)
            return scores
        return self.score_matrix(queries, titles)

    def score_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Floats:
        """Scores every title for every query, `(queries, titles)`."""
        scores: Floats = self.ranker.score_matrix(queries, titles)
        return scores

    def score_pairs(self, queries: Iterable[str], titles: Iterable[str]) -> Floats:
        """Scores each title for its own query, `(titles,)`.

        Args:
            queries: texts, one for each title.
            titles: texts.

        Raises:
            ValueError: the numbers of queries and titles differ.
        """
        queries, titles = texts_of("queries", queries), texts_of("titles", titles)
        if len(queries) != len(titles):
            raise ValueError(
                f"{len(queries)} queries and {len(titles)} titles; expected one query per title."
            )
        if hasattr(self.ranker, "score_pairs"):
            scores: Floats = self.ranker.score_pairs(queries, titles)
            return scores
        pairs = zip(queries, titles, strict=True)
        return np.array([self.ranker.score(query, [title])[0] for query, title in pairs])

    @overload
    def rank(self, queries: Frame, titles: None = None, k: int | None = None) -> Frame: ...

    @overload
    def rank(
        self, queries: str | Iterable[str], titles: Iterable[str], k: int | None = None
    ) -> pl.DataFrame: ...

    def rank(self, queries: Any, titles: Iterable[str] | None = None, k: int | None = None) -> Any:
        """Ranks titles from best to worst.

        Args:
            queries: one text or several; each ranks all titles. Or a data frame with PyTerrier's
                columns `qid`, `query`, `docno`, `text`; each query then ranks its own rows.
            titles: texts; leave them out with a data frame.
            k: maximum number of titles per query; None for all.

        Returns:
            A Polars frame with `query`, `rank` (from 1), `title`, `score` and `position` (the index
            in `titles`). Titles with equal scores keep their order. If `queries` is a data frame,
            the result is a frame of the same library: its columns, `score` and `rank` (from 0).

        Raises:
            UserError: a column is missing; `titles` is given with a data frame, or is missing
                without one.
        """
        if k is not None and k < 1:
            raise UserError(f"k is {k}; expected at least 1, or None for all titles.")
        if is_data_frame(queries):
            if titles is not None:
                raise UserError("a data frame has the titles in its column text; leave titles out.")
            return to_library_of(queries, self._rank_rows(queries, k))
        if titles is None:
            raise UserError("titles is missing; use search to rank a corpus.")
        title_list, queries = list(texts_of("titles", titles)), query_list(queries)
        scores = np.asarray(self.ranker.score_matrix(queries, title_list), np.float64)
        rows = [
            (query, rank, title_list[position], of_query[position], position)
            for query, of_query in zip(queries, scores, strict=True)
            for rank, position in enumerate(np.argsort(-of_query, kind="stable")[:k].tolist(), 1)
        ]
        return pl.DataFrame(rows, RANKED, orient="row")

    def _rank_rows(self, frame: DataFrame, k: int | None) -> pl.DataFrame:
        """The rows of a PyTerrier frame, ranked for each query; queries keep their order."""
        table = pyterrier_frame(frame, "qid", "query", "docno", "text").drop(
            "score", "rank", strict=False
        )
        scores = self.score_pairs(table["query"].to_list(), table["text"].to_list())
        ranked = (
            table.with_columns(score=pl.Series(np.asarray(scores, np.float64)))
            .with_row_index("first_row")
            .with_columns(pl.col("first_row").min().over("qid"))
            .sort("first_row", "score", descending=[False, True], maintain_order=True)
            .drop("first_row")
            .with_columns(pyterrier_ranks())
        )
        return ranked if k is None else ranked.filter(pl.col("rank") < k)

    transform = rank
    """The name by which PyTerrier calls `rank` with a data frame."""

    def index(self, corpus: Corpus | None = None, **options: Any) -> Index:
        """Indexes a corpus.

        Args:
            corpus: see `Index.build`; None for the titles of the training data.
            **options: see `Index.build`.
        """
        if corpus is None:
            corpus = self._known_corpus()
        return Index.build(self, corpus, **options)

    @overload
    def search(self, queries: Frame, k: int = 10, **options: Unpack[SearchOptions]) -> Frame: ...

    @overload
    def search(
        self, queries: str | Iterable[str], k: int = 10, **options: Unpack[SearchOptions]
    ) -> pl.DataFrame: ...

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        corpus: Corpus | None = None,
        filters: Filters | None = None,
    ) -> Any:
        """Returns the best titles of a corpus for each query; see `Index.search`.

        Args:
            queries: see `Index.search`.
            k: maximum number of titles per query.
            corpus: titles to search now and in later searches, see `Index.build`. By default, the
                titles of the training data. The first search indexes them.
            filters: see `Index.search`.

        Raises:
            UserError: no corpus is known, or an input cannot be used.
        """
        if corpus is not None and corpus is not self._corpus:
            self._corpus, self._index = corpus, None
        if self._index is None:
            self._index = self.index()
        return self._index.search(queries, k, filters=filters)

    def _known_corpus(self) -> Corpus:
        if self._corpus is None:
            raise UserError(
                f"no corpus is known to the model {self.name}; give corpus, a table with doc_id "
                "and title."
            )
        return self._corpus

    def explain(self, query: str, title: str) -> Explanation:
        """Explains the score of a query and a title; see `dssm_tf.explain`."""
        return explain(self, query, title)

    def encode_queries(self, queries: Iterable[str], prior: bool = False) -> Floats:
        """One vector per query, unless the score is maxsim; see `VectorRanker.encode_queries`."""
        return self._vectors().encode_queries(queries, prior)

    def encode_titles(self, titles: Iterable[str], prior: bool = False) -> Floats:
        """One vector per title, unless the score is maxsim; see `VectorRanker.encode_queries`."""
        return self._vectors().encode_titles(titles, prior)

    def _vectors(self) -> Any:
        from dssm_tf.runtime.vector_ranker import require_vectors

        return require_vectors(self.ranker, self.path or self.name)

    def save(self, path: AnyPath) -> None:
        """Writes the model and the corpus that `search` uses, for `dssm_tf.load` and all commands.

        If writing fails, no directory is left.

        Args:
            path: directory to write; it must not exist.

        Raises:
            UserError: `path` exists.
        """
        path = Path(path)
        refuse_existing(path)
        titles = None
        if self._corpus is not None:
            titles = read_titles(self._corpus, model_layout(self.path).corpus)
        from dssm_tf.export.load import find_model

        location = None if self.path is None else find_model(self.path)
        with atomic_directory(path) as folder:
            if location is None or self.path is None:
                self.ranker.save(folder)
            elif location.kind == "run":
                shutil.copytree(self.path, folder, dirs_exist_ok=True)
            else:  # an export is named after the directory that contains its versions
                shutil.copytree(location.path, folder / "1")
            if titles is not None:
                write_titles(folder / CORPUS, titles)


def explain(model: Any, query: str, title: str) -> Explanation:
    """Explains the score of a query and a title, for any model.

    A model with the score maxsim compares words, so its score has exact parts: a
    `MatchExplanation`. Other scores are explained by the Shapley values of the words of both texts:
    a `ShapleyExplanation`. Both have `name`, `score`, `prior`, `sentences()` and `to_json()`.

    Args:
        model: a model, or anything else that scores titles.
        query: raw text.
        title: raw text.

    Raises:
        UserError: a text has no word; the model has vectors, and its vocabulary has none of the
            letter n-grams of a text; or the model is a SavedModel with the score maxsim.
    """
    from dssm_tf.analysis.explanation import explain as explain_score

    return explain_score(model.ranker if isinstance(model, Model) else model, query, title)


def write_titles(path: Path, titles: Iterable[CorpusTitle]) -> None:
    """Writes a corpus as a Parquet file, with the columns `doc_id` and `title`."""
    frame = pl.DataFrame([*titles], ["doc_id", "title"], orient="row")
    with atomic_write(path, "wb") as file:
        frame.write_parquet(file)


def load(path: AnyPath, name: str | None = None, *, corpus: Corpus | None = None) -> Model:
    """Loads a model: a run, an export, a compact model, an index's model, or a saved baseline.

    Args:
        path: directory that `dssm_tf.train`, `Model.save`, a command or a baseline's `save` wrote.
            For an export or a compact model, this is the directory of one version, or its parent;
            the parent loads the newest version.
        name: the name in tables. By default, a run or an index's model has the tower's name, and an
            export or a compact model has the name of its directory. To load a baseline from files
            of another program, such as skip-thought's weights, give the baseline's name.
        corpus: titles for `Model.search`. By default, the titles of the index, or the titles of the
            training data if they were saved with the model.

    Returns:
        The model. A run and an export load TensorFlow, which takes seconds; a compact model loads
        only NumPy.

    Raises:
        UserError: the directory does not exist, contains no model or an unfinished run, or has a
            damaged or changed file.
    """
    from dssm_tf.export.load import find_model_or_index
    from dssm_tf.export.load import load as load_ranker
    from dssm_tf.tables.judgments import read_corpus

    path = Path(path)
    ranker = load_ranker(path, name)
    location = find_model_or_index(path)
    if location is None:  # a baseline
        return Model(lambda: ranker, path, corpus)
    index = None
    if corpus is None:
        if location.in_index:
            index = Index.open(path)
        elif (path / CORPUS).exists():
            corpus = read_corpus(path / CORPUS)
    return Model(lambda: ranker, location.path, corpus, index)
