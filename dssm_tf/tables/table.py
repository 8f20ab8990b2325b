"""An open file whose rows are found, checked and counted; here each line is one."""

from __future__ import annotations

import gzip
import os
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import IO, Any, NamedTuple, cast

from dssm_tf.common.errors import OptionError, UserError
from dssm_tf.tables.cells import THOUSANDS, BadRow, one_line
from dssm_tf.tables.title_fields import TITLE, joining, spread

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 20
_MAX_REJECT_TEXT = 500

Cells = Sequence[Any]


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
        delimiter: between the cells of CSV.
        strict_quotes: whether a stray quote of CSV is an error.
        longest: bytes of a line; a longer one is a bad row and never held whole.
        names: the columns, where what is read begins behind the header; None: it has one.
        row_group: the only one to read of a Parquet file.
        thousands: the sign between the thousands of counts, one of `THOUSANDS`; "": there is none.
        title_fields: the columns that stand for the column `title`, joined as `join_fields` does.

    Raises:
        UserError: there is no such encoding, or no such sign.
    """

    encoding: str = "utf-8"
    delimiter: str = ","
    strict_quotes: bool = True
    longest: int = MAX_LINE_BYTES
    names: tuple[str, ...] | None = None
    row_group: int | None = None
    thousands: str = ""
    title_fields: tuple[str, ...] = (TITLE,)

    def __post_init__(self) -> None:
        if self.thousands not in ("", *THOUSANDS):
            signs = " ".join(map(repr, THOUSANDS))
            raise OptionError("--thousands", f"is {self.thousands!r}; expected one of {signs}.")
        try:
            "a".encode(self.encoding)
        except (LookupError, UnicodeError, ValueError):
            raise OptionError(
                "--encoding",
                f"is {self.encoding!r}, which is no encoding of text; expected one such as utf-8, "
                "cp1252, latin-1, utf-16 or gb18030.",
            ) from None

    @property
    def by_bytes(self) -> bool:
        """Whether a line ends where its bytes say so, as in all encodings but UTF-16 and UTF-32."""
        return "a\n".encode(self.encoding) == b"a\n"


class Table:
    """The rows of a file, to be read once: its lines, blank or not, each one cell called `text`.

    Args:
        raw: its bytes.
        where: its name; `.gz` is unpacked.
        layout: what the name does not say.

    Attributes:
        lines: how many lines, or rows of Parquet, were read.
        row_groups: in how many parts Parquet was written, else 1.
    """

    names_in_rows = False
    row_groups = 1

    def __init__(self, raw: IO[bytes], where: str, layout: Layout) -> None:
        self.lines = 0
        self.layout = layout
        self._raw, self._where = raw, where
        self._encoding = layout.encoding if layout.by_bytes else "utf-8"  # see `_blocks`
        self._longest = layout.longest
        self._numbered = self._read()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns; none if the file is empty."""
        if self.layout.names is not None:
            return self.layout.names
        number, head = self._head()
        try:
            return tuple(map(fold, self._cells(head))) if number else ()
        except BadRow as bad:
            raise self._error(number, bad) from None

    def check_names(self, columns: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Looks columns up before anything is read.

        Raises:
            UserError: one of `columns` is missing, or one of either comes twice.
        """
        columns = spread(columns, self.layout.title_fields)
        expected = ", ".join(map(repr, columns))
        if not self.names:
            raise UserError(f"{self._where} is empty; expected the columns {expected}.")
        if missing := [name for name in columns if name not in self.names]:
            raise UserError(
                f"{self._where} has the columns {', '.join(map(repr, self.names))[:500]}; expected "
                f"{expected} (missing: {', '.join(missing)}).{self._hint()}"
            )
        for name in (*columns, *optional):
            if self.names.count(name) > 1:
                raise UserError(f"{self._where} names the column {name!r} more than once.")

    def _hint(self) -> str:
        """What may be wrong with a header."""
        name = self.names[0]
        sign = max(",;\t", key=name.count)
        if len(self.names) > 1 or sign not in name:
            return ""
        between, mend = {
            ",": ("commas", "name the file .csv"),
            ";": ("semicolons", "write commas instead, and name the file .csv"),
            "\t": ("tabs", "name the file .tsv"),
        }[sign]
        return f" That is one name with {between} in it: {mend}."

    def rows(
        self,
        columns: Sequence[str],
        optional: Sequence[str] = (),
        make: Callable[[Cells], Any] = tuple,
        *,
        strict: bool = True,
    ) -> Iterator[tuple[int, Any]]:
        """Numbered rows, checked.

        Args:
            columns: whose cells are wanted, in this order; the file has to have them.
            optional: further ones, whose cells are None where the file lacks the column.
            make: what becomes of a row's cells, which are text, or of JSON and Parquet any value;
                it raises `BadRow` if they will not do.
            strict: whether a bad row is an error; otherwise there is a `Reject` in its place.

        Raises:
            UserError: at once, a column is missing; while reading, the file is damaged, or a row
                is bad and `strict` holds.
        """
        if strict or not self.names_in_rows:
            self.check_names(columns, optional)
        columns, fields = (*columns, *optional), self.layout.title_fields
        pick = self._picker(spread(columns, fields))
        if fields != (TITLE,) and TITLE in columns:
            pick = joining(pick, columns.index(TITLE), fields)
        return self._made(pick, make, strict)

    def _made(
        self, pick: Callable[[Any], Cells], make: Callable[[Cells], Any], strict: bool
    ) -> Iterator[tuple[int, Any]]:
        for number, row in self._rows():
            try:
                made = make(pick(row))
            except BadRow as bad:
                if strict:
                    raise self._error(number, bad) from None
                yield number, reject(number, bad, self._shown(row))
            else:
                yield number, made

    def share_read(self) -> float | None:
        """The share of the file that was read, from 0 to 1; None if unknown."""
        with suppress(OSError, ZeroDivisionError):  # a pipe, an empty file
            return self._raw.tell() / os.fstat(self._raw.fileno()).st_size
        return None

    # What another format does in another way.

    def _head(self) -> tuple[int, Any]:
        """The numbered row whose cells are the columns' names; 0 if there is none."""
        return 1, b"text"

    def _rows(self) -> Iterator[tuple[int, Any]]:
        """Numbered rows as the file has them."""
        return self._numbered

    def _cells(self, row: Any) -> Any:
        """All cells of a row; raises `BadRow`."""
        return [self._decoded(row)]

    def _picker(self, columns: Sequence[str]) -> Callable[[Any], Cells]:
        """A function from a row to the cells of the columns; it raises `BadRow`."""
        return self._cells

    def _shown(self, row: Any) -> bytes | str:
        """A row as a person may see it."""
        return cast(bytes, row)

    def _error(self, number: int, bad: BadRow) -> UserError:
        return UserError(f"{self._where}:{number}: {bad.detail}.")

    def _check_text(self, text: str) -> None:
        """Raises `BadRow` where something stands for bytes that are not of the encoding."""
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise self._bad_text() from None

    # Lines

    def _decoded(self, line: bytes) -> str:
        if len(line) > self._longest:
            raise BadRow("line too long", f"the line is longer than {self._longest:,} bytes")
        try:
            return line.removesuffix(b"\r").decode(self._encoding)
        except UnicodeDecodeError as error:
            raise self._bad_text(f" at byte {error.start + 1} of the line") from None

    def _bad_text(self, where: str = "") -> BadRow:
        """Why a row is refused whose bytes are not of the encoding."""
        name = self.layout.encoding.upper()
        return BadRow(
            f"bad {name}", f"not {name}{where}; say what it is, such as --encoding cp1252"
        )

    def _read(self) -> Iterator[tuple[int, bytes]]:
        """Numbered lines without their ends; of one that is too long the beginning."""
        begun: list[bytes] = []  # a line's parts in the blocks so far
        held = 0
        for block in self._blocks():
            part, *lines = block.split(b"\n")
            if held <= self._longest:
                begun.append(part[: self._longest + 1 - held])
                held += len(begun[-1])
            if lines:
                last = lines.pop()
                lines.insert(0, b"".join(begun))
                yield from enumerate(lines, self.lines + 1)
                self.lines += len(lines)
                begun, held = [last], len(last)
        if held:
            self.lines += 1
            yield self.lines, b"".join(begun)

    def _blocks(self) -> Iterator[bytes]:
        file = unpacked(self._raw, self._where)
        with reading(self._where):
            block = file.read(BLOCK_BYTES)
            if self.layout.by_bytes and block.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                raise UserError(f"{self._where} is UTF-16; say so with --encoding utf-16.")
            decoder = getincrementaldecoder(self.layout.encoding)()
            first = self.layout.names is None
            while block:
                if self.layout.by_bytes:
                    text = block
                else:  # to UTF-8, whose lines end where bytes say so
                    text = decoder.decode(block).encode("utf-8", "surrogatepass")
                yield text.removeprefix(BOM_UTF8) if first else text
                first = False
                block = file.read(BLOCK_BYTES)
            if not self.layout.by_bytes:
                decoder.decode(b"", final=True)  # half a character at the end is an error


@lru_cache
def fold(name: str) -> str:
    """The name of a column as it is compared: without case and outer white space."""
    return name.strip().lower()


def unpacked(raw: IO[bytes], where: str) -> IO[bytes]:
    """What a file holds: its bytes, or if it is called `.gz`, what is packed in them."""
    return cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if where.endswith(".gz") else raw


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Blames what goes wrong inside on the file.

    Raises:
        UserError: instead of what was raised.
    """
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{where} is not a whole gzip file: {error}.") from error
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror or error}.") from error
    except UnicodeError as error:
        raise UserError(f"{where} cannot be decoded: {error}; give its --encoding.") from error


def reject(number: int, reason: BadRow, text: bytes | str) -> Reject:
    """A `Reject` with its text decoded, cut and put on one line."""
    if isinstance(text, bytes):
        text = text[: 4 * _MAX_REJECT_TEXT].decode("utf-8", "backslashreplace")
    text = text[:_MAX_REJECT_TEXT].encode("utf-8", "backslashreplace").decode()
    return Reject(number, str(reason), one_line(text), reason.clicks)
