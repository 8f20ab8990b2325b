"""An open file whose rows are found, checked and counted, whatever its format."""

from __future__ import annotations

import gzip
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any, NamedTuple, cast

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow, one_line

MAX_LINE_BYTES = 1 << 20
MAX_REJECT_TEXT = 500

Cells = Sequence[Any]


class Reject(NamedTuple):
    """One malformed row.

    Args:
        line: line number in the file, the header being 1; for Parquet the row number.
        reason: why, from a small fixed set, so that reasons can be counted.
        text: the row, cut to `MAX_REJECT_TEXT` characters, on one line.
    """

    line: int
    reason: str
    text: str


@dataclass(frozen=True)
class Layout:
    """What a file's name does not say of it, and which part of it is read.

    Args:
        encoding: of text.
        delimiter: between the cells of CSV.
        strict_quotes: whether a stray quote of CSV is an error.
        longest: bytes of a line; a longer one is a bad row and never held whole.
        names: the columns, where what is read begins behind the header; None: it has one.
        row_group: the only one to read of a Parquet file.
    """

    encoding: str = "utf-8"
    delimiter: str = ","
    strict_quotes: bool = True
    longest: int = MAX_LINE_BYTES
    names: tuple[str, ...] | None = None
    row_group: int | None = None


class Table(ABC):
    """The rows of an open file, to be read once.

    Args:
        raw: its bytes.
        where: its name; `.gz` is unpacked.
        layout: what the name does not say.

    Attributes:
        lines: how many lines, or rows of Parquet, were read.
        row_groups: in how many parts Parquet was written, else 1.
    """

    names_in_rows = False

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        self.lines = 0
        self.row_groups = 1
        self._packed, self._where, self._layout = raw, where, layout
        self._file = unpacked(raw, where)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns; none if the file is empty."""
        if self._layout.names is not None:
            return self._layout.names
        number, raw = self._head()
        try:
            return tuple(map(fold, self._cells(raw))) if number else ()
        except BadRow as bad:
            raise self._error(number, bad) from None

    def share_read(self) -> float | None:
        """The share of the file that was read, from 0 to 1; None if unknown."""
        with suppress(OSError, ZeroDivisionError):  # a pipe, an empty file
            return self._packed.tell() / os.fstat(self._packed.fileno()).st_size
        return None

    def rows(
        self,
        columns: Sequence[str],
        optional: Sequence[str] = (),
        make: Callable[[Cells], Any] = tuple,
        *,
        strict: bool = True,
    ) -> Iterator[tuple[int, Any]]:
        """Numbered rows, checked.

        Args:
            columns: whose cells are wanted, in this order; the file has to have them.
            optional: further ones, whose cells are None where the file lacks the column.
            make: what becomes of a row's cells, which are text, or of JSON and Parquet any value;
                it raises `BadRow` if they will not do.
            strict: whether a bad row is an error; otherwise there is a `Reject` in its place.

        Raises:
            UserError: at once, a column is missing; while reading, the file is damaged, or a row
                is bad and `strict` holds.
        """
        if strict or not self.names_in_rows:
            self.check_names(columns, optional)
        return self._rows(self._picker((*columns, *optional)), make, strict)

    def _rows(
        self, pick: Callable[[Any], Cells], make: Callable[[Cells], Any], strict: bool
    ) -> Iterator[tuple[int, Any]]:
        for number, raw in self._raw():
            try:
                row = make(pick(raw))
            except BadRow as bad:
                if strict:
                    raise self._error(number, bad) from None
                yield number, reject(number, bad, self._shown(raw))
            else:
                yield number, row

    def check_names(self, columns: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Looks the columns up before anything is read.

        Raises:
            UserError: one of `columns` is missing, or one of either comes twice.
        """
        expected = ", ".join(map(repr, columns))
        if not self.names:
            raise UserError(f"{self._where} is empty; expected the columns {expected}.")
        missing = [name for name in columns if name not in self.names]
        if missing:
            received = ", ".join(map(repr, self.names))
            raise UserError(
                f"{self._where} has the columns {received[:500]}; expected {expected} "
                f"(missing: {', '.join(missing)})."
            )
        for name in (*columns, *optional):
            if self.names.count(name) > 1:
                raise UserError(f"{self._where} names the column {name!r} more than once.")

    def _error(self, number: int, bad: BadRow) -> UserError:
        return UserError(f"{self._where}:{number}: {bad.detail}.")

    @abstractmethod
    def _raw(self) -> Iterator[tuple[int, Any]]:
        """Numbered rows as the file has them, blank lines left out."""

    def _head(self) -> tuple[int, Any]:
        """The row that names the columns; number 0 if there is none."""
        return next(self._raw(), (0, None))

    @abstractmethod
    def _cells(self, raw: Any) -> Any:
        """All cells of a raw row; raises `BadRow`."""

    @abstractmethod
    def _picker(self, columns: Sequence[str]) -> Callable[[Any], Cells]:
        """A function from a raw row to the cells of the columns; it raises `BadRow`."""

    @abstractmethod
    def _shown(self, raw: Any) -> bytes | str:
        """A raw row as one may show it."""


def unpacked(raw: IO[bytes], where: str) -> IO[bytes]:
    """What a file holds: as it stands, or if it is called `.gz`, unpacked."""
    return cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if where.endswith(".gz") else raw


def fold(name: str) -> str:
    """The name of a column as it is compared: without case and outer white space."""
    return name.strip().lower()


def reject(number: int, reason: BadRow, text: bytes | str) -> Reject:
    """A `Reject` with its text decoded, cut and put on one line."""
    if isinstance(text, bytes):
        text = text[: 4 * MAX_REJECT_TEXT].decode("utf-8", "backslashreplace")
    text = text[:MAX_REJECT_TEXT].encode("utf-8", "backslashreplace").decode()
    return Reject(number, str(reason), one_line(text))
