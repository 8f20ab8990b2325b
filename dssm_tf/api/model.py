"""`dssm_tf.Model`: a trained model that scores, ranks, searches and explains."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.api.index import Filters, Index
from dssm_tf.api.inputs import (
    Corpus,
    Frame,
    pyterrier_frame,
    pyterrier_ranks,
    query_list,
    read_titles,
    same_library,
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
"""File in the directory of a model with the titles that `Model.search` searches."""

RANKED = {
    "query": pl.String, "rank": pl.Int64, "title": pl.String, "score": pl.Float64,
    "position": pl.Int64,
}  # fmt: skip
"""The columns of a ranking."""

Floats = NDArray[np.floating[Any]]


class Model:
    """A trained model; `dssm_tf.train` and `dssm_tf.load` return one.

    The score of a query and a title is a similarity plus the weighted log-prior of the title.
    Scores of different queries are not comparable. Any string is valid, also an empty one.

    Attributes:
        path: the directory of the model: a run, an export or a compact model; None if it has none.
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
        """The name in tables."""
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
        ranker, parts = self.ranker, [repr(self.name)]
        if isinstance(ranker, TrainedRanker):
            from dssm_tf.runtime.vector_ranker import VectorRanker

            parts.append(f"score {'cosine' if isinstance(ranker, VectorRanker) else 'maxsim'}")
            parts.append(f"{len(ranker.vocabulary.ngrams):,} letter n-grams")
        else:
            parts.append("baseline")
        titles = self._corpus if self._index is None else self._index
        if isinstance(titles, (list, tuple, Index)):
            parts.append(f"{len(titles):,} titles to search")
        parts.append("temporary, see save" if self._is_temporary else f"path {self.path}")
        return f"<dssm_tf.Model {', '.join(parts)}>"

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
        """Scores each title for its own query, `(titles,)`."""
        queries, titles = texts_of("queries", queries), texts_of("titles", titles)
        if len(queries) != len(titles):
            raise ValueError(f"{len(queries)} queries and {len(titles)} titles; expected as many.")
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
            queries: one text, or several, each of which ranks all titles; or a data frame with
                PyTerrier's columns `qid`, `query`, `docno`, `text`, whose rows are ranked for
                their queries.
            titles: texts; left out with a data frame.
            k: maximum number of titles per query; None for all.

        Returns:
            A Polars frame with `query`, `rank` (from 1), `title`, `score` and `position`, the index
            in `titles`. Titles with equal scores keep their order. For a data frame, its columns
            with `score` and `rank` (from 0), as a frame of the same library.

        Raises:
            UserError: a column is missing, or `titles` is missing or given with a data frame.
        """
        if k is not None and k < 1:
            raise UserError(f"k is {k}; expected at least 1, or None for all titles.")
        if is_data_frame(queries):
            if titles is not None:
                raise UserError("a data frame has the titles in its column text; leave titles out.")
            return same_library(queries, self._rank_rows(queries, k))
        if titles is None:
            raise UserError("titles is missing; use search to rank a corpus.")
        texts, distinct = list(texts_of("titles", titles)), query_list(queries)
        scores = np.asarray(self.ranker.score_matrix(distinct, texts), np.float64)
        rows = [
            (query, rank, texts[position], row[position], position)
            for query, row in zip(distinct, scores, strict=True)
            for rank, position in enumerate(np.argsort(-row, kind="stable")[:k].tolist(), 1)
        ]
        return pl.DataFrame(rows, RANKED, orient="row")

    def _rank_rows(self, frame: DataFrame, k: int | None) -> pl.DataFrame:
        table = pyterrier_frame(frame, "qid", "query", "docno", "text").drop(
            "score", "rank", strict=False
        )
        scores = self.score_pairs(table["query"].to_list(), table["text"].to_list())
        ranked = (
            table.with_columns(score=pl.Series(np.asarray(scores, np.float64)))
            .with_row_index("first")
            .with_columns(pl.col("first").min().over("qid"))
            .sort("first", "score", descending=[False, True], maintain_order=True)
            .drop("first")
            .with_columns(pyterrier_ranks())
        )
        return ranked if k is None else ranked.filter(pl.col("rank") < k)

    transform = rank
    """PyTerrier's name of a function from frames to frames."""

    def index(self, corpus: Corpus | None = None, **options: Any) -> Index:
        """Indexes a corpus.

        Args:
            corpus: see `Index.build`; None for the corpus of the training.
            **options: see `Index.build`.
        """
        if corpus is None:
            corpus = self._known_corpus()
        return Index.build(self, corpus, **options)

    @overload
    def search(
        self,
        queries: Frame,
        k: int = 10,
        *,
        corpus: Corpus | None = None,
        filters: Filters | None = None,
    ) -> Frame: ...

    @overload
    def search(
        self,
        queries: str | Iterable[str],
        k: int = 10,
        *,
        corpus: Corpus | None = None,
        filters: Filters | None = None,
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
            corpus: titles to search in this and later searches, see `Index.build`; by default
                those of the training. The first search indexes them.
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
        """Vectors of queries, for a cosine model; see `VectorRanker.encode_queries`."""
        return self._vectors().encode_queries(queries, prior)

    def encode_titles(self, titles: Iterable[str], prior: bool = False) -> Floats:
        """Vectors of titles, for a cosine model; see `VectorRanker.encode_queries`."""
        return self._vectors().encode_titles(titles, prior)

    def _vectors(self) -> Any:
        from dssm_tf.runtime.vector_ranker import require_vectors

        return require_vectors(self.ranker, self.path or self.name)

    def save(self, path: AnyPath) -> None:
        """Writes the model, with the corpus of its searches, for `dssm_tf.load` and all commands.

        The directory is complete or not there at all.

        Args:
            path: directory to write; it must not exist.

        Raises:
            UserError: it exists.
        """
        path = Path(path)
        refuse_existing(path)
        titles = None
        if self._corpus is not None:
            titles = read_titles(self._corpus, layout_of(self.path))
        from dssm_tf.export.load import find_model

        location = None if self.path is None else find_model(self.path)
        with atomic_directory(path) as folder:
            if location is None or self.path is None:
                self.ranker.save(folder)
            elif location.kind == "run":
                shutil.copytree(self.path, folder, dirs_exist_ok=True)
            else:  # the name of an export is that of the directory of its versions
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
        UserError: a text has no word; a model with vectors has none of its letter n-grams in the
            vocabulary; or the model is a SavedModel with the score maxsim.
    """
    from dssm_tf.analysis.explanation import explain as explain_score

    return explain_score(model.ranker if isinstance(model, Model) else model, query, title)


def layout_of(path: Path | None) -> Any:
    """The layout of a corpus for a model: its title fields are those of the training."""
    from dssm_tf.export.load import model_title_fields
    from dssm_tf.tables.layout import Layout

    return Layout(title_fields=model_title_fields(*([path] if path else []))).corpus


def write_titles(path: Path, titles: Iterable[CorpusTitle]) -> None:
    """Writes a corpus as a Parquet file."""
    frame = pl.DataFrame([*titles], ["doc_id", "title"], orient="row")
    with atomic_write(path, "wb") as file:
        frame.write_parquet(file)


def load(path: AnyPath, name: str | None = None, *, corpus: Corpus | None = None) -> Model:
    """Loads a model: a run, an export, a compact model, that of an index, or a saved baseline.

    Args:
        path: directory that `dssm_tf.train`, `Model.save`, a command or a baseline's `save` wrote.
            For an export or a compact model, the directory of a version, or of the model to load
            its newest version.
        name: the name in tables; by default the tower's name, or that of the model's directory.
            For a baseline with files of another program, such as skip-thought's weights, the
            baseline's name.
        corpus: titles for `Model.search`; by default those of the training if they were saved with
            the model, or those of the index.

    Returns:
        The model. A run and an export load TensorFlow, which takes seconds; a compact model loads
        only NumPy.

    Raises:
        UserError: the directory does not exist, contains no model or an unfinished run, or a file
            was damaged or changed.
    """
    from dssm_tf.export.load import find_model
    from dssm_tf.export.load import load as load_ranker
    from dssm_tf.runtime.compact_files import INDEX_MODEL

    path = Path(path)
    location = find_model(path)
    index = None
    if location is not None:
        directory = location.path
        if corpus is None and (path / CORPUS).exists():
            corpus = saved_corpus(path / CORPUS)
    elif (path / INDEX_MODEL).is_dir():
        directory = path / INDEX_MODEL
    else:
        directory = path
    ranker = load_ranker(path, name)
    if location is None and directory != path and corpus is None:
        index = Index.open(path)
    return Model(lambda: ranker, directory, corpus, index)


def saved_corpus(path: Path) -> Corpus:
    """The titles of `write_titles`."""
    from dssm_tf.tables.judgments import read_corpus

    return read_corpus(path)
