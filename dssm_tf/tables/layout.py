"""`Layout`, the encoding and columns of a file, and `Reject`, a malformed row; imports little."""

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
    "doc_id", "grade", "list_id", "team",
)  # fmt: skip
"""Names of the columns of users' tables, unless `--columns` renames them."""
MAX_LINE_BYTES = 1 << 20
_MAX_REJECT_TEXT = 500


@dataclass(frozen=True, slots=True)
class Reject:
    """One malformed row.

    Args:
        line: line number in the file, from 1 for the header; for Parquet the row number.
        reason: one of a small fixed set, so that reasons can be counted.
        text: the row on one line, truncated to 500 characters.
        clicks: clicks of the row; None if they cannot be read.
        detail: the reason with the received and the expected value.
    """

    line: int
    reason: str
    text: str
    clicks: int | None = 1
    detail: str = field(default="", compare=False)


@dataclass(frozen=True)
class Layout:
    """Properties of a file that its name does not determine: encoding, columns, quotes.

    Args:
        encoding: any text encoding of Python.
        title_fields: columns that `join_fields` joins to the column `title`.
        columns: pairs `(name, name in the file)`, see `parse_columns`.
        corpus_columns: the same for a corpus; if empty, `columns`.
        shared_columns: whether `columns` are also those of a corpus or of judgments; a log may then
            lack the `doc_id` that they name.
        delimiter: character between the cells of CSV.
        strict_quotes: whether a stray quote in CSV is an error.
        max_line_bytes: maximum bytes of a line; a longer line is a bad row, and memory never holds
            all of it.
        names: names of the columns, if the data has no header; None if it has one.

    Raises:
        UserError: the encoding does not exist.
    """

    encoding: str = "utf-8"
    title_fields: tuple[str, ...] = (TITLE,)
    columns: tuple[tuple[str, str], ...] = ()
    corpus_columns: tuple[tuple[str, str], ...] = ()
    shared_columns: bool = False
    delimiter: str = ","
    strict_quotes: bool = True
    max_line_bytes: int = MAX_LINE_BYTES
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        try:
            "a".encode(self.encoding)
        except (LookupError, UnicodeError, ValueError):
            raise UserError(
                f"--encoding is {self.encoding!r}, which is not a text encoding; expected one such "
                "as utf-8, cp1252, latin-1, utf-16 or gb18030."
            ) from None

    @property
    def corpus(self) -> Layout:
        """The layout of a corpus that belongs to a log or judgments with this layout."""
        columns = self.corpus_columns or self.columns
        return replace(self, columns=columns, corpus_columns=(), shared_columns=False)

    def of_log(self, corpus: object, judgments: object = None) -> Layout:
        """The layout of a log that is read together with a corpus and judgments, if given."""
        shared = bool(judgments or (corpus and not self.corpus_columns))
        return replace(self, shared_columns=shared)

    @property
    def required_by_columns(self) -> frozenset[str]:
        """The columns that a file must have because `columns` names them."""
        return frozenset(dict(self.columns)) - ({"doc_id"} if self.shared_columns else set())

    def name(self, name_in_file: str) -> str:
        """The name of a column by its name in the file, ignoring case and outer white space."""
        column = normalize_name(name_in_file)
        for name, in_file in self.columns:
            if in_file == column:
                return name
        return f"{column} (unused)" if column in dict(self.columns) else column

    def name_in_file(self, name: str) -> str:
        """The name of a column in the file."""
        return dict(self.columns).get(name, name)

    @property
    def is_utf8(self) -> bool:
        """Whether files can be split at line ends without decoding them."""
        return codecs.lookup(self.encoding).name == "utf-8"


def normalize_name(name: str) -> str:
    """The name of a column in lower case, without outer white space, for comparisons."""
    return name.strip().lower()


def parse_columns(pairs: str, flag: str = "--columns") -> tuple[tuple[str, str], ...]:
    """Parses the value of `--columns` or `--corpus-columns`.

    >>> parse_columns("query=Search_Term, title=product_title")
    (('query', 'search_term'), ('title', 'product_title'))

    Raises:
        UserError: the value is not a list of pairs of a name in `COLUMNS` and a name in the file.
    """
    split_pairs = [pair.partition("=") for pair in pairs.split(",") if pairs]
    columns = tuple(
        (normalize_name(name), normalize_name(in_file)) for name, _, in_file in split_pairs
    )
    names, in_files = {name for name, _ in columns}, {column for _, column in columns}
    if not names <= {*COLUMNS} or "" in in_files or len(names) + len(in_files) < 2 * len(columns):
        raise UserError(
            f"{flag} is {pairs!r}; expected pairs such as query=search_term,title=product, "
            f"with the names {', '.join(COLUMNS)}, each once."
        )
    return columns


def expand_title_fields(columns: Sequence[str], fields: Sequence[str]) -> list[str]:
    """Replaces the column `title` by the columns of its fields.

    >>> expand_title_fields(("query", "title", "clicks"), ("name", "brand"))
    ['query', 'name', 'brand', 'clicks']
    """
    return [column for name in columns for column in (fields if name == TITLE else (name,))]


def reject(
    line: int, reason: BadRow, row: str | bytes | Mapping[str, object], clicks: int | None = 1
) -> Reject:
    """Creates a `Reject`; its row (bytes, text or cells by name) becomes one short line."""
    if isinstance(row, bytes):
        text = row[: 4 * _MAX_REJECT_TEXT].decode("utf-8", "backslashreplace")
    else:
        text = row if isinstance(row, str) else json.dumps(row, default=str, ensure_ascii=False)
    text = text[:_MAX_REJECT_TEXT].encode("utf-8", "backslashreplace").decode()
    return Reject(line, str(reason), one_line(text), clicks, reason.detail)
