"""Moves large data frames to temporary files, so that the operating system can free memory."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow as pa

MAX_BYTES = 64 << 20
"""Frames larger than this are memory-mapped."""


def mapped_if_large(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns the same frame, memory-mapped from a temporary file if it is above `MAX_BYTES`.

    The file is created in the directory `TMPDIR` and deleted while it is open. So the operating
    system frees its space when the frame is no longer used, or when the process ends. Where open
    files cannot be deleted, as on Windows, the frame stays in memory.
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
