"""How a file of rows is laid out, and what a rejected row is; light, for command lines."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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


@dataclass(frozen=True, slots=True)
class Reject:
    """One malformed row.

    Args:
        line: line number in the file, the header being 1; for Parquet the row number.
        reason: why, from a small fixed set, so that reasons can be counted.
        text: the row, cut to 500 characters, on one line.
        clicks: clicks of the row; None if they cannot be read.
        detail: the reason with what was received and expected.
    """

    line: int
    reason: str
    text: str
    clicks: int | None = 1
    detail: str = field(default="", compare=False)


@dataclass(frozen=True)
class Layout:
    """What a file's name does not say of it, and which part of it is read.

    Args:
        encoding: of text, any that Python knows.
        title_fields: the columns that stand for the column `title`, joined as `join_fields` does.
        columns: what the file calls columns, as `(name, name in the file)`, see `parse_columns`.
        corpus_columns: what a corpus calls them, if not as in `columns`.
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
    corpus_columns: tuple[tuple[str, str], ...] = ()
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

    @property
    def corpus(self) -> Layout:
        """The layout of a corpus beside a log or judgments of this one."""
        columns = self.corpus_columns or self.columns
        return replace(self, columns=columns, corpus_columns=())

    def name(self, written: str) -> str:
        """The name of a column by what the file calls it, without case and outer white space."""
        column = fold(written)
        for name, in_file in self.columns:
            if in_file == column:
                return name
        return f"{column} (unused)" if column in dict(self.columns) else column

    def name_in_file(self, name: str) -> str:
        """What the file calls a column."""
        return dict(self.columns).get(name, name)

    @property
    def is_utf8(self) -> bool:
        """Whether files can be read, and cut at the ends of lines, without decoding them."""
        return codecs.lookup(self.encoding).name == "utf-8"


def fold(name: str) -> str:
    """The name of a column as it is compared: without case and outer white space."""
    return name.strip().lower()


def parse_columns(pairs: str, flag: str = "--columns") -> tuple[tuple[str, str], ...]:
    """The columns that `--columns` or `--corpus-columns` names.

    >>> parse_columns("query=Search_Term, title=product_title")
    (('query', 'search_term'), ('title', 'product_title'))

    Raises:
        UserError: it is not pairs of names of `COLUMNS` and of the file.
    """
    cut = [pair.partition("=") for pair in pairs.split(",") if pairs]
    columns = tuple((fold(name), fold(in_file)) for name, _, in_file in cut)
    names, in_files = {name for name, _ in columns}, {column for _, column in columns}
    if not names <= {*COLUMNS} or "" in in_files or len(names) + len(in_files) < 2 * len(columns):
        raise UserError(
            f"{flag} is {pairs!r}; expected pairs such as query=search_term,title=product, "
            f"with the names {', '.join(COLUMNS)}, each once."
        )
    return columns


def expand_title_fields(columns: Sequence[str], fields: Sequence[str]) -> list[str]:
    """Columns with those that a title is made of in place of `title`.

    >>> expand_title_fields(("query", "title", "clicks"), ("name", "brand"))
    ['query', 'name', 'brand', 'clicks']
    """
    return [column for name in columns for column in (fields if name == TITLE else (name,))]


def reject(
    line: int, reason: BadRow, row: str | bytes | Mapping[str, object], clicks: int | None = 1
) -> Reject:
    """A `Reject` with its row, bytes or text or cells by name, cut and put on one line."""
    if isinstance(row, bytes):
        text = row[: 4 * _MAX_REJECT_TEXT].decode("utf-8", "backslashreplace")
    else:
        text = row if isinstance(row, str) else json.dumps(row, default=str, ensure_ascii=False)
    text = text[:_MAX_REJECT_TEXT].encode("utf-8", "backslashreplace").decode()
    return Reject(line, str(reason), one_line(text), clicks, reason.detail)
