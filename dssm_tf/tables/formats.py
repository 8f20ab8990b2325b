"""Formats of files: each becomes batches of columns of strings.

| name | a row is | columns are named by |
|---|---|---|
| `.tsv` | a line; cells separated by tabs, without quotes | the first line |
| `.csv` | a record; cells separated by commas, with quotes as in spreadsheets | the first record |
| `.jsonl`, `.ndjson` | a line with a JSON object | its keys |
| `.parquet` | a row | the schema |
| `.txt` | a line, including blank ones | nothing; the only column is `text` |
| `.trec` | a line; cells separated by white space | the caller |

All but Parquet may be `.gz`. Endings are case-insensitive.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO

from dssm_tf.common.errors import UserError
from dssm_tf.tables.batches import Batch, Contents, decode_line
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.columns import Column
from dssm_tf.tables.delimited import read_lines, read_trec_lines
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.lines import LineBlock, Lines
from dssm_tf.tables.objects import open_objects
from dssm_tf.tables.parquet import open_parquet
from dssm_tf.tables.quoted import read_csv

FORMATS = ("txt", "tsv", "csv", "jsonl", "parquet", "trec")
TABLES = ("tsv", "csv", "jsonl", "parquet")
"""Formats that name their columns."""
TEXTS = ("txt", *TABLES)
"""Formats of lists of texts."""
_SYNONYMS = {"ndjson": "jsonl"}


def format_of(path: Path | str, known: Sequence[str] = TABLES, otherwise: str | None = None) -> str:
    """The format of a file, by the end of its name.

    Args:
        path: path of the file.
        known: allowed formats.
        otherwise: the result for other names; with None they raise UserError.

    Raises:
        UserError: the format is not known.
    """
    name = str(path).lower()
    is_gzip = name.endswith(".gz")
    ending = name.removesuffix(".gz").rpartition(".")[2]
    format = _SYNONYMS.get(ending, ending)
    if format in known and not (is_gzip and format == "parquet"):
        return format
    if otherwise is None:
        endings = [*known, *(synonym for synonym, format in _SYNONYMS.items() if format in known)]
        raise UserError(
            f"{path} has an unknown format; expected a name ending in "
            f"{', '.join(f'.{ending}' for ending in endings)} (all but Parquet also .gz)."
        )
    return otherwise


def open_contents(file: IO[bytes], where: str, format: str, layout: Layout) -> Contents:
    """Opens a file and reads the names of its columns.

    Args:
        file: its bytes.
        where: its name, for messages.
        format: one of `FORMATS`.
        layout: encoding, column names and other properties of the file.

    Raises:
        UserError: the file cannot be read.
    """
    if format == "parquet":
        return open_parquet(file, where, layout)
    lines = Lines(file, where, layout)
    if format == "jsonl":
        return open_objects(lines, layout, where)
    if format == "txt":
        names = layout.names or ("text",)
        return _text_contents(lines, names, names, partial(read_lines, separator=None), layout)
    if format == "trec":
        names = layout.names or ()
        return _text_contents(lines, names, names, read_trec_lines, layout)
    header = layout.names or _header(lines, layout, where, format)
    names = layout.names or tuple(map(layout.name, header))
    if format == "tsv":
        read_block = partial(read_lines, separator="\t")
        return _text_contents(lines, names, header, read_block, layout)
    return Contents(
        names,
        header,
        lambda columns: read_csv(lines, layout, names, columns),
        lambda: lines.count,
        lambda: lines.splittable,
    )


def _text_contents(
    lines: Lines,
    names: tuple[str, ...],
    names_in_file: tuple[str, ...],
    read_block: Callable[[LineBlock, Layout, Sequence[str], Sequence[Column]], Batch],
    layout: Layout,
) -> Contents:
    """The contents of a file of lines, which `read_block` reads block by block."""
    return Contents(
        names,
        names_in_file,
        lambda columns: (read_block(block, layout, names, columns) for block in lines),
        lambda: lines.count,
        lambda: lines.splittable,
    )


def _header(lines: Lines, layout: Layout, where: str, format: str) -> tuple[str, ...]:
    """The names of columns in the first row that is not blank."""
    while line := lines.next_line():
        number, data = line
        try:
            text = decode_line(data, layout)
            if not text.strip():
                continue
            if format == "tsv":
                return tuple(text.split("\t"))
            next_lines = (decode_line(data, layout) for _, data in iter(lines.next_line, None))
            texts = (f"{row}\n" for row in chain([text], next_lines))
            reader = csv.reader(texts, delimiter=layout.delimiter, strict=layout.strict_quotes)
            return tuple(next(reader))
        except BadRow as bad:
            raise UserError(f"{where}:{number}: {bad.detail}.") from None
        except csv.Error as error:
            raise UserError(f"{where}:{number}: not CSV: {error}.") from None
    return ()
