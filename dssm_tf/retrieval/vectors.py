"""Semantic vectors as files: `.npy` with ids beside it, or Parquet; written as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.checksums import check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.tables.judgments import CorpusTitle

_SUFFIXES = (".npy", ".parquet")
_UNIT = 1e-3  # of length 1, as far as float32 sums of some thousand squares tell
_HEADER = 128  # bytes before the numbers of an .npy file, a multiple of 64

Vectors = NDArray[np.float32]


class VectorWriter(Protocol):
    """Takes vectors batch after batch."""

    def write(self, ids: Sequence[str] | None, texts: Sequence[str], vectors: Vectors) -> None:
        """Appends a batch: `vectors` is `(len(texts), dimension)`."""
        ...


def ids_path(path: Path) -> Path:
    """Where the ids of an `.npy` file stand, one a line."""
    return path.with_name(f"{path.stem}.ids.txt")


def _checksums(path: Path) -> str:
    """The name of the file that ties an `.npy` file and its ids, written after both."""
    return f"{path.stem}.sha256"


def check_whole(path: Path) -> None:
    """Compares vectors and ids with their checksums; those of other programs have none.

    Raises:
        UserError: one is of another writing than the other, or damaged.
    """
    if path.with_name(_checksums(path)).exists():
        check_files(path.parent, None, _AGAIN, _checksums(path))


def check_output(path: Path, format: str | None = None) -> None:
    """Raises UserError when vectors cannot be written under this name, in this format."""
    if format is not None and path.suffix != f".{format}":
        raise UserError(
            f"--format {format} with --out {path}; expected a name that ends in .{format}."
        )
    if path.suffix not in _SUFFIXES:
        raise UserError(f"{path}: vectors are written as {' or '.join(_SUFFIXES)}.")
    if path.is_dir():
        raise UserError(f"{path} is a directory; expected the name of a file to write.")


@contextmanager
def open_writer(path: Path, dimension: int, has_ids: bool) -> Iterator[VectorWriter]:
    """Opens an output that appears when the block succeeds, and replaces an older one.

    `.npy` holds float32 `(texts, dimension)`, and `STEM.ids.txt` the ids where there are any;
    `STEM.sha256`, written last, has the checksums of both, which tell where one was replaced and
    the other not.
    `.parquet` holds `id`, `text` and `vector`, a list of fixed size; without ids, the row
    number from 0 is the id.
    """
    check_output(path)
    with atomic_write(path, "wb") as file:
        if path.suffix == ".parquet":
            with _parquet_writer(file, dimension) as writer:
                yield writer
        elif has_ids:
            with atomic_write(ids_path(path)) as ids:
                yield from _npy_writer(file, dimension, ids)
        else:
            yield from _npy_writer(file, dimension, None)
            ids_path(path).unlink(missing_ok=True)  # of an older file of this name
    if path.suffix == ".npy":
        names = [path.name, ids_path(path).name] if has_ids else [path.name]
        write_checksums(path.parent, names, _checksums(path))


class _NpyWriter:
    def __init__(self, file: IO[bytes], dimension: int, ids: IO[str] | None) -> None:
        self._file = file
        self._dimension = dimension
        self._ids = ids
        self.rows = 0
        self.write_header()

    def write_header(self) -> None:
        """Writes how many rows there are; its length is always the same.

        Reference: numpy.lib.format, version 1.0.
        """
        shape = (self.rows, self._dimension)
        about = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
        start = b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little")
        self._file.seek(0)
        self._file.write(start + about.ljust(_HEADER - 11).encode("ascii") + b"\n")

    def write(self, ids: Sequence[str] | None, texts: Sequence[str], vectors: Vectors) -> None:
        if self._ids is not None and ids is not None:
            for name in ids:
                if "\n" in name or "\r" in name:
                    raise UserError(
                        f"The id {name!r:.60} holds a line break; ids beside an .npy file stand "
                        "one a line. Write .parquet instead."
                    )
                self._ids.write(f"{name}\n")
        self._file.write(np.ascontiguousarray(vectors, "<f4").tobytes())
        self.rows += len(vectors)


def _npy_writer(file: IO[bytes], dimension: int, ids: IO[str] | None) -> Iterator[VectorWriter]:
    writer = _NpyWriter(file, dimension, ids)
    yield writer
    writer.write_header()


@contextmanager
def _parquet_writer(file: IO[bytes], dimension: int) -> Iterator[VectorWriter]:
    import pyarrow
    from pyarrow import parquet

    vector = pyarrow.list_(pyarrow.float32(), dimension)
    schema = pyarrow.schema(
        [("id", pyarrow.string()), ("text", pyarrow.string()), ("vector", vector)]
    )

    class Writer:
        rows = 0

        def write(self, ids: Sequence[str] | None, texts: Sequence[str], vectors: Vectors) -> None:
            names = ids or [str(self.rows + place) for place in range(len(texts))]
            flat = pyarrow.array(np.ascontiguousarray(vectors, np.float32).ravel())
            columns: list[Any] = [
                pyarrow.array(names, pyarrow.string()),
                pyarrow.array(texts, pyarrow.string()),
                pyarrow.FixedSizeListArray.from_arrays(flat, dimension),
            ]
            table.write_batch(pyarrow.record_batch(columns, schema=schema))
            self.rows += len(texts)

    with parquet.ParquetWriter(file, schema, compression="zstd") as table:
        yield Writer()


def read_ids(path: Path) -> list[str]:
    """The ids beside an `.npy` file.

    Raises:
        UserError: they are not UTF-8.
    """
    try:
        with ids_path(path).open(encoding="utf-8", newline="\n") as lines:
            return [line.rstrip("\n") for line in lines]
    except UnicodeDecodeError as error:
        raise UserError(f"{ids_path(path)} is not UTF-8 at byte {error.start + 1}.") from None


def read_embedded(patterns: Sequence[str]) -> tuple[list[CorpusTitle], Vectors]:
    """Reads titles with their vectors from Parquet files as `open_writer` writes them.

    Args:
        patterns: paths or globs; files are read in the order of their names.

    Returns:
        Titles, and vectors `(titles, dimension)`.

    Raises:
        UserError: no file matches, one lacks a column, vectors differ in length, or an id comes
            twice.
    """
    import pyarrow
    from pyarrow import parquet

    files = sorted({path for pattern in patterns for path in glob(pattern)})
    if not files:
        raise UserError(f"--vectors {' '.join(patterns)} matches no file.")
    corpus: list[CorpusTitle] = []
    parts: list[Vectors] = []
    for path in files:
        try:
            table = parquet.read_table(path, columns=["id", "text", "vector"])
            ids, texts = table["id"].to_pylist(), table["text"].to_pylist()
            flat = table["vector"].combine_chunks()
            part = flat.flatten().to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
            part = part.reshape(len(ids), -1) if ids else part.reshape(0, 0)
        except (OSError, KeyError, ValueError, pyarrow.ArrowException) as error:
            reason = str(error).split("\n")[0]
            raise UserError(
                f"{path} holds no titles with vectors ({reason}); expected the columns id, text "
                "and vector, as `dssm embed --out FILE.parquet` writes them."
            ) from None
        if not ids:
            continue
        corpus += map(CorpusTitle, ids, texts)
        parts.append(part)
    if not corpus:
        raise UserError(f"--vectors {' '.join(patterns)} holds no title.")
    if len(lengths := sorted({part.shape[1] for part in parts})) > 1:
        raise UserError(
            f"--vectors {' '.join(patterns)} holds vectors of different lengths, {lengths}."
        )
    seen: set[str] = set()
    for entry in corpus:
        if entry.doc_id in seen:
            raise UserError(
                f"--vectors: id {entry.doc_id!r:.80} comes twice; give each title its own id."
            )
        seen.add(entry.doc_id)
    return corpus, np.concatenate(parts)


def have_prior(queries: Vectors, titles: Vectors) -> bool:
    """Whether vectors hold the prior in their last dimension, as `dssm embed` writes them.

    Those of queries end with exactly 1, and what stands before it is of length 1, or zero, on
    both sides. Their inner product is the score; a cosine would mix the prior into the lengths.
    """
    if queries.shape[1] < 2:
        return False
    lengths = np.concatenate([np.linalg.norm(one[:, :-1], axis=1) for one in (queries, titles)])
    unit = (np.abs(lengths - 1) < _UNIT) | (lengths == 0)
    return bool((queries[:, -1] == 1).all() and unit.all())


_AGAIN = "Make them again: dssm embed --model RUN --input CORPUS.tsv --out FILE.npy"
