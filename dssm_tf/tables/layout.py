"""How a file of rows is laid out, and what a malformed row is; light, for command lines."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow, one_line

TITLE = "title"
COLUMNS = (
    "query", TITLE, "clicks", "impressions", "position", "session_id", "timestamp", "query_id",
    "doc_id", "grade",
)  # fmt: skip
"""What columns of logs, corpora and judgments are called, unless `--columns` says otherwise."""
MAX_LINE_BYTES = 1 << 20
_MAX_REJECT_TEXT = 500


class Reject(NamedTuple):
    """One malformed row.

    Args:
        line: line number in the file, the header being 1; for Parquet the row number.
        reason: why, from a small fixed set, so that reasons can be counted.
        text: the row, cut to 500 characters, on one line.
        clicks: what is lost with it, as far as anybody can tell.
    """

    line: int
    reason: str
    text: str
    clicks: int = 1


@dataclass(frozen=True)
class Layout:
    """What a file's name does not say of it, and which part of it is read.

    Args:
        encoding: of text, any that Python knows.
        title_fields: the columns that stand for the column `title`, joined as `join_fields` does.
        columns: what the file calls columns, as `(name, name in the file)`, see `parse_columns`.
        delimiter: between the cells of CSV.
        strict_quotes: whether a stray quote of CSV is an error.
        longest: bytes of a line; a longer one is a bad row and never held whole.
        names: the columns, where what is read begins behind the header; None: it has one.

    Raises:
        UserError: there is no such encoding.
    """

    encoding: str = "utf-8"
    title_fields: tuple[str, ...] = (TITLE,)
    columns: tuple[tuple[str, str], ...] = ()
    delimiter: str = ","
    strict_quotes: bool = True
    longest: int = MAX_LINE_BYTES
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        try:
            "a".encode(self.encoding)
        except (LookupError, UnicodeError, ValueError):
            raise UserError(
                f"--encoding is {self.encoding!r}, which is no encoding of text; expected one such "
                "as utf-8, cp1252, latin-1, utf-16 or gb18030."
            ) from None

    def name(self, written: str) -> str:
        """The name of a column by what the file calls it, without case and outer white space."""
        found = fold(written)
        for name, theirs in self.columns:
            if theirs == found:
                return name
        return f"{found} (unused)" if found in dict(self.columns) else found

    @property
    def is_utf8(self) -> bool:
        """Whether files can be read, and cut at the ends of lines, without decoding them."""
        return codecs.lookup(self.encoding).name == "utf-8"


def fold(name: str) -> str:
    """The name of a column as it is compared: without case and outer white space."""
    return name.strip().lower()


def parse_columns(pairs: str) -> tuple[tuple[str, str], ...]:
    """The columns that `--columns` names.

    >>> parse_columns("query=Search_Term, title=product_title")
    (('query', 'search_term'), ('title', 'product_title'))

    Raises:
        UserError: it is not pairs of names of `COLUMNS` and of the file.
    """
    cut = [pair.partition("=") for pair in pairs.split(",") if pairs]
    found = tuple((fold(name), fold(theirs)) for name, _, theirs in cut)
    names, theirs = {name for name, _ in found}, {column for _, column in found}
    if not names <= {*COLUMNS} or "" in theirs or len(names) + len(theirs) < 2 * len(found):
        raise UserError(
            f"--columns is {pairs!r}; expected pairs such as query=search_term,title=product, "
            f"with the names {', '.join(COLUMNS)}, each once."
        )
    return found


def spread(columns: Sequence[str], fields: Sequence[str]) -> list[str]:
    """Columns with those that a title is made of in place of `title`.

    >>> spread(("query", "title", "clicks"), ("name", "brand"))
    ['query', 'name', 'brand', 'clicks']
    """
    return [one for name in columns for one in (fields if name == TITLE else (name,))]


def reject(number: int, reason: BadRow, row: Any, clicks: int = 1) -> Reject:
    """A `Reject` with its row, bytes or text or cells by name, cut and put on one line."""
    text = json.dumps(row, default=str, ensure_ascii=False) if isinstance(row, dict) else row
    if isinstance(text, bytes):
        text = text[: 4 * _MAX_REJECT_TEXT].decode("utf-8", "backslashreplace")
    text = text[:_MAX_REJECT_TEXT].encode("utf-8", "backslashreplace").decode()
    return Reject(number, str(reason), one_line(text), clicks)
