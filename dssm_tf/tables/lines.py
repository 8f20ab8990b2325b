"""Text files as blocks of complete lines: decompressed, in UTF-8, numbered from 1.

Only one block, or one line that is longer, is in memory at a time.
"""

from __future__ import annotations

import gzip
import re
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, iterdecode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import UnsupportedOperation
from itertools import chain
from typing import IO, NamedTuple, Protocol

import pyarrow as pa

from dssm_tf.common.errors import UserError
from dssm_tf.tables.layout import Layout

BLOCK_BYTES = 1 << 20
_LINE_END_BYTES = 1 << 20  # read at the start of a file to detect its line ends
_MAGIC_BYTES = 16
_GZIP = b"\x1f\x8b\x08"
_OTHER_FORMATS = {
    "Parquet": re.compile(rb"PAR1[\0-\x08\x0b-\x1f]"),
    "bzip2": re.compile(rb"BZh[1-9]1AY&SY"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "ZIP or Excel": re.compile(rb"PK\x03\x04"),
}
"""The first bytes of other formats. No text begins with them."""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, /) -> object: ...


class _PrefixedFile:
    """A file whose first bytes were read already, and are returned again: a pipe cannot seek."""

    def __init__(self, start: bytes, file: IO[bytes]) -> None:
        self._start, self._file = start, file

    def read(self, size: int, /) -> bytes:
        if not self._start:
            return self._file.read(size)
        start, self._start = self._start[:size], self._start[size:]
        return start

    def seek(self, offset: int, /) -> object:
        raise UnsupportedOperation(f"seek {offset}")


class LineBlock(NamedTuple):
    """Consecutive lines.

    Args:
        first: number of the first line.
        data: the lines, each ended by a newline.
        too_long: whether this is a single line that is too long, truncated.
    """

    first: int
    data: bytes
    too_long: bool = False


class Lines:
    """The lines of an open file, to be read once.

    Args:
        file: bytes of the file; gzip data is decompressed, whatever the name.
        where: name of the file, for messages.
        layout: the encoding and the maximum line length.

    Attributes:
        count: lines read so far.
        splittable: whether other readers can start after any line end; set by the first read.
    """

    def __init__(self, file: IO[bytes], where: str, layout: Layout) -> None:
        self.count = 0
        self.splittable = layout.is_utf8
        self._file, self._where, self._layout = file, where, layout
        self._blocks = self._split()
        self._block = LineBlock(1, b"")

    def next_line(self) -> tuple[int, bytes] | None:
        """The next line with its end, and its number; None at the end of the file."""
        block = self.next_block()
        if block is None:
            return None
        if block.too_long:
            return block.first, block.data
        end = block.data.index(b"\n") + 1
        self._block = LineBlock(block.first + 1, block.data[end:])
        return block.first, block.data[:end]

    def next_block(self) -> LineBlock | None:
        """The rest of the current block, or the next one; None at the end of the file."""
        block, self._block = self._block, LineBlock(1, b"")
        return block if block.data else next(self._blocks, None)

    def __iter__(self) -> Iterator[LineBlock]:
        return iter(self.next_block, None)

    def _split(self) -> Iterator[LineBlock]:
        """Blocks of complete lines; lines that are too long are truncated."""
        max_bytes = self._layout.max_line_bytes
        start: list[bytes] = []  # start of an incomplete line
        size = 0

        def new_block(data: bytes, too_long: bool = False) -> LineBlock:
            first = self.count + 1
            self.count += 1 if too_long else data.count(b"\n")
            return LineBlock(first, data, too_long)

        for chunk in self._chunks():
            if size:
                end = chunk.find(b"\n") + 1
                if not end or size + end - 1 > max_bytes:
                    if size <= max_bytes:
                        start.append(chunk[: end or None])
                    size += end or len(chunk)
                    if not end:
                        continue
                    yield new_block(b"".join(start)[: max_bytes + 1], True)
                    start, size, chunk = [], 0, chunk[end:]
            end = chunk.rfind(b"\n") + 1
            if end:
                yield from self._split_long_lines(b"".join([*start, chunk[:end]]), new_block)
                start, size, chunk = [], 0, chunk[end:]
            if chunk:
                start.append(chunk)
                size += len(chunk)
        if size > max_bytes:
            yield new_block(b"".join(start)[: max_bytes + 1], True)
        elif size:
            yield new_block(b"".join([*start, b"\n"]))

    def _split_long_lines(
        self, data: bytes, new_block: Callable[..., LineBlock]
    ) -> Iterator[LineBlock]:
        """Blocks of the lines that are not too long, and one block per line that is."""
        max_bytes = self._layout.max_line_bytes
        if len(data) > max_bytes and max(map(len, data.split(b"\n"))) > max_bytes:
            start = end = 0
            while end < len(data):
                line_start, end = end, data.index(b"\n", end) + 1
                if end - line_start - 1 > max_bytes:
                    if line_start > start:
                        yield new_block(data[start:line_start])
                    yield new_block(data[line_start : line_start + max_bytes + 1], True)
                    start = end
            data = data[start:]
        if data:
            yield new_block(data)

    def _chunks(self) -> Iterator[bytes]:
        """The text as UTF-8 with newlines; undecodable text becomes invalid UTF-8."""
        with reading(self._where):
            chunks = self._utf8()
            start = b""
            while b"\n" not in start and len(start) < _LINE_END_BYTES:
                chunk = next(chunks, b"")
                if not chunk:
                    break
                start += chunk
            if b"\r" in start and b"\n" not in start:
                # Carriage returns end the lines, as on old Macs.
                self.splittable = False
                for chunk in chain([start], chunks):
                    yield chunk.replace(b"\r", b"\n")
                return
            yield start
            yield from chunks

    def _utf8(self) -> Iterator[bytes]:
        start = self._file.read(_MAGIC_BYTES)
        for name, magic in _OTHER_FORMATS.items():
            if magic.match(start):
                raise UserError(
                    f"{self._where} holds {name} data, but has another ending; unpack it, or "
                    "give it the ending of its format."
                )
        file: _Readable = _PrefixedFile(start, self._file)
        if start.startswith(_GZIP) or self._where.lower().endswith(".gz"):
            self.splittable = False
            file = gzip.GzipFile(mode="rb", fileobj=file)
        chunks = iter(partial(file.read, BLOCK_BYTES), b"")
        if not self._layout.is_utf8:
            texts = iterdecode(chunks, self._layout.encoding, "surrogateescape")
            chunks = (text.encode("utf-8", "surrogatepass") for text in texts)
        elif start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            raise UserError(
                f"{self._where}: the text is UTF-16, not UTF-8; give --encoding utf-16."
            )
        yield next(chunks, b"").removeprefix(BOM_UTF8)
        yield from chunks


def undecodable(line: bytes) -> bool:
    """Whether a line is not UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return False


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Converts errors of reading inside the block to UserErrors that name the file.

    Raises:
        UserError: instead of the original error.
    """
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{where} is not a complete gzip file: {error}.") from error
    except UnicodeError as error:
        raise UserError(f"{where} cannot be decoded: {error}; give its --encoding.") from error
    except (OSError, pa.ArrowException, ValueError, OverflowError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0].rstrip(".")
        if not reason:
            out_of_memory = isinstance(error, MemoryError)
            reason = "not enough memory" if out_of_memory else type(error).__name__
        raise UserError(f"{where} cannot be read: {reason}.") from error
