"""Small logs, and the output of preprocess read back without TensorFlow."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from pyarrow import parquet
from tensorflow.core.example.example_pb2 import Example

from dssm_tf.data.format import Spec, load_vocabulary
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import preprocess


@dataclass(frozen=True)
class Record:
    """What a test looks at in a record."""

    query: str
    titles: tuple[str, ...]
    clicks: float

    @property
    def pair(self) -> tuple[str, str]:
        return FOLDED.key(self.query), FOLDED.key(self.titles[0])


class Data:
    """A directory that preprocess wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def spec(self) -> Spec:
        return Spec.load(self.path)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return load_vocabulary(self.path, self.spec)

    @cached_property
    def words(self) -> dict[str, list[int]]:
        """Ids of the trigrams by word, in the order of the words' numbers."""
        return {
            one["word"].bytes_list.value[0].decode(): list(one["ngrams"].int64_list.value)
            for one in self.examples("words")
        }

    def table(self, kind: str) -> list[dict]:
        files = sorted(self.path.glob(f"{kind}-*.parquet"))
        return [row for file in files for row in parquet.read_table(file).to_pylist()]

    @property
    def titles(self) -> dict[str, tuple[int, int]]:
        """Clicks and queries by title."""
        return {one["text"]: (one["clicks"], one["queries"]) for one in self.table("titles")}

    def clicked(self, query: str) -> set[str]:
        """All titles of the table that were clicked for a query, normalised."""
        titles = self.table("titles")
        for one in self.table("queries"):
            if FOLDED.key(one["text"]) == FOLDED.key(query):
                assert one["clicked"] == sorted(set(one["clicked"]))
                return {FOLDED.key(titles[number]["text"]) for number in one["clicked"]}
        return set()

    def examples(self, kind: str) -> list[dict]:
        found = []
        for file in sorted(self.path.glob(f"{kind}-*.tfrecord.gz")):
            data = gzip.decompress(file.read_bytes())
            at = 0
            while at < len(data):
                (length,) = struct.unpack_from("<Q", data, at)
                found.append(Example.FromString(data[at + 12 : at + 12 + length]).features.feature)
                at += 12 + length + 4
        return found

    def records(self, split: str = "train") -> list[Record]:
        queries, titles = self.table("queries"), self.table("titles")
        found = []
        for one in self.examples(split):
            (query,), numbers = one["query"].int64_list.value, one["titles"].int64_list.value
            assert len(numbers) == 1 + self.spec.negatives
            # Where the log has no more titles, the clicked one fills the row.
            kept = [numbers[0], *(number for number in numbers[1:] if number != numbers[0])]
            texts = tuple(titles[number]["text"] for number in kept)
            found.append(Record(queries[query]["text"], texts, one["clicks"].float_list.value[0]))
        return found

    def rows(self, name: str) -> list[list[str]]:
        lines = (self.path / name).read_bytes().decode().split("\n")
        return [line.split("\t") for line in lines[1:-1]]

    def bytes(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in sorted(self.path.iterdir())}


@pytest.fixture
def run(tmp_path, capsys):
    """Runs preprocess on the text of a TSV log, or on what `--input` says."""
    number = 0

    def run(log: str | None, *flags: str, code: int = 0, name: str = "log.tsv") -> Data:
        nonlocal number
        number += 1
        arguments = list(flags)
        if log is not None:
            path = tmp_path / name
            path.write_text(log, "utf-8", newline="")
            arguments = ["--input", str(path), *arguments]
        output = tmp_path / f"data{number}"
        assert preprocess.run([*arguments, "--output", str(output)]) == code, capsys.readouterr()
        return Data(output)

    return run


@pytest.fixture
def topics() -> str:
    """A log of 60 queries and 25 titles with clicks from 1 to 9."""
    lines = ["query\ttitle\tclicks"]
    for n in range(60):
        for m in range(1 + n % 3):
            lines.append(f"query {n}\tTitle number {(n + 5 * m) % 25}\t{1 + (n * m) % 9}")
    return "\n".join(lines) + "\n"
