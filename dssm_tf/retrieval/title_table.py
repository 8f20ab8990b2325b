"""Ids and titles as a file that is mapped into memory: a million are there at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.tables.judgments import CorpusTitle

_BATCH = 1 << 16  # titles written at once


class TitleTable(Sequence[CorpusTitle]):
    """The titles of an Arrow file; a title becomes a Python text when it is asked for.

    Args:
        ids: Arrow's array of them.
        titles: the same of the titles.
    """

    def __init__(self, ids: Any, titles: Any) -> None:
        self._ids = ids
        self._titles = titles

    @classmethod
    def open(cls, path: Path, mend: str) -> TitleTable:
        """Maps what `write_titles` wrote into memory.

        Raises:
            UserError: the file cannot be used.
        """
        import pyarrow

        try:
            source = pyarrow.memory_map(str(path))
            table = pyarrow.ipc.open_file(source).read_all()
            return cls(table["doc_id"], table["title"])
        except (OSError, KeyError, pyarrow.ArrowException) as error:
            reason = str(error).split("\n")[0]
            raise UserError(f"{path} holds no titles: {reason}. {mend}") from None

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, row: int) -> CorpusTitle: ...

    @overload
    def __getitem__(self, row: slice) -> list[CorpusTitle]: ...

    def __getitem__(self, row: int | slice) -> CorpusTitle | list[CorpusTitle]:
        if isinstance(row, slice):
            pairs = zip(self._ids[row].to_pylist(), self._titles[row].to_pylist(), strict=True)
            return [CorpusTitle(*pair) for pair in pairs]
        row = range(len(self))[row]
        return CorpusTitle(self._ids[row].as_py(), self._titles[row].as_py())

    def __iter__(self) -> Iterator[CorpusTitle]:
        for start in range(0, len(self), _BATCH):
            yield from self[start : start + _BATCH]

    def ids(self) -> list[str]:
        """The ids in order."""
        found: list[str] = self._ids.to_pylist()
        return found


def write_titles(path: Path, corpus: Sequence[CorpusTitle]) -> None:
    """Writes an Arrow file with the columns `doc_id` and `title`."""
    import pyarrow

    schema = pyarrow.schema([("doc_id", pyarrow.large_string()), ("title", pyarrow.large_string())])
    columns = [
        pyarrow.array([entry.doc_id for entry in corpus], pyarrow.large_string()),
        pyarrow.array([entry.title for entry in corpus], pyarrow.large_string()),
    ]
    with atomic_write(path, "wb") as file, pyarrow.ipc.new_file(file, schema) as writer:
        # One batch, so that a row is found without a search.
        writer.write_batch(pyarrow.record_batch(columns, schema=schema))
