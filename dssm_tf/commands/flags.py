"""Flags that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from dssm_tf.tables.layout import Layout

Share = Annotated[float | None, Parameter(validator=validators.Number(gt=0, lte=1))]
"""Some part of a whole, or no flag."""


@Parameter(name="*")
@dataclass(frozen=True)
class Tables:
    """The layout of the tables of titles that a command reads.

    Attributes:
        encoding: encoding of the files, such as cp1252 or utf-16
        title_fields: comma-separated columns that make up a title; by default, those
            that the model learned from, or title
        columns: what your files call their columns, such as query=search_term,title=product_title
        corpus_columns: what the corpus calls its columns, such as title=name; by default as
            --columns says
    """

    encoding: str = "utf-8"
    title_fields: str = ""
    columns: str = ""
    corpus_columns: str = ""

    def layout(self, *models: Path) -> Layout:
        """The same as readers take it.

        Args:
            models: see `learned_fields`; a flag goes before them.

        Raises:
            UserError: a flag is not usable.
        """
        from dssm_tf.export.load import learned_fields
        from dssm_tf.tables.layout import Layout, parse_columns

        given = self.title_fields
        fields = parse_fields(given) if given else learned_fields(*models)
        corpus_columns = parse_columns(self.corpus_columns, "--corpus-columns")
        return Layout(self.encoding, fields, parse_columns(self.columns), corpus_columns)


PLAIN = Tables()
