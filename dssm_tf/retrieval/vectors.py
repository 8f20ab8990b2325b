"""Texts with their vectors as Parquet, for search engines: written as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dssm_tf.common.files import atomic_write
from dssm_tf.runtime.vector_ranker import Vectors

Write = Callable[[Sequence[str], Sequence[str], Vectors], None]


@contextmanager
def open_writer(path: Path, dimension: int) -> Iterator[Write]:
    """Opens a Parquet file that appears when the block succeeds, and replaces an older one.

    Its columns are `id`, `text` and `vector`, a list of fixed size.

    Yields:
        What appends a batch of ids, texts and vectors `(texts, dimension)`.
    """
    import pyarrow
    from pyarrow import parquet

    text, vector = pyarrow.string(), pyarrow.list_(pyarrow.float32(), dimension)
    schema = pyarrow.schema({"id": text, "text": text, "vector": vector})
    with (
        atomic_write(path, "wb") as file,
        parquet.ParquetWriter(file, schema, compression="zstd") as table,
    ):
        yield lambda ids, texts, vectors: table.write_table(
            pyarrow.table({"id": ids, "text": texts, "vector": list(vectors)}, schema)
        )
