"""Reads people's files, of any size, as frames of checked columns.

Columns are found by name, without case and outer white space: their order is free, and further ones
are ignored. Text is UTF-8 unless the layout says otherwise; a byte order mark at the start is no
part of it, and blank lines are no rows. A bad row is an error that names file and line, or, without
strictness, a `Reject` with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import polars as pl
from polars import col

from dssm_tf.common.errors import UserError
from dssm_tf.tables import columns as rules
from dssm_tf.tables.batches import LINE, Batch, Contents
from dssm_tf.tables.cells import BadRow, lost_clicks
from dssm_tf.tables.columns import Column
from dssm_tf.tables.formats import TEXTS, format_of, open_contents
from dssm_tf.tables.layout import TITLE, Layout, Reject, expand_title_fields, reject
from dssm_tf.tables.lines import reading
from dssm_tf.text.fields import SEPARATOR

_IDS = {"title": "doc_id", "query": "query_id"}
"""The column of ids beside one of texts."""

Block = tuple[pl.DataFrame, list[Reject]]
"""Good rows that follow each other, with `LINE`, and the malformed rows among them."""


class Table:
    """An open file, to be read once.

    Args:
        contents: of its format.
        where: its name, for messages.
        layout: what the name does not say.
    """

    def __init__(self, contents: Contents, where: str, layout: Layout) -> None:
        self._contents, self._where, self._layout = contents, where, layout

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, as frames call them; none if the file is empty."""
        return self._contents.names

    @property
    def listed(self) -> str:
        """The columns as the file calls them, for messages."""
        return f"{', '.join(repr(name.strip()) for name in self._contents.names_in_file):.500}"

    @property
    def lines(self) -> int:
        """How many lines, or rows of Parquet, were read so far."""
        return self._contents.line_count()

    @property
    def splittable(self) -> bool:
        """Whether other readers may begin at any line end."""
        return self._contents.splittable()

    def check(self, columns: Iterable[Column]) -> None:
        """Looks columns up before anything is read.

        Raises:
            UserError: a required column is missing, or a column comes twice.
        """
        names = self._contents.names
        needed, layout = [], self._layout
        for column in columns:
            wanted = expand_title_fields([column.name], layout.title_fields)
            needed += wanted if column.required else []
            for name in wanted:
                if names.count(name) > 1 and not self._contents.names_in_rows:
                    raise UserError(
                        f"{self._where} names the column {layout.name_in_file(name)!r} more than "
                        "once."
                    )
        expected = ", ".join(repr(layout.name_in_file(name)) for name in needed)
        if self._contents.malformed:
            return
        if not names:
            raise UserError(f"{self._where} is empty; expected the columns {expected}.")
        missing = [layout.name_in_file(name) for name in needed if name not in names]
        if missing:
            raise UserError(
                f"{self._where} has the columns {self.listed}; expected {expected} (missing: "
                f"{', '.join(missing)}).{self._hint(missing)}"
            )

    def _hint(self, missing: Sequence[str]) -> str:
        """How to name columns, if nothing was said about them."""
        if self._layout.columns or not {*missing} <= {*_NAMED}:
            return ""
        return (
            f" If the file calls it otherwise, say so: --columns {missing[0]}=NAME, or "
            "--corpus-columns for a corpus beside a log."
        )

    def scan(self, columns: Sequence[Column], *, strict: bool = True) -> Iterator[Block]:
        """The rows in blocks; columns that the file lacks have the value of an empty cell.

        Args:
            columns: those that the file has to have, and others.
            strict: whether a bad row is an error; otherwise it is a `Reject`.

        Raises:
            UserError: at once, a column is missing; while reading, the file is damaged, or a row
                is bad and `strict` holds.
        """
        if strict or not self._contents.names_in_rows:
            self.check(columns)
        return self._scan(columns, strict)

    def _scan(self, columns: Sequence[Column], strict: bool) -> Iterator[Block]:
        fields = self._layout.title_fields
        joined = fields != (TITLE,) and any(column.name == TITLE for column in columns)
        cells = [
            cell
            for column in columns
            for cell in (
                map(rules.title_field, fields) if joined and column.name == TITLE else [column]
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

    def _parse(self, batch: Batch, columns: Sequence[Column], fields: Sequence[str]) -> Block:
        """The values of a batch's columns, and its rows that cannot be used."""
        cells, layout = batch.frame, self._layout
        missing = pl.lit(None, pl.String)
        lacked = [
            missing.alias(name)
            for name in {*fields, *(column.name for column in columns)}
            if name not in cells.columns
        ]
        cells = cells.with_columns(lacked)
        bad: dict[int, BadRow] = {}
        if fields:
            parts = []
            for name in fields:
                part, wrong = rules.title_field(name).rule(cells[name], layout.name_in_file(name))
                parts.append(part)
                bad = wrong | bad
            joined = pl.concat_str(parts, separator=SEPARATOR).str.strip_chars_end(SEPARATOR)
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


_NAMED = ("query", "title", "clicks", "query_id", "doc_id", "grade")


@contextmanager
def open_table(
    path: Path | str,
    format: str = "",
    layout: Layout | None = None,
    raw: IO[bytes] | None = None,
) -> Iterator[Table]:
    """Opens a file of any format.

    Args:
        path: the file.
        format: one of `FORMATS`, if not that of the name.
        layout: what the name does not say.
        raw: its bytes, which are closed in the end; None: those of `path` on this machine.

    Raises:
        UserError: the file cannot be read, or is of no known format.
    """
    where, layout, format = str(path), layout or Layout(), format or format_of(path)
    with reading(where):
        file = raw or Path(path).open("rb")  # noqa: SIM115
    with file:
        yield Table(open_contents(file, where, format, layout), where, layout)


def scan(
    path: Path | str,
    columns: Sequence[Column],
    layout: Layout | None = None,
    format: str = "",
) -> Iterator[pl.DataFrame]:
    """The checked rows of a file in frames; TSV if the name says nothing.

    Raises:
        UserError: the file cannot be read, lacks a column or has a bad row.
    """
    with open_table(path, format or format_of(path, otherwise="tsv"), layout) as table:
        for frame, _ in table.scan(columns):
            yield frame


def read(
    path: Path | str,
    columns: Sequence[Column],
    layout: Layout | None = None,
    format: str = "",
    expected: str = "",
) -> pl.DataFrame:
    """The checked rows of a file, with `LINE`; TSV if the name says nothing.

    Args:
        path: the file.
        columns: that it has to have.
        layout: what its name does not say.
        format: if not that of the name.
        expected: what a row is, if one there has to be.

    Raises:
        UserError: the file cannot be read, lacks a column, has a bad row or no row.
    """
    schema = {column.name: column.dtype for column in columns} | {LINE: pl.Int64}
    frame = pl.concat([pl.DataFrame(schema=schema), *scan(path, columns, layout, format)])
    if expected and not len(frame):
        raise UserError(f"{path} has a header and no {expected}.")
    return frame


def scan_texts(
    path: Path | str, side: str = "title", layout: Layout | None = None
) -> Iterator[pl.DataFrame]:
    """Texts with their ids, in frames of `id`, null where the input has none, and `text`.

    Args:
        path: a file of any format.
        side: `title` or `query`: the column of texts; one that is alone may be called `text`.
        layout: what its name does not say.

    Raises:
        UserError: while reading, naming file and line: the file cannot be read, lacks a column or
            has a malformed row.
    """
    with open_table(path, format_of(path, TEXTS), layout) as table:
        name = "text" if table.names == ("text",) else side
        ids = [rules.identifier(_IDS[side])] if _IDS[side] in table.names else []
        for frame, _ in table.scan([rules.text(name), *ids]):
            id = col(_IDS[side]) if ids else pl.lit(None, pl.String)
            yield frame.select(id.alias("id"), text=name)


def rebatch(frames: Iterable[pl.DataFrame], size: int) -> Iterator[pl.DataFrame]:
    """The same rows in frames of one size; the last may be smaller."""
    frames_left: list[pl.DataFrame] = []
    for frame in frames:
        frames_left.append(frame)
        if sum(map(len, frames_left)) >= size:
            rows = pl.concat(frames_left)
            whole = len(rows) // size * size
            yield from rows[:whole].iter_slices(size)
            frames_left = [rows[whole:]]
    if any(map(len, frames_left)):
        yield pl.concat(frames_left)
