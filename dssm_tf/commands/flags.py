"""Flags of several commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from dssm_tf.common.paths import AnyPath
from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from dssm_tf.tables.layout import Layout

OptionalFraction = Annotated[float | None, Parameter(validator=validators.Number(gt=0, lte=1))]
"""A fraction above 0 and up to 1; None if the flag is not given."""


@Parameter(name="*")
@dataclass(frozen=True)
class TableFlags:
    """The layout of the tables that a command reads.

    Attributes:
        encoding: encoding of the files, such as cp1252 or utf-16
        title_fields: comma-separated columns that are joined to a title; by default, those
            that the model was trained on, or title
        columns: names of the columns in your files, such as query=search_term,title=product_title
        corpus_columns: names of the columns in the corpus, such as title=name; by default, those
            of --columns
    """

    encoding: str = "utf-8"
    title_fields: str = ""
    columns: str = ""
    corpus_columns: str = ""

    def layout(self, *models: AnyPath) -> Layout:
        """Converts the flags to the layout that readers take.

        Args:
            models: models whose title fields are the default, see `model_title_fields`.

        Raises:
            UserError: a flag is not usable.
        """
        from dssm_tf.export.load import model_title_fields
        from dssm_tf.tables.layout import Layout, parse_columns

        title_fields = self.title_fields
        fields = (
            parse_fields(title_fields) if title_fields else model_title_fields(*map(Path, models))
        )
        corpus_columns = parse_columns(self.corpus_columns, "--corpus-columns")
        return Layout(self.encoding, fields, parse_columns(self.columns), corpus_columns)


DEFAULT_TABLE_FLAGS = TableFlags()
"""UTF-8 files with the usual column names."""
