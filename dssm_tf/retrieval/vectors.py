"""Titles with their vectors as Parquet: written as they come, read to be indexed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.tables.judgments import CorpusTitle

Vectors = NDArray[np.float32]
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

        def write(ids: Sequence[str], texts: Sequence[str], vectors: Vectors) -> None:
            columns = {"id": ids, "text": texts, "vector": list(vectors)}
            table.write_table(pyarrow.table(columns, schema))

        yield write


def read_embedded(patterns: Sequence[str]) -> tuple[list[CorpusTitle], Vectors]:
    """Reads titles with their vectors from Parquet files as `open_writer` writes them.

    Args:
        patterns: paths or globs; files are read in the order of their names.

    Returns:
        Titles, and vectors `(titles, dimension)`.

    Raises:
        UserError: no file matches, one has other columns, vectors differ in length, or an id comes
            twice.
    """
    import pyarrow
    from pyarrow import parquet

    given = f"--vectors {' '.join(patterns)}"
    files = sorted({path for pattern in patterns for path in glob(pattern)})
    if not files:
        raise UserError(f"{given} matches no file.")
    try:
        table = parquet.read_table(files, columns=["id", "text", "vector"])
        corpus = list(map(CorpusTitle, table["id"].to_pylist(), table["text"].to_pylist()))
        flat = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        vectors = flat.astype(np.float32, copy=False).reshape(len(corpus), -1)
    except (OSError, KeyError, ValueError, pyarrow.ArrowException) as error:
        raise UserError(
            f"{given} holds no titles with vectors of one length ({str(error).splitlines()[0]}); "
            "expected the columns id, text and vector, as `dssm embed` writes them."
        ) from None
    if len({entry.doc_id for entry in corpus}) < len(corpus):
        raise UserError(f"{given}: an id comes twice; give each title its own.")
    return corpus, vectors
