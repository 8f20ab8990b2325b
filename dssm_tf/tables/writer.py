"""Writes tables and lines, whole or not at all, packed if the name says so."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from dssm_tf.common.files import atomic_write
from dssm_tf.tables.cells import one_line
from dssm_tf.tables.title_fields import TITLE, apart, spread


def write_table(
    path: Path | str,
    columns: Sequence[str],
    rows: Iterable[Iterable[str]],
    title_fields: Sequence[str] = (TITLE,),
) -> None:
    """Writes TSV; tabs and line ends within a cell become spaces.

    Args:
        path: of the table.
        columns: of the rows.
        rows: cells, a title of several fields as one.
        title_fields: columns that stand for the column `title`, as they did when it was read.
    """
    if len(title_fields) > 1:
        rows = apart(rows, columns.index(TITLE), len(title_fields))
    columns = spread(columns, title_fields)
    write_lines(path, ("\t".join(map(one_line, row)) for row in chain([columns], rows)))


def write_lines(path: Path | str, lines: Iterable[str]) -> None:
    """Writes lines of UTF-8."""
    with atomic_write(path, "wb") as file:
        if str(path).endswith(".gz"):
            # No time stamp and no name, so equal content gives equal bytes.
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                packed.writelines(f"{line}\n".encode() for line in lines)
        else:
            file.writelines(f"{line}\n".encode() for line in lines)
