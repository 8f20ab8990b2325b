"""The files a publisher gives: found by name, read in a stream, checked column by column."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import Task, progress_of

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 12
_PARQUET_ROWS = 16_384
_MB = 1_000_000


class Source:
    """A directory as it was downloaded, or one file of it.

    Files are looked for in the directory and two levels below it, with and without `.gz`.

    Args:
        path: the directory, or a file whose directory holds the others.
        console: where to show progress; None shows none.

    Raises:
        UserError: the path does not exist.
    """

    def __init__(self, path: Path, console: Console | None = None) -> None:
        if not path.exists():
            raise UserError(
                f"{path} does not exist; give the directory with the publisher's files."
            )
        self.folder = path if path.is_dir() else path.parent
        self._console = console

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

    def lines(self, path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
        """Numbered lines without their ends, blank ones left out.

        Raises:
            UserError: naming file and line; the file cannot be read or decoded.
        """
        with self.open(path) as file:
            for number, raw in enumerate(file, start=1):
                try:
                    line = raw.decode(encoding).rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise UserError(f"{path}:{number}: not {encoding} ({error.reason}).") from error
                if line.strip():
                    yield number, line

    def cells(self, path: Path, names: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """Numbered rows of a table without header or quoting, tabs between.

        Args:
            path: the table.
            names: what its columns are, for messages; further columns are left out.

        Raises:
            UserError: naming file and line; a row is too short.
        """
        for number, line in self.lines(path):
            row = line.split("\t")
            if len(row) < len(names):
                raise UserError(
                    f"{path}:{number}: {len(row)} columns; expected {len(names)}, tabs between: "
                    f"{', '.join(names)}."
                )
            yield number, row[: len(names)]

    def table(
        self,
        path: Path,
        columns: Sequence[str],
        delimiter: str = ",",
        encoding: str = "utf-8",
    ) -> Iterator[tuple[int, list[str]]]:
        """Numbered rows of a table with a header, quoted as spreadsheets do.

        Args:
            path: the table.
            columns: which to yield, in that order.
            delimiter: between columns.
            encoding: of the file.

        Raises:
            UserError: naming file and line; a column is missing, or a row is malformed.
        """
        with self.open(path) as file, _long_fields():
            # newline="": line ends inside quotes belong to the cell.
            text = io.TextIOWrapper(file, encoding, newline="")
            reader = csv.reader(text, delimiter=delimiter)
            try:
                header = [name.strip().removeprefix("\ufeff") for name in next(reader, [])]
                missing = [name for name in columns if name not in header]
                if missing:
                    raise UserError(
                        f"{path} has the columns {', '.join(header) or 'none'}; expected "
                        f"{', '.join(columns)} (missing: {', '.join(missing)})."
                    )
                places = [header.index(name) for name in columns]
                for row in reader:
                    if not row:
                        continue
                    if len(row) != len(header):
                        raise UserError(
                            f"{path}:{reader.line_num}: {len(row)} columns; the header has "
                            f"{len(header)}."
                        )
                    yield reader.line_num, [row[place] for place in places]
            except UnicodeDecodeError as error:
                raise UserError(f"{path} is not {encoding}: {error.reason}.") from error
            except csv.Error as error:
                raise UserError(f"{path}:{reader.line_num}: {error}.") from error

    def parquet(self, path: Path, columns: Sequence[str]) -> Iterator[list[Any]]:
        """Rows of a Parquet file, some thousands in memory at a time.

        Raises:
            UserError: the file is no Parquet, or a column is missing.
        """
        import pyarrow
        import pyarrow.parquet

        with self.open(path) as raw:
            try:
                file = pyarrow.parquet.ParquetFile(raw)
                names = file.schema_arrow.names
                missing = [name for name in columns if name not in names]
                if missing:
                    raise UserError(
                        f"{path} has the columns {', '.join(names)}; expected "
                        f"{', '.join(columns)} (missing: {', '.join(missing)})."
                    )
                for batch in file.iter_batches(_PARQUET_ROWS, columns=list(columns)):
                    lists = [batch.column(name).to_pylist() for name in columns]
                    yield from map(list, zip(*lists, strict=True))
            except pyarrow.ArrowException as error:
                reason = str(error).split("\n")[0]
                raise UserError(f"{path} is not a whole Parquet file: {reason}.") from error

    def objects(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        """JSON objects: one a line, or a whole file that is one array, held in memory.

        Raises:
            UserError: naming file and line; something is no JSON object.
        """
        lines = self.lines(path)
        for number, line in lines:
            if number == 1 and line.lstrip().startswith("["):
                text = "\n".join([line, *(rest for _, rest in lines)])
                values = _json(text, f"{path}")
                for place, value in enumerate(values, start=1):
                    yield place, _object(value, f"{path}, element {place}")
                return
            yield number, _object(_json(line, f"{path}:{number}"), f"{path}:{number}")

    @contextmanager
    def open(self, path: Path) -> Iterator[IO[bytes]]:
        """Opens a file, unpacked if it is `.gz`, under a progress bar.

        Raises:
            UserError: it cannot be read, or is damaged.
        """
        try:
            size = path.stat().st_size / _MB
            with (
                path.open("rb") as raw,
                progress_of(path.name, size, self._console, "MB") as task,
            ):
                watched = _Watched(raw, task)
                if path.suffix == ".gz":
                    with gzip.open(watched) as unpacked:
                        yield unpacked  # type: ignore[misc]
                else:
                    yield io.BufferedReader(watched, 1 << 16)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{path} is not a whole gzip file: {error}.") from error
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error


class _Watched(io.RawIOBase):
    """A file that tells a task how much of it is read."""

    def __init__(self, file: IO[bytes], task: Task) -> None:
        self._file = file
        self._task = task

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        read: int = self._file.readinto(buffer)  # type: ignore[attr-defined]
        self._task.update(self._file.tell() / _MB)
        return read


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON: {error}.") from error


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{where}: a {type(value).__name__}; expected a JSON object.")
    return value


@contextmanager
def _long_fields() -> Iterator[None]:
    """Lets the process's CSV readers take long fields, as descriptions of products are."""
    usual = csv.field_size_limit(1 << 27)
    try:
        yield
    finally:
        csv.field_size_limit(usual)
