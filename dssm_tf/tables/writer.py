"""Writes tables and lines atomically; compressed if the name ends in `.gz`."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from dssm_tf.common.files import atomic_write
from dssm_tf.tables.cells import one_line


def write_table(path: Path | str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Writes TSV; tabs and line ends within a cell become spaces."""
    write_lines(path, ("\t".join(map(one_line, row)) for row in chain([columns], rows)))


def write_lines(path: Path | str, lines: Iterable[str]) -> None:
    """Writes lines of UTF-8."""
    data = (f"{line}\n".encode() for line in lines)
    with atomic_write(path, "wb") as file:
        if str(path).endswith(".gz"):
            # No timestamp and no name, so equal content gives equal bytes.
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as gzip_file:
                gzip_file.writelines(data)
        else:
            file.writelines(data)
