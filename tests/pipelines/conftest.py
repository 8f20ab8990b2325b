"""Small logs, and the output of preprocess read back without TensorFlow."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest

from dssm_tf.data.clicked_titles import load_clicked_titles
from dssm_tf.data.example_pb2 import Example
from dssm_tf.text.rules import FOLDED
from pipelines import preprocess
from pipelines.writing import REQUEST


@dataclass(frozen=True)
class Record:
    """What a test looks at in a record."""

    query: str
    titles: tuple[str, ...]
    clicks: float
    title_clicks: tuple[int, ...]
    title_queries: tuple[int, ...]

    @property
    def pair(self) -> tuple[str, str]:
        return FOLDED.key(self.query), FOLDED.key(self.titles[0])


class Data:
    """A directory that preprocess wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def records(self, split: str = "train") -> list[Record]:
        found = []
        for file in sorted(self.path.glob(f"{split}-*.tfrecord.gz")):
            data = gzip.decompress(file.read_bytes())
            at = 0
            while at < len(data):
                (length,) = struct.unpack_from("<Q", data, at)
                found.append(_record(data[at + 12 : at + 12 + length]))
                at += 12 + length + 4
        return found

    def clicked(self, query: str) -> list[int]:
        """Ids of all titles clicked for a query."""
        return load_clicked_titles(self.path).of(FOLDED.id(query))

    def rows(self, name: str) -> list[list[str]]:
        lines = (self.path / name).read_bytes().decode().split("\n")
        return [line.split("\t") for line in lines[1:-1]]

    def bytes(self) -> dict[str, bytes]:
        """All files but the note of what was asked: it names the log and its time."""
        files = sorted(file for file in self.path.iterdir() if file.name != REQUEST)
        return {file.name: file.read_bytes() for file in files}


def _record(raw: bytes) -> Record:
    feature = Example.FromString(raw).features.feature
    return Record(
        feature["query"].bytes_list.value[0].decode(),
        tuple(one.decode() for one in feature["titles"].bytes_list.value),
        feature["clicks"].float_list.value[0],
        tuple(feature["title_clicks"].int64_list.value),
        tuple(feature["title_queries"].int64_list.value),
    )


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
