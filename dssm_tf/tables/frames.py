"""Data frames as tables: those of pandas, Polars, PyArrow and others with Arrow's interface.

A frame is read as the Parquet file that it would be saved as, so its columns have the same names,
types and checks as those of files.

Reference: the Arrow PyCapsule Interface, https://arrow.apache.org/docs/format/CDataInterface.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow
from pyarrow import parquet

from dssm_tf.common.errors import UserError

if TYPE_CHECKING:
    from typing_extensions import TypeIs


class DataFrame(Protocol):
    """A data frame with Arrow's PyCapsule interface: of pandas, Polars, PyArrow and others."""

    @property
    def columns(self) -> Any:
        """The columns, or their names. Single columns do not have this attribute."""
        ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The columns of the frame."""
        ...


def is_data_frame(value: object) -> TypeIs[DataFrame]:
    """Whether a value is a data frame. Its columns are not read: lazy frames compute them."""
    return all(hasattr(type(value), name) for name in ("columns", "__arrow_c_stream__"))


TableSource = Path | str | DataFrame
"""A table: the path of a file, or a data frame."""

PYTERRIER = {"qid": "query_id", "docno": "doc_id", "text": "title", "label": "grade"}
"""The names of columns in PyTerrier's frames, and those of this package."""


def source_name(source: object) -> str:
    """A table's name in messages: the path, or `the pandas DataFrame`."""
    if isinstance(source, (str, Path)):
        return str(source)
    kind = type(source)
    return f"the {kind.__module__.partition('.')[0]} {kind.__name__}"


def row_name(source: object, row: int) -> str:
    """The name of a row in messages: `FILE:LINE`, or `the pandas DataFrame, row 3`."""
    is_file = isinstance(source, (str, Path))
    return f"{source_name(source)}:{row}" if is_file else f"{source_name(source)}, row {row}"


def parquet_of(frame: object) -> BytesIO:
    """A data frame as a Parquet file in memory; PyTerrier's columns get this package's names.

    Raises:
        UserError: it is not a data frame, or a column has values of several types.
    """
    table = arrow_table(frame)
    names = table.column_names
    table = table.rename_columns(
        [name if PYTERRIER.get(name, name) in names else PYTERRIER[name] for name in names]
    )
    file = BytesIO()
    parquet.write_table(table, file)
    file.seek(0)
    return file


def arrow_table(frame: object) -> Any:
    """A data frame as an Arrow table.

    Raises:
        UserError: see `parquet_of`.
    """
    if not is_data_frame(frame):
        hint = " Call .collect() first." if hasattr(frame, "collect") else ""
        raise UserError(
            f"{source_name(frame)} is not a table; expected a path or a data frame, such as those "
            f"of pandas (2.2 or newer), Polars and PyArrow.{hint}"
        )
    try:
        return pyarrow.table(frame)
    except (pyarrow.ArrowException, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{source_name(frame)} cannot be read: {reason:.200}. Give each column one type and "
            "one name."
        ) from None
