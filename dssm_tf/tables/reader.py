"""Opens people's files by their names and reads them in blocks of columns, however large they are.

| name | a row is | columns are named by |
|---|---|---|
| `.tsv` | a line; tabs between, nothing quoted | the first line |
| `.csv` | a record; commas between, quoted as spreadsheets do | the first record |
| `.jsonl` | a JSON object a line | its keys |
| `.parquet` | a row | the schema |
| `.txt` | a line, blank ones too | nothing; it is one cell, `text` |

All but Parquet may be `.gz`. Columns are found by name, without case and outer white space: their
order is free, and further ones are ignored. Text is UTF-8; a byte order mark at the start is no
part of it, and blank lines are no rows.

A bad row is an error that names file and line; for who reads with `strict=False` it is a `Reject`
with a reason, so that a log of millions of rows may hold some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import identifier, text
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.lines import Columns, Objects, Table, TabSeparated, reading
from dssm_tf.tables.records import Parquet, Quoted

_TYPES: dict[str, type[Table]] = {
    "txt": Table,
    "tsv": TabSeparated,
    "csv": Quoted,
    "jsonl": Objects,
    "parquet": Parquet,
}
TABLES = [*_TYPES][1:]
_IDS = {"title": "doc_id", "query": "query_id"}
"""The column of ids beside one of texts."""


def format_of(path: Path | str, known: Sequence[str] = TABLES, otherwise: str | None = None) -> str:
    """The format that a file's name ends in.

    Args:
        path: the file.
        known: what it may be.
        otherwise: what any other name means; None: it is refused.

    Raises:
        UserError: the format is not known.
    """
    name = str(path)
    packed = name.endswith(".gz")
    found = name.removesuffix(".gz").rpartition(".")[2]
    if found in known and not (packed and found == "parquet"):
        return found
    if otherwise is None:
        raise UserError(
            f"{path} is of no known format; expected a name ending in "
            f"{', '.join(f'.{one}' for one in known)} (all but Parquet also .gz)."
        )
    return otherwise


@contextmanager
def open_table(
    path: Path | str,
    format: str = "",
    layout: Layout | None = None,
    raw: IO[bytes] | None = None,
) -> Iterator[Table]:
    """Opens a file of any format.

    Args:
        path: the file; `.gz` is unpacked.
        format: one of the module's table, if not that of the name.
        layout: what the name does not say.
        raw: its bytes, which are closed in the end; None: those of `path` on this machine.

    Raises:
        UserError: the file cannot be read, or is of no known format.
    """
    chosen = _TYPES[format or format_of(path)]
    with reading(str(path)):
        file = raw or Path(path).open("rb")  # noqa: SIM115
    with file:
        yield chosen(file, str(path), layout or Layout())


def read_rows(
    path: Path | str,
    columns: Columns,
    layout: Layout | None = None,
    format: str = "",
    expected: str = "",
) -> Iterator[tuple[int, Any]]:
    """The numbered rows of a whole file, as `Table.rows` has them; TSV if the name says nothing.

    Args:
        path: the file.
        columns: that it has to have.
        layout: what its name does not say.
        format: if not that of the name.
        expected: what a row is, if one there has to be.

    Raises:
        UserError: the file cannot be read, lacks a column, has a bad row or no row.
    """
    number = 0
    with open_table(path, format or format_of(path, otherwise="tsv"), layout) as table:
        for number, row in table.rows(columns):
            yield number, row
    if expected and not number:
        raise UserError(f"{path} has a header and no {expected}.")


class Text(NamedTuple):
    """A text and its id, None where the input has none."""

    text: str
    id: str | None = None


def read_texts(
    path: Path | str, side: str = "title", layout: Layout | None = None
) -> Iterator[Text]:
    """Reads texts; columns are looked up before the first of them is there.

    Args:
        path: a file of any format of `reader`.
        side: `title` or `query`: the column of texts; one that is alone may be called `text`.
        layout: what its name does not say.

    Raises:
        UserError: while reading, naming file and line: the file cannot be read, lacks a column or
            has a malformed row.
    """
    with open_table(path, format_of(path, [*_TYPES]), layout) as table:
        name = "text" if table.names == ("text",) else side
        ids = {_IDS[side]: identifier} if _IDS[side] in table.names else {}
        for _, cells in table.rows({name: text, **ids}):
            yield Text(*cells)
