"""Converts arguments and results of the public interface: texts, tables and data frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.trained_ranker import texts_of
from dssm_tf.tables.frames import (
    DataFrame,
    TableSource,
    arrow_table,
    is_data_frame,
    source_name,
)
from dssm_tf.tables.judgments import CorpusTitle, read_corpus
from dssm_tf.tables.layout import Layout

Frame = TypeVar("Frame", bound=DataFrame)
Corpus = TableSource | Sequence[CorpusTitle] | Sequence[str]
"""Titles: a table with doc_id and title; a list of `CorpusTitle`; or a list of texts, where the
position of a text is its id."""


def model_layout(path: Path | None) -> Layout:
    """The default layout of tables for a model: the title fields are those of its training data.

    Args:
        path: the directory of the model; None if it has none.
    """
    from dssm_tf.export.load import model_title_fields

    return Layout(title_fields=model_title_fields(*([] if path is None else [path])))


def query_list(queries: str | Iterable[str]) -> list[str]:
    """One query or many as a list.

    Raises:
        TypeError: an element is not a string.
    """
    if isinstance(queries, str):
        return [queries]
    if not isinstance(queries, Iterable):
        raise TypeError(f"queries is {queries!r:.60}; expected a string or an iterable of strings.")
    return list(texts_of("queries", queries))


def read_titles(corpus: Corpus, layout: Layout) -> list[CorpusTitle]:
    """Reads a corpus.

    Raises:
        UserError: see `read_corpus`.
        TypeError: an element of a list is neither a title nor a text.
    """
    if isinstance(corpus, str) or is_data_frame(corpus) or not isinstance(corpus, Sequence):
        return read_corpus(corpus, layout)
    titles = []
    for position, entry in enumerate(corpus):
        if isinstance(entry, str):
            titles.append(CorpusTitle(str(position), entry))
        elif isinstance(entry, CorpusTitle):
            titles.append(entry)
        else:
            raise TypeError(f"corpus[{position}] is {entry!r:.60}; expected str or CorpusTitle.")
    return titles


def pyterrier_frame(frame: DataFrame, *required: str) -> pl.DataFrame:
    """Converts a data frame to Polars, and its required columns to text; nulls become empty.

    Args:
        frame: any data frame.
        *required: names of PyTerrier's columns, such as `qid`.

    Raises:
        UserError: a column is missing.
    """
    table = pl.DataFrame(arrow_table(frame))
    if missing := [name for name in required if name not in table.columns]:
        raise UserError(
            f"{source_name(frame)} has the columns {', '.join(table.columns)}; expected "
            f"PyTerrier's {', '.join(required)} (missing: {', '.join(missing)})."
        )
    return table.with_columns(pl.col(*required).cast(pl.String).fill_null(""))


def to_library_of(frame: Frame, result: pl.DataFrame) -> Frame:
    """Converts a result to the data frame library of another frame."""
    import narwhals

    library: Any = narwhals.from_native(frame, eager_only=True)
    # All libraries support Arrow's older text type; some lack the newer one.
    table = result.to_arrow(compat_level=pl.CompatLevel.oldest())
    native: Frame = narwhals.from_arrow(table, backend=library.implementation).to_native()
    return native


def pyterrier_ranks() -> pl.Expr:
    """The rank of each row among those of its query, in frame order, from 0 as in PyTerrier."""
    return pl.int_range(pl.len()).over("qid").alias("rank")
