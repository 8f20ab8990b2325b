"""Reads users' files of any size as frames of checked columns.

Columns are matched by name, ignoring case, outer white space and order; other columns are ignored.
Text is UTF-8 unless the layout has another encoding. A byte order mark at the start and blank lines
are skipped. A bad row is an error that names file and line or, if `strict` is False, a `Reject`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import polars as pl
from polars import col

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import DATA_FILE_HINT, refuse_special_file
from dssm_tf.tables import columns as column_types
from dssm_tf.tables.batches import LINE, Batch, Contents
from dssm_tf.tables.cells import BadRow, lost_clicks
from dssm_tf.tables.columns import Column
from dssm_tf.tables.formats import TEXTS, format_of, open_contents
from dssm_tf.tables.frames import TableSource, parquet_of, source_name
from dssm_tf.tables.layout import TITLE, Layout, Reject, expand_title_fields, reject
from dssm_tf.tables.lines import reading
from dssm_tf.text.fields import SEPARATOR

_IDS = {"title": "doc_id", "query": "query_id"}
"""The column of ids of each column of texts."""

CheckedRows = tuple[pl.DataFrame, list[Reject]]
"""Good rows with `LINE`, and the malformed rows of the same part of the file."""


class Table:
    """An open file, to be read once.

    Args:
        contents: contents of the file.
        where: name of the file, for messages.
        layout: encoding, column names and other properties of the file.
    """

    def __init__(self, contents: Contents, where: str, layout: Layout) -> None:
        self._contents, self._where, self._layout = contents, where, layout

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in frames; none if the file is empty."""
        return self._contents.names

    @property
    def is_empty(self) -> bool:
        """Whether the file has no header and no row."""
        return not (self._contents.names or self._contents.malformed)

    @property
    def listed_names(self) -> str:
        """The names of the columns in the file, for messages."""
        return f"{', '.join(repr(name.strip()) for name in self._contents.names_in_file):.500}"

    @property
    def lines(self) -> int:
        """The number of lines, or rows of Parquet, read so far."""
        return self._contents.line_count()

    @property
    def splittable(self) -> bool:
        """Whether other readers can start after any line end."""
        return self._contents.splittable()

    def check(self, columns: Sequence[Column]) -> None:
        """Checks that the file has columns, before any row is read.

        A column of `Layout.required_by_columns` is required, except in JSON, where later objects
        may have it.

        Raises:
            UserError: a required column is missing, or a column is repeated.
        """
        names, names_in_rows = self._contents.names, self._contents.names_in_rows
        required, layout = [], self._layout
        named = frozenset() if names_in_rows else layout.required_by_columns
        for column in columns:
            wanted = expand_title_fields([column.name], layout.title_fields)
            required += wanted if column.required or column.name in named else []
            for name in wanted:
                if names.count(name) > 1 and not names_in_rows:
                    raise UserError(
                        f"{self._where} names the column {layout.name_in_file(name)!r} more than "
                        "once."
                    )
        expected = ", ".join(repr(layout.name_in_file(name)) for name in required)
        if self._contents.malformed:
            return
        if self.is_empty:
            raise UserError(f"{self._where} is empty; expected the columns {expected}.")
        missing = [layout.name_in_file(name) for name in required if name not in names]
        if missing:
            optional = {column.name for column in columns if not column.required}
            raise UserError(
                f"{self._where} has the columns {self.listed_names}; expected {expected} (missing: "
                f"{', '.join(missing)}).{self._hint(missing, named & optional)}"
            )

    def _hint(self, missing: Sequence[str], named: frozenset[str]) -> str:
        """A hint how to correct `--columns`, or that it could name a missing column.

        Args:
            missing: names in the file of the missing columns.
            named: optional columns that are required because `--columns` names them.
        """
        renamed = {in_file: name for name, in_file in self._layout.columns if in_file != name}
        for name in missing:
            if name in renamed and renamed[name] in self.names:
                return (
                    f" The column {name!r} is read as {renamed[name]!r}, as --columns says; copy "
                    "the column in the file to use it for both."
                )
        if {*missing} & {*map(self._layout.name_in_file, named)}:
            return " Correct the names in --columns, or leave out the columns that the file lacks."
        if self._layout.columns or not {*missing} <= {*_RENAMABLE}:
            return ""
        return (
            f" If it has another name in the file, use --columns {missing[0]}=NAME, or "
            "--corpus-columns for a corpus beside a log."
        )

    def scan(self, columns: Sequence[Column], *, strict: bool = True) -> Iterator[CheckedRows]:
        """Yields rows; columns that the file lacks have the value of an empty cell.

        Args:
            columns: required and optional columns.
            strict: whether a bad row is an error; otherwise it is a `Reject`.

        Raises:
            UserError: a column is missing (raised at once); while reading, the file is damaged, or
                a row is bad and `strict` is True.
        """
        if strict or not self._contents.names_in_rows:
            self.check(columns)
        return self._scan(columns, strict)

    def _scan(self, columns: Sequence[Column], strict: bool) -> Iterator[CheckedRows]:
        fields = self._layout.title_fields
        joined = fields != (TITLE,) and any(column.name == TITLE for column in columns)
        cells = [
            cell
            for column in columns
            for cell in (
                map(column_types.title_field, fields)
                if joined and column.name == TITLE
                else [column]
            )
        ]
        with reading(self._where):
            for batch in self._contents.batches(cells):
                frame, rejects = self._parse(batch, columns, fields if joined else ())
                if strict and rejects:
                    first = rejects[0]
                    location = self._contents.row_format.format(self._where, first.line)
                    raise UserError(f"{location}: {first.detail}.")
                yield frame, rejects

    def _parse(self, batch: Batch, columns: Sequence[Column], fields: Sequence[str]) -> CheckedRows:
        """Parses the columns of a batch to values, and separates its bad rows."""
        cells, layout = batch.frame, self._layout
        missing = pl.lit(None, pl.String)
        missing_columns = [
            missing.alias(name)
            for name in {*fields, *(column.name for column in columns)}
            if name not in cells.columns
        ]
        cells = cells.with_columns(missing_columns)
        bad: dict[int, BadRow] = {}
        if fields:
            field_values = []
            for name in fields:
                values_of_field, wrong = column_types.title_field(name).rule(
                    cells[name], layout.name_in_file(name)
                )
                field_values.append(values_of_field)
                bad = wrong | bad
            joined = pl.concat_str(field_values, separator=SEPARATOR).str.strip_chars_end(SEPARATOR)
            cells = cells.with_columns(pl.select(joined.alias(TITLE)).to_series())
        values = []
        for column in columns:
            series, wrong = column.rule(cells[column.name], layout.name_in_file(column.name))
            values.append(series.alias(column.name))
            bad = wrong | bad
        frame = pl.DataFrame([*values, cells[LINE]])
        if not bad:
            return frame, batch.rejects
        rejects = []
        for row, reason in sorted(bad.items()):
            line = cells[LINE][row]
            clicks: int | None = 1
            if any(column.name == "clicks" for column in columns):
                clicks = lost_clicks(cells["clicks"][row])
            rejects.append(reject(line, reason, batch.row_text(line), clicks))
        good = pl.repeat(True, len(frame), eager=True).scatter([*bad], False)
        in_order = sorted([*batch.rejects, *rejects], key=lambda row: row.line)
        return frame.filter(good), in_order


