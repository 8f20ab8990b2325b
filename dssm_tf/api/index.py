"""`dssm_tf.Index`: searches a corpus with a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, overload

import polars as pl
from typing_extensions import Unpack

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
from dssm_tf.common.paths import AnyPath, optional_path
from dssm_tf.tables.frames import is_data_frame
from dssm_tf.tables.layout import Layout

HITS = {
    "query": pl.String, "rank": pl.Int64, "doc_id": pl.String, "title": pl.String,
    "score": pl.Float64,
}  # fmt: skip
"""The columns of a search."""

Filters = Mapping[str, str | float | Sequence[str | float] | Mapping[str, float]]
Boosts = Mapping[str, float]


class SearchOptions(TypedDict, total=False):
    """Keyword arguments of `Index.search`, for its overloads."""

    filters: Filters | None
    boosts: Boosts | None


class LoadedModel(Protocol):
    """A ranker and its directory, such as a `dssm_tf.Model`."""

    @property
    def ranker(self) -> Any:
        """The ranker."""
        ...

    @property
    def path(self) -> Path | None:
        """The directory of the model."""
        ...


class Index:
    """A corpus that is indexed for searches with a model. `Index.build` and `Index.open` create it.

    The scores are those of the model. Several threads may search at once.
    """

    def __init__(self, index: Any, model_path: Path | None) -> None:
        self._index, self._model_path = index, model_path

    @classmethod
    def build(
        cls,
        model: LoadedModel | AnyPath,
        corpus: Corpus,
        *,
        kind: Literal["auto", "exact", "fast"] = "auto",
        queries: Sequence[str] = (),
        similar_words: int | None = None,
        rules: AnyPath | None = None,
        layout: Layout | None = None,
    ) -> Index:
        """Builds an index in memory.

        Args:
            model: a trained model, or the directory of one.
            corpus: a table (file or data frame) with doc_id, title; a list of
                `dssm_tf.CorpusTitle`; or a list of texts, whose ids are their positions.
            kind: for a model that gives one vector per text: `exact` compares all titles, `fast`
                searches a graph, `auto` is exact up to 100,000 titles.
            queries: for a fast index, queries on which its recall is measured; by default queries
                made from titles.
            similar_words: for a maxsim model, the number of similar words per query word that a
                search uses to find candidate titles; 16 by default.
            rules: for a maxsim model, a file of rules by hand (docs/rules.md).
            layout: encoding and column names of the file. By default, the title fields are those
                that the model was trained on.

        Raises:
            UserError: an input cannot be used.
        """
        from dssm_tf.export.load import apply_rules, load
        from dssm_tf.retrieval.opening import build_index, name_fields

        if isinstance(model, (str, Path)):
            path: Path | None = Path(model)
            ranker: Any = load(model)
        else:
            path, ranker = model.path, model.ranker
        if layout is None:
            layout = model_layout(path)
        titles = read_titles(corpus, layout.corpus)
        ranker = apply_rules(ranker, optional_path(rules))
        index = build_index(ranker, path or ranker.name, titles, kind, queries, similar_words)
        name_fields(index, layout.title_fields)
        return cls(index, path)

    @classmethod
    def open(cls, path: AnyPath, *, rules: AnyPath | None = None) -> Index:
        """Opens a directory that `dssm index` or `save` wrote.

        Args:
            path: the directory.
            rules: for a maxsim model, a file of rules by hand, instead of those of the index.

        Raises:
            UserError: the directory is not an index, or a file is damaged.
        """
        from dssm_tf.retrieval.opening import open_index
        from dssm_tf.runtime.compact_files import INDEX_MODEL

        return cls(open_index(path, rules=optional_path(rules)), Path(path) / INDEX_MODEL)

    @property
    def model(self) -> Any:
        """The ranker that scores the titles, a `dssm_tf.TrainedRanker`."""
        return self._index.model

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return f"<dssm_tf.Index of {len(self):,} titles, model {self.model.name!r}>"

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
        filters: Filters | None = None,
        boosts: Boosts | None = None,
    ) -> Any:
        """Returns the best titles of each query.

        Args:
            queries: one text; several texts (a list, an array or a column); or a data frame with
                PyTerrier's columns `qid` and `query`.
            k: maximum number of titles per query.
            filters: accepted values by the name of a title field or a stored column, or by
                `doc_id`; for numbers also limits, such as `{"price": {"lte": 50}}`.
            boosts: weights by stored columns with numbers; `weight * ln(1 + number)` is added to
                the scores of a maxsim model.

        Returns:
            A Polars frame with `query`, `rank` (from 1), `doc_id`, `title` and `score`; the rows of
            a query are together, queries in the order of the input, and a query without a result
            has none. For a data frame, a frame of the same library with PyTerrier's columns
            `qid, query, docno, text, score, rank`, rank from 0.

        Raises:
            UserError: `k` is below 1, a column is missing, or a filter is not one of this index.
        """
        if k < 1:
            raise UserError(f"k is {k}; expected at least 1.")
        conditions = {name: _condition(values) for name, values in (filters or {}).items()}
        if is_data_frame(queries):
            topics = pyterrier_frame(queries, "qid", "query")
            hits = self._hits(topics["query"].to_list(), k, conditions, boosts)
            result = (
                hits.rename({"doc_id": "docno", "title": "text"})
                .with_columns(qid=topics["qid"].gather(hits["query_index"]))
                .select("qid", "query", "docno", "text", "score", pyterrier_ranks())
            )
            return to_library_of(queries, result)
        return self._hits(query_list(queries), k, conditions, boosts).select(*HITS)

    transform = search
    """PyTerrier's name of a function from frames to frames."""

    def _hits(
        self, queries: Sequence[str], k: int, filters: Any, boosts: Boosts | None
    ) -> pl.DataFrame:
        """The titles of each query, with the index of the query as the column `query_index`."""
        from dssm_tf.retrieval.opening import search_index

        rows = []
        for query_index, query in enumerate(queries):
            result = search_index(self._index, query, k, filters or None, boosts)
            rows += [
                (query_index, query, rank, hit.doc_id, hit.title, hit.score)
                for rank, hit in enumerate(result.rankings["semantic"], 1)
            ]
        return pl.DataFrame(rows, {"query_index": pl.Int64, **HITS}, orient="row")

    def save(self, path: AnyPath) -> None:
        """Writes the index for `Index.open`, `dssm search --index` and `dssm serve --index`.

        If writing fails, no directory is left.

        Args:
            path: directory to write; it must not exist.

        Raises:
            UserError: it exists, or the model has no directory or no weights to copy.
        """
        if self._model_path is None:
            raise UserError(
                "the model of this index is not from a directory; save the model, load it and "
                "build the index again."
            )
        self._index.save(path, self._model_path)


def _condition(values: Any) -> Any:
    """A filter as an index takes it: the limits of a number, or a list of accepted values."""
    if isinstance(values, Mapping):
        return values
    return [values] if isinstance(values, (str, int, float)) else list(values)
