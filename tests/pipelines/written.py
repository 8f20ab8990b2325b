"""Reads an output of preprocess without TensorFlow."""

from __future__ import annotations

import gzip
import json
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyarrow import parquet
from tensorflow.core.example.example_pb2 import Example

from dssm_tf.data.format import Spec, load_vocabulary
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Record:
    """A record with texts instead of numbers."""

    query: str
    titles: tuple[str, ...]
    clicks: float

    @property
    def pair(self) -> tuple[str, str]:
        return FOLDED.key(self.query), FOLDED.key(self.titles[0])


class WrittenData:
    """A directory that preprocess wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def spec(self) -> Spec:
        return Spec.load(self.path)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return load_vocabulary(self.path, self.spec)

    @property
    def report(self) -> dict[str, Any]:
        return json.loads((self.path / "report.json").read_text("utf-8"))

    @property
    def page(self) -> str:
        return (self.path / "report.html").read_text("utf-8")

    @cached_property
    def words(self) -> dict[str, tuple[int, ...]]:
        """Ids of the trigrams by word, in the order of the words' numbers."""
        return {row["word"][0].decode(): row["ngrams"] for row in self.examples("words")}

    def table(self, kind: str) -> list[dict]:
        files = sorted(self.path.glob(f"{kind}-*.parquet"))
        return [row for file in files for row in parquet.read_table(file).to_pylist()]

    @property
    def titles(self) -> dict[str, tuple[int, int]]:
        """Clicks and queries by title."""
        return {row["text"]: (row["clicks"], row["queries"]) for row in self.table("titles")}

    def examples(self, kind: str) -> list[dict[str, tuple]]:
        """The values of each feature by name."""
        result = []
        for file in sorted(self.path.glob(f"{kind}-*.tfrecord.gz")):
            data = gzip.decompress(file.read_bytes())
            offset = 0
            while offset < len(data):
                (length,) = struct.unpack_from("<Q", data, offset)
                features = Example.FromString(
                    data[offset + 12 : offset + 12 + length]
                ).features.feature
                result.append(
                    {
                        name: tuple(getattr(feature, feature.WhichOneof("kind")).value)
                        for name, feature in features.items()
                    }
                )
                offset += 12 + length + 4
        return result

    def records(self, split: str = "train") -> list[Record]:
        queries, titles = self.table("queries"), self.table("titles")
        records = []
        for row in self.examples(split):
            (query,), (clicked, *others), (clicks,) = row["query"], row["titles"], row["clicks"]
            assert len(others) == self.spec.negatives
            # If the log has too few titles, the clicked title fills the row.
            numbers = [clicked, *(number for number in others if number != clicked)]
            texts = tuple(titles[number]["text"] for number in numbers)
            records.append(Record(queries[query]["text"], texts, clicks))
        return records

    @property
    def rejects(self) -> list[list[str]]:
        lines = (self.path / "rejects.tsv").read_bytes().decode().split("\n")
        return [line.split("\t") for line in lines[1:-1]]

    def bytes(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in sorted(self.path.iterdir())}
