"""The files a publisher gives: found by name, read in a stream, checked column by column."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import Task, progress_of
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.layout import Layout, Reject, reject
from dssm_tf.tables.reader import as_object, open_table, parse_json, reading, unpacked
from dssm_tf.tables.tally import MAX_REJECTED, Tally

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 12
_MB = 1e6
_LONGEST = (1 << 31) - 1  # bytes of a line: whole documents, whole files of JSON
_LONGEST_CELL = 1 << 24
T = TypeVar("T")


class Source:
    """A directory as it was downloaded, or one file of it.

    Files are looked for in the directory and two levels below it, with and without `.gz`. A row
    that is malformed is left out and counted; a file of which too much is malformed is refused when
    it has been read, see `Tally`.

    Args:
        path: the directory, or a file whose directory holds the others.
        console: where to show progress; None shows none.
        encoding: of files of which the adapter does not know better.

    Attributes:
        rejected: rows left out, by reason and file.

    Raises:
        UserError: the path does not exist.
    """

    def __init__(self, path: Path, console: Console | None = None, encoding: str = "utf-8") -> None:
        if not path.exists():
            raise UserError(
                f"{path} does not exist; give the directory with the publisher's files."
            )
        self.folder = path if path.is_dir() else path.parent
        self.rejected: Counter[str] = Counter()
        self._console = console
        self._encoding = encoding
        self._tallies: dict[Path, Tally] = {}

    def find(self, *patterns: str) -> Path:
        """The file of one of the names, the first pattern first.

        Raises:
            UserError: there is none, or several for one pattern.
        """
        found = self.find_all(*patterns)
        if not found:
            there = sorted(path.name for path in self._files())
            shown = ", ".join(there[:_SHOWN]) or "no file"
            more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
            raise UserError(
                f"{self.folder} has no {' or '.join(patterns)} (also .gz); found: {shown}{more}."
            )
        if len(found) > 1:
            raise UserError(
                f"{self.folder} has several files for {' or '.join(patterns)}: "
                f"{', '.join(path.name for path in found[:_SHOWN])}; leave one of them."
            )
        return found[0]

    def find_if_there(self, *patterns: str) -> Path | None:
        """As `find`, but None where there is none."""
        return self.find(*patterns) if self.find_all(*patterns) else None

    def find_all(self, *patterns: str) -> list[Path]:
        """All files of the first pattern that any file has, by name."""
        files = self._files()
        for pattern in patterns:
            found = [path for path in files if Path(path.name.removesuffix(".gz")).match(pattern)]
            if found:
                return sorted(found)
        return []

    def _files(self) -> list[Path]:
        return [
            path
            for pattern in ("*", "*/*", "*/*/*")
            for path in self.folder.glob(pattern)
            if path.is_file() and not path.name.startswith(".")
        ]

    def lines(self, path: Path, encoding: str = "") -> Iterator[tuple[int, str]]:
        """Numbered lines without their ends, blank ones left out.

        Raises:
            UserError: the file cannot be read, or too much of it not decoded.
        """
        layout = Layout(encoding or self._encoding)
        for number, (line,) in self.table(path, ("text",), layout, "txt"):
            if line.strip():
                yield number, line

    def cells(self, path: Path, names: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """Numbered rows of a table without header or quoting, tabs between.

        Args:
            path: the table.
            names: what its columns are, for messages; further columns are left out.

        Raises:
            UserError: too many rows are too short.
        """
        for number, line in self.lines(path):
            row = line.split("\t")
            if len(row) >= len(names):
                yield number, row[: len(names)]
                continue
            with self.checked(path, number):
                raise BadRow(
                    "wrong column count",
                    f"{len(row)} columns; expected {len(names)}, tabs between: {', '.join(names)}",
                )

    def table(
        self,
        path: Path,
        columns: Sequence[str],
        layout: Layout | None = None,
        format: str = "",
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        """Numbered rows of a table that names its columns.

        Args:
            path: the table.
            columns: which to yield, in that order.
            layout: how it differs from what its name says.
            format: if not that of its name.

        Raises:
            UserError: a column is missing, or too many rows are malformed.
        """
        # Publishers' quotes are not always whole.
        layout = replace(layout or Layout(self._encoding), strict_quotes=False, longest=_LONGEST)
        tally = self._tallies[path] = Tally()
        with (
            self._watched(path) as raw,
            open_table(path, format, layout, raw) as table,
            _long_cells(),
        ):
            for number, row in table.rows(columns, strict=False):
                if isinstance(row, Reject):
                    self._reject(path, tally, row)
                else:
                    tally.accept()
                    yield number, row
        tally.refuse(MAX_REJECTED)

    @contextmanager
    def checked(self, path: Path, number: int) -> Iterator[None]:
        """A `BadRow` that is raised inside makes a malformed row of one that was read."""
        try:
            yield
        except BadRow as bad:
            tally = self._tallies[path]
            tally.rows, tally.clicks = tally.rows - 1, tally.clicks - 1
            self._reject(path, tally, reject(number, bad, bad.detail))

    def counted(self, path: Path, parts: Iterable[tuple[int, T]]) -> Iterator[tuple[int, T]]:
        """Numbered parts of a file that are no lines of it, to be counted instead of lines.

        Raises:
            UserError: too many are malformed.
        """
        tally = Tally()
        for number, part in parts:
            self._tallies[path] = tally
            tally.accept()
            yield number, part
        tally.refuse(MAX_REJECTED)

    def _reject(self, path: Path, tally: Tally, row: Reject) -> None:
        tally.reject(str(path), row)
        self.rejected[f"{row.reason}, in {path.name}"] += 1

    def objects(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        """JSON objects: one a line, or a whole file that is one array, held in memory.

        Raises:
            UserError: an array is not JSON, or too much else is no JSON object.
        """
        lines = self.lines(path)
        for number, line in lines:
            if number == 1 and line.lstrip().startswith("["):
                yield from self._elements(path, "\n".join([line, *(rest for _, rest in lines)]))
                return
            with self.checked(path, number):
                yield number, as_object(parse_json(line))

    def _elements(self, path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """The objects of an array, which count as rows of the file."""
        try:
            values = parse_json(text)
        except BadRow as bad:
            raise UserError(f"{path}: {bad.detail}.") from None
        for place, value in self.counted(path, enumerate(values, start=1)):
            with self.checked(path, place):
                yield place, as_object(value)

    @contextmanager
    def open(self, path: Path) -> Iterator[IO[bytes]]:
        """Opens a file, unpacked if it is `.gz`, under a progress bar.

        Raises:
            UserError: it cannot be read, or is damaged.
        """
        with self._watched(path) as raw, reading(str(path)):
            yield unpacked(raw, str(path))

    @contextmanager
    def _watched(self, path: Path) -> Iterator[IO[bytes]]:
        """The bytes of a file, under a progress bar."""
        with progress_of(path.name, path.stat().st_size / _MB, self._console, "MB") as task:
            with reading(str(path)):
                raw = io.BufferedReader(_Watched(path, task), 1 << 20)
            with raw:
                yield raw


class _Watched(io.FileIO):
    """A file that tells a task how much of it is read."""

    def __init__(self, path: Path, task: Task) -> None:
        super().__init__(path)
        self._task = task

    def readinto(self, buffer: Any) -> int:
        read = super().readinto(buffer)
        self._task.update(self.tell() / _MB)
        return read


@contextmanager
def _long_cells() -> Iterator[None]:
    """Lets the process's CSV readers take long cells, as descriptions of products are."""
    usual = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(usual)
