"""Arrow files are checked before they are read: a small compressed file could fill the memory."""

from __future__ import annotations

import struct
from pathlib import Path

_START = 8  # bytes of the magic word, after which the messages follow
# Positions of fields in Arrow's flatbuffers (Message.fbs): the header of a message, and the
# compression of a record batch.
_HEADER, _COMPRESSION = 2, 3


def has_compressed_batches(path: Path) -> bool:
    """Whether an Arrow file has compressed record batches, which this package never writes.

    Args:
        path: an Arrow IPC file.

    Raises:
        pyarrow.ArrowException: the file is damaged.
        OSError: the file cannot be read.
    """
    import pyarrow

    with pyarrow.OSFile(str(path)) as file:
        file.seek(_START)
        messages = pyarrow.ipc.MessageReader.open_stream(file)
        while True:
            try:
                message = messages.read_next_message()
            except StopIteration:
                return False
            if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
                return True


def _is_compressed(metadata: bytes) -> bool:
    """Whether the metadata of a record batch, a flatbuffer, have a compression."""
    try:
        (root,) = struct.unpack_from("<I", metadata, 0)
        header = root + _field(metadata, root, _HEADER)
        header += struct.unpack_from("<I", metadata, header)[0]
        return _field(metadata, header, _COMPRESSION) > 0
    except struct.error:
        return True  # offsets point outside of the metadata: damaged


def _field(buffer: bytes, table: int, index: int) -> int:
    """The offset of a field in a table of a flatbuffer; 0 if the table does not have it."""
    vtable = table - struct.unpack_from("<i", buffer, table)[0]
    (size,) = struct.unpack_from("<H", buffer, vtable)
    position = 4 + 2 * index
    return struct.unpack_from("<H", buffer, vtable + position)[0] if position < size else 0
