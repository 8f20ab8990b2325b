"""Click logs as files: TSV, CSV, JSONL or Parquet rows, each checked, each bad one with a reason.

A log has a header with `query` and `title`, and optionally `clicks` (default 1), `impressions`,
`session_id`, `doc_id`, `timestamp` and `position`, in any order; other columns are ignored. In TSV
nothing is quoted: a tab separates, a line end ends. In CSV a quoted field may hold commas and
line ends. Blank lines are no rows.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write

REQUIRED = ("query", "title")
OPTIONAL = ("clicks", "impressions", "session_id", "doc_id", "timestamp", "position")
FORMATS = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}
MAX_COUNT = 1 << 40
MAX_LINE_BYTES = 1 << 20
MAX_REJECT_TEXT = 500


class LogRow(NamedTuple):
    """One good row of a log.

    Args:
        query: as logged, white space at the ends and line breaks removed.
        title: the same.
        clicks: clicks the row stands for; 0 for an impression without a click.
        impressions: how often the title was shown.
        session: the session's name, empty where the log has none.
    """

    query: str
    title: str
    clicks: int = 1
    impressions: int = 0
    session: str = ""


class Reject(NamedTuple):
    """One malformed row.

    Args:
        line: line number in the file, the header being 1; for Parquet the row number.
        reason: why, from a small fixed set, so that reasons can be counted.
        text: the row, cut to `MAX_REJECT_TEXT` characters, on one line.
    """

    line: int
    reason: str
    text: str


class BadRow(ValueError):
    """Why a row cannot be used; becomes a `Reject`."""


@dataclass(frozen=True)
class Columns:
    """Where the columns of a log are.

    Args:
        names: the header, as lower-case words.
        where: the file, for messages.

    Raises:
        UserError: `query` or `title` is missing, or a name appears twice.
    """

    names: tuple[str, ...]
    where: str

    def __post_init__(self) -> None:
        missing = [name for name in REQUIRED if name not in self.names]
        if missing:
            received = ", ".join(repr(name) for name in self.names) or "nothing"
            raise UserError(
                f"{self.where} has the columns {received}; a click log needs 'query' and 'title' "
                f"in its header (missing: {', '.join(missing)})."
            )
        for name in (*REQUIRED, *OPTIONAL):
            if self.names.count(name) > 1:
                raise UserError(f"{self.where} names the column '{name}' more than once.")

    @classmethod
    def of(cls, fields: Iterable[str], where: str) -> Columns:
        """From the header's fields."""
        return cls(tuple(field.strip().strip("\ufeff").strip().lower() for field in fields), where)

    def reader(self) -> Callable[[Sequence[str]], LogRow]:
        """A function from a row's fields to its `LogRow`; it raises `BadRow`."""
        width = len(self.names)
        query_at, title_at = self.names.index("query"), self.names.index("title")
        clicks_at, shown_at, session_at = (
            self.names.index(name) if name in self.names else -1
            for name in ("clicks", "impressions", "session_id")
        )
        counts: dict[str, int] = {}

        def count(text: str, name: str, default: int) -> int:
            known = counts.get(text)
            if known is None:
                known = parse_count(text, name, default)
                if text.strip() and len(counts) < 10_000:
                    counts[text] = known
            return known

        def read(fields: Sequence[str]) -> LogRow:
            if len(fields) != width:
                raise BadRow("wrong column count")
            return LogRow(
                clean_text(fields[query_at], "query"),
                clean_text(fields[title_at], "title"),
                1 if clicks_at < 0 else count(fields[clicks_at], "clicks", 1),
                0 if shown_at < 0 else count(fields[shown_at], "impressions", 0),
                "" if session_at < 0 else fields[session_at].strip(),
            )

        return read