_RENAMABLE = ("query", "title", "clicks", "query_id", "doc_id", "grade")


@contextmanager
def open_table(
    path: TableSource,
    format: str = "",
    layout: Layout | None = None,
    file: IO[bytes] | None = None,
) -> Iterator[Table]:
    """Opens a file of any format, or a data frame.

    Args:
        path: the file, or a data frame.
        format: one of `FORMATS`; by default the one that the file's name ends in.
        layout: encoding, column names and other properties of the file.
        file: the open file, which is closed at the end; None opens `path` on this machine.

    Raises:
        UserError: the file cannot be read, or has an unknown format.
    """
    where, layout = source_name(path), layout or Layout()
    if isinstance(path, (str, Path)):
        if file is None:
            refuse_special_file(path, DATA_FILE_HINT)
        format = format or format_of(path)
        with reading(where):
            opened = file or Path(path).open("rb")  # noqa: SIM115
    else:
        format, opened = "parquet", parquet_of(path)
    with opened:
        yield Table(open_contents(opened, where, format, layout), where, layout)


def scan(
    path: TableSource,
    columns: Sequence[Column],
    layout: Layout | None = None,
    format: str = "",
) -> Iterator[pl.DataFrame]:
    """Yields the checked rows of a file; a name without a known ending means TSV.

    Raises:
        UserError: the file cannot be read, lacks a column or has a bad row.
    """
    if not format and isinstance(path, (str, Path)):
        format = format_of(path, otherwise="tsv")
    with open_table(path, format, layout) as table:
        for frame, _ in table.scan(columns):
            yield frame


def read(
    path: TableSource,
    columns: Sequence[Column],
    layout: Layout | None = None,
    format: str = "",
    expected: str = "",
) -> pl.DataFrame:
    """Reads the checked rows of a file, with `LINE`; a name without a known ending means TSV.

    Args:
        path: the file, or a data frame.
        columns: columns of the result.
        layout: encoding, column names and other properties of the file.
        format: one of `FORMATS`; by default the one that the file's name ends in.
        expected: the noun of a row, for the error if there is none; empty allows no rows.

    Raises:
        UserError: the file cannot be read, lacks a column, has a bad row, or has no row.
    """
    schema = {column.name: column.dtype for column in columns} | {LINE: pl.Int64}
    frame = pl.concat([pl.DataFrame(schema=schema), *scan(path, columns, layout, format)])
    if expected and not len(frame):
        header = "a header and " if isinstance(path, (str, Path)) else ""
        raise UserError(f"{source_name(path)} has {header}no {expected}.")
    return frame


def scan_texts(
    path: Path | str, side: str = "title", layout: Layout | None = None
) -> Iterator[pl.DataFrame]:
    """Yields texts as frames with the columns `id`, null without ids, and `text`.

    Args:
        path: a file of any format.
        side: the column of texts, `title` or `query`; a single column may be named `text`.
        layout: encoding, column names and other properties of the file.

    Raises:
        UserError: while reading: the file cannot be read, lacks a column or has a malformed row.
            The message has file and line.
    """
    refuse_special_file(path, DATA_FILE_HINT)
    with open_table(path, format_of(path, TEXTS), layout) as table:
        name = "text" if table.names == ("text",) else side
        columns = [column_types.text(name), column_types.identifier(_IDS[side]).optional]
        table.check(columns)
        has_ids = _IDS[side] in table.names
        for frame, _ in table.scan(columns if has_ids else columns[:1]):
            id = col(_IDS[side]) if has_ids else pl.lit(None, pl.String)
            yield frame.select(id.alias("id"), text=name)


def rebatch(frames: Iterable[pl.DataFrame], size: int) -> Iterator[pl.DataFrame]:
    """Regroups rows into frames of `size` rows; the last may be smaller."""
    pending: list[pl.DataFrame] = []
    for frame in frames:
        pending.append(frame)
        if sum(map(len, pending)) >= size:
            rows = pl.concat(pending)
            complete = len(rows) // size * size
            yield from rows[:complete].iter_slices(size)
            pending = [rows[complete:]]
    if any(map(len, pending)):
        yield pl.concat(pending)
