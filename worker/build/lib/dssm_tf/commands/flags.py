"""Flags that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from dssm_tf.tables.layout import Layout


@Parameter(name="*")
@dataclass(frozen=True)
class Tables:
    """How the tables are laid out that a command reads.

    Attributes:
        encoding: of the text of the files, such as cp1252 or utf-16
        title_fields: columns that a title is made of, with commas between, as preprocess had them
        columns: what your files call their columns, such as query=search_term,title=product_title
        thousands: sign between the thousands of clicks, such as , in 67,998
    """

    encoding: str = "utf-8"
    title_fields: str = "title"
    columns: str = ""
    thousands: str = ""

    def layout(self) -> Layout:
        """The same as readers take it.

        Raises:
            UserError: a flag is not usable.
        """
        from dssm_tf.tables.layout import Layout, parse_columns

        return Layout(
            self.encoding,
            parse_fields(self.title_fields),
            self.thousands,
            parse_columns(self.columns),
        )


PLAIN = Tables()


def fields_flag(fields: tuple[str, ...]) -> str:
    """The flag `--title-fields` for a command that is to be typed next; `""` by default.

    >>> fields_flag(("name", "brand")), fields_flag(("title",))
    (' --title-fields name,brand', '')
    """
    return "" if fields == ("title",) else f" --title-fields {','.join(fields)}"