def clean_text(text: str, name: str) -> str:
    """The text without white space at its ends and on one line.

    Raises:
        BadRow: nothing is left, or the text holds bytes that were not UTF-8.
    """
    text = text.strip()
    if not text:
        raise BadRow(f"empty {name}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadRow("bad UTF-8") from None
    if not text.isprintable() and ("\n" in text or "\r" in text or "\t" in text):
        return text.translate(_ONE_LINE)
    return text


def parse_count(value: object, name: str, default: int) -> int:
    """A count of clicks or impressions: a whole number from 0 to 2**40; empty means the default.

    >>> parse_count("3", "clicks", 1), parse_count("3.0", "clicks", 1), parse_count("", "clicks", 1)
    (3, 3, 1)

    Raises:
        BadRow: anything else.
    """
    if value is None:
        return default
    if isinstance(value, str):
        text = value.strip()
        if not text:
            return default
        if text.isascii() and text.isdigit() and len(text) <= 12:
            return int(text)
        if "_" in text:
            raise BadRow(f"{name} is not a number")
        value = text
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadRow(f"{name} is not a number")
    try:
        number = float(value)
    except OverflowError:
        raise BadRow(f"{name} is too large") from None
    except ValueError:
        raise BadRow(f"{name} is not a number") from None
    if math.isnan(number) or math.isinf(number):
        raise BadRow(f"{name} is not finite")
    if number < 0:
        raise BadRow(f"{name} is negative")
    if number > MAX_COUNT:
        raise BadRow(f"{name} is too large")
    if number != int(number):
        raise BadRow(f"{name} is not a whole number")
    return int(number)


def tsv_rows(lines: Iterable[tuple[int, bytes]], columns: Columns) -> Iterator[LogRow | Reject]:
    """Rows of numbered TSV lines, without their line ends and without the header."""
    read = columns.reader()
    for number, line in lines:
        if line.endswith(b"\r"):
            line = line[:-1]
        if not line:
            continue
        try:
            yield read(_decode(line).split("\t"))
        except BadRow as bad:
            yield reject(number, bad, line)


def jsonl_rows(lines: Iterable[tuple[int, bytes]]) -> Iterator[LogRow | Reject]:
    """Rows of numbered lines that each hold one JSON object."""
    for number, line in lines:
        if not line.strip():
            continue
        try:
            yield mapping_row(_json_object(line))
        except BadRow as bad:
            yield reject(number, bad, line)


def csv_rows(
    lines: Iterable[bytes], columns: Columns | None = None, where: str = ""
) -> Iterator[LogRow | Reject]:
    """Rows of a whole CSV file, quoted as `csv` does, the header first.

    Args:
        lines: the file's lines with their line ends.
        columns: of the header, when it is known already; the header is read all the same.
        where: the file, for messages.
    """
    reader = csv.reader(line.decode("utf-8", "surrogateescape") for line in lines)
    read = columns.reader() if columns else None
    header = True
    while True:
        number = reader.line_num + 1
        fields: list[str] = []
        try:
            fields = next(reader)
            if header:
                header = False
                read = read or Columns.of(fields, where).reader()
            elif fields and read is not None:
                yield read(fields)
        except StopIteration:
            return
        except csv.Error:
            yield Reject(number, "bad CSV", "")
        except BadRow as bad:
            yield reject(number, bad, ",".join(fields))


def mapping_row(row: Mapping[str, Any]) -> LogRow:
    """A row of JSON or Parquet, by its columns' names.

    Raises:
        BadRow: a value is missing or of a wrong type.
    """
    texts = []
    for name in REQUIRED:
        value = row.get(name)
        if value is None:
            raise BadRow(f"no {name}" if name not in row else f"empty {name}")
        if not isinstance(value, str):
            raise BadRow(f"{name} is not text")
        texts.append(clean_text(value, name))
    session = row.get("session_id")
    return LogRow(
        texts[0],
        texts[1],
        parse_count(row.get("clicks"), "clicks", 1),
        parse_count(row.get("impressions"), "impressions", 0),
        "" if session is None else str(session).strip(),
    )


def numbered(blocks: Iterable[bytes], first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Lines of consecutive blocks of a file, numbered, without their line ends.

    A line longer than `MAX_LINE_BYTES` keeps its first bytes only and ends in a NUL byte that is
    no UTF-8 continuation: it is never held whole.
    """
    number, carry = first, b""
    for block in blocks:
        lines = (carry + block).split(b"\n")
        carry = lines.pop()
        for line in lines:
            yield number, line
            number += 1
        if len(carry) > MAX_LINE_BYTES:
            carry = carry[:MAX_LINE_BYTES] + _OVERLONG
    if carry:
        yield number, carry


def reject(number: int, reason: BadRow | str, text: bytes | str) -> Reject:
    """A `Reject` with its text decoded, cut and put on one line."""
    if isinstance(text, bytes):
        text = text[: 4 * MAX_REJECT_TEXT].decode("utf-8", "backslashreplace")
    text = text[:MAX_REJECT_TEXT].encode("utf-8", "backslashreplace").decode()
    return Reject(number, str(reason), text.translate(_ONE_LINE))


def write_click_log(path: Path, rows: Iterable[Sequence[object]]) -> int:
    """Writes a TSV click log of (query, title) or (query, title, clicks) rows.

    Returns:
        The number of rows.
    """
    number = 0
    with atomic_write(Path(path)) as file:
        file.write("query\ttitle\tclicks\n")
        for query, title, *clicks in rows:
            texts = (str(query).translate(_ONE_LINE), str(title).translate(_ONE_LINE))
            file.write("\t".join((*texts, str(clicks[0] if clicks else 1))) + "\n")
            number += 1
    return number


def _decode(line: bytes) -> str:
    if len(line) > MAX_LINE_BYTES:
        raise BadRow("line too long")
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise BadRow("bad UTF-8") from None


def _json_object(line: bytes) -> dict[str, Any]:
    text = _decode(line)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRow("not JSON") from None
    if not isinstance(value, dict):
        raise BadRow("not a JSON object")
    return value


_ONE_LINE = {ord("\t"): " ", ord("\n"): " ", ord("\r"): " "}
_OVERLONG = b"\0"
