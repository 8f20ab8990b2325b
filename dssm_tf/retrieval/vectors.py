"""Semantic vectors as files: `.npy` with ids beside it, or Parquet; written as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import map_array
from dssm_tf.common.checksums import check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write

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


def check_output(path: Path) -> None:
    """Raises UserError when vectors cannot be written under this name."""
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


def read_vectors(path: Path, rows: int, dimension: int, doc_ids: Sequence[str]) -> Vectors:
    """Opens an `.npy` file of title vectors, memory-mapped, and checks it against a corpus.

    Args:
        path: what `dssm embed` wrote.
        rows: titles in the corpus.
        dimension: length of the model's unit vectors; with the prior they have one number more.
        doc_ids: of the corpus, compared with the ids beside the file if there are any.

    Raises:
        UserError: the file is no such matrix, or not of this corpus or model.
    """
    check_whole(path)
    vectors = map_array(path, _AGAIN)
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise UserError(f"{path} holds no matrix of vectors; expected what `dssm embed` writes.")
    if vectors.shape not in ((rows, dimension), (rows, dimension + 1)):
        raise UserError(
            f"{path} holds {vectors.shape[0]} vectors of length {vectors.shape[1]}; the corpus has "
            f"{rows} titles and the model's vectors have length {dimension}, or {dimension + 1} "
            f"with the prior. {_AGAIN}"
        )
    if ids_path(path).exists():
        written = read_ids(path)
        if len(written) != rows:
            raise UserError(f"{ids_path(path)} holds {len(written)} ids for {rows} rows. {_AGAIN}")
        wrong = next((row for row in range(rows) if written[row] != doc_ids[row]), None)
        if wrong is not None:
            raise UserError(
                f"{ids_path(path)}:{wrong + 1} is {written[wrong]!r} where the corpus has "
                f"{doc_ids[wrong]!r}: another corpus, or another order. {_AGAIN}"
            )
    return vectors


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


def check_made_by(path: Path, vectors: Vectors, sample: NDArray[np.int64], fresh: Vectors) -> None:
    """Compares a file's rows with what the model makes of the same titles now.

    Raises:
        UserError: they differ by more than rounding.
    """
    distance = np.linalg.norm(vectors[sample] - fresh, axis=1)
    # Written so that NaN, of a damaged file, is refused too.
    wrong = np.flatnonzero(~(distance < 0.05))
    if wrong.size:
        raise UserError(
            f"{path}: row {sample[wrong[0]]} is not what this model makes of that title: another "
            f"model, another corpus, or another order. {_AGAIN}"
        )


_AGAIN = "Make them again: dssm embed --model RUN --input CORPUS.tsv --out FILE.npy"
