"""The files of a publisher: found by name, and read row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.columns import Column, unchanged
from dssm_tf.tables.layout import Layout, reject
from dssm_tf.tables.read import Table, open_table
from dssm_tf.tables.tally import MAX_REJECTED, Tally

LINE = ("text",)
"""The only column of a text file: the line. Blank lines are skipped."""
MAX_LINE_BYTES = (1 << 31) - 1
"""Large, because a line may be a full document."""

NumberedRow = tuple[int, Any]
"""A line number and the cells of the row."""
_MAX_LISTED = 500  # characters of the file names in an error
_PROGRESS_ROWS = 1 << 12  # rows between two updates of the progress bar


class Source:
    """A directory as it was downloaded, or one file of it.

    `find` looks in the directory and two levels below it, for names with and without `.gz`.

    Args:
        path: the directory, or a file whose directory has the other files.
        progress: whether to show progress.
        encoding: encoding of the files, unless the adapter sets it.

    Attributes:
        rejected: number of rows left out, by reason and file.

    Raises:
        UserError: the path does not exist.
    """

    def __init__(self, path: Path, progress: bool = False, encoding: str = "utf-8") -> None:
        if not path.exists():
            raise UserError(
                f"{path} does not exist; give the directory with the publisher's files."
            )
        self.folder = path if path.is_dir() else path.parent
        self.rejected: Counter[str] = Counter()
        self._progress = progress
        self._encoding = encoding

    def find(self, *patterns: str) -> Path:
        """The file that matches one of the patterns; earlier patterns take precedence.

        Raises:
            UserError: no file or several files match.
        """
        matches = self.find_all(*patterns)
        if len(matches) != 1:
            names = sorted(path.name for path in matches or self._files())
            raise UserError(
                f"{self.folder} has {'several files for' if matches else 'no'} "
                f"{' or '.join(patterns)} (also .gz); expected one, found: "
                f"{', '.join(names)[:_MAX_LISTED] or 'no file'}."
            )
        return matches[0]

    def find_all(self, *patterns: str) -> list[Path]:
        """All files that match the first pattern with a match, sorted by path."""
        files = self._files()
        for pattern in patterns:
            matches = [path for path in files if Path(path.name.removesuffix(".gz")).match(pattern)]
            if matches:
                return sorted(matches)
        return []

    def _files(self) -> list[Path]:
        return [
            path
            for pattern in ("*", "*/*", "*/*/*")
            for path in self.folder.glob(pattern)
            if path.is_file() and not path.name.startswith(".")
        ]

    def read(
        self,
        path: Path,
        columns: Sequence[str | Column],
        process_row: Callable[..., object],
        *,
        format: str = "",
        header: bool = True,
        names: Sequence[str] = (),
        delimiter: str = ",",
        encoding: str = "",
        transform: Callable[[Iterable[NumberedRow]], Iterable[NumberedRow]] = iter,
    ) -> None:
        """Reads a file; rows that cannot be used are left out and counted.

        Args:
            path: the file.
            columns: columns to read: a `Column`, or a name for unchanged strings. Nested JSON
                values stay JSON. Columns that a JSON object lacks are None.
            process_row: called with the cells of each row; raises `BadRow` if the row is malformed.
            format: format of the file, see `open_table`; by default that of its name.
            header: whether the first row has the names of the columns; else `columns` are all
                columns of the file.
            names: names of all columns, if the first row does not have them.
            delimiter: character between the cells of CSV.
            encoding: encoding of the file; by default that of the source.
            transform: converts the numbered rows of the file to other numbered rows.

        Raises:
            UserError: the file cannot be read, a column is missing, or too many rows are
                malformed, see `Tally`.
        """
        names = names or (() if header else tuple(map(str, columns)))
        layout = Layout(
            encoding or self._encoding,
            delimiter=delimiter,
            strict_quotes=False,  # quotes of published files are not always balanced
            max_line_bytes=MAX_LINE_BYTES,
            names=tuple(names) or None,
        )
        tally, name = Tally(), str(path)
        columns_to_read = [
            unchanged(column) if isinstance(column, str) else column for column in columns
        ]

        def rows(table: Table) -> Iterator[NumberedRow]:
            for frame, rejects in table.scan(columns_to_read, strict=False):
                tally.reject(name, rejects)
                self.rejected.update(f"{row.reason}, in {path.name}" for row in rejects)
                for *cells, line in frame.iter_rows():
                    if any(cells):
                        yield line, cells

        with (
            progress_of(path.name, None, self._progress, "rows") as task,
            open_table(path, format, layout) as table,
        ):
            for line, cells in transform(rows(table)):
                try:
                    process_row(*cells)
                    tally.add(rows=1, clicks=1, most_clicks=1)
                except BadRow as bad:
                    tally.reject(name, [reject(line, bad, bad.detail)])
                    self.rejected[f"{bad}, in {path.name}"] += 1
                if tally.rows % _PROGRESS_ROWS == 0:
                    task.update(tally.rows)
        tally.check_reject_fraction(MAX_REJECTED)
