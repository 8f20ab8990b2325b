"""Moves large data frames to temporary files, so that the system can reclaim their memory."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow as pa

MAX_BYTES = 64 << 20
"""Larger frames are mapped."""


def mapped_if_large(frame: pl.DataFrame) -> pl.DataFrame:
    """The same frame; if it has more than `MAX_BYTES`, mapped to memory from a temporary file.

    The file has no name any more, so the operating system removes it when the frame is no longer
    used, or when the process ends. It is in the directory that `TMPDIR` names. A system that does
    not remove open files, such as Windows, keeps the frame in memory.
    """
    if frame.estimated_size() <= MAX_BYTES:
        return frame
    try:
        with TemporaryDirectory() as directory:
            path = Path(directory) / "frame.arrow"
            frame.write_ipc(path, compression="uncompressed")
            with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
                mapped = pl.from_arrow(reader.read_all(), rechunk=False)
    except PermissionError:
        return frame
    return mapped if isinstance(mapped, pl.DataFrame) else frame
