"""A directory that preprocess wrote: spec, vocabulary, titles and records, each read once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.common.checksums import check_files
from dssm_tf.common.errors import UserError
from dssm_tf.data.batching import parse
from dssm_tf.data.clicked_titles import ClickedTitles, load_clicked_titles
from dssm_tf.data.counts import RECORD_COUNTS, RecordCounts, load_record_counts
from dssm_tf.data.records import DAMAGE, read_features, read_records, record_files
from dssm_tf.data.schema import FEATURES, FeatureSpec, Title, load_titles, load_vocabulary
from dssm_tf.text.rules import Rules
from dssm_tf.text.vocabulary import Vocabulary

_BATCH = 1024


@dataclass(frozen=True, eq=False)
class Preprocessed:
    """What a training, an evaluation or a benchmark reads of a preprocessed directory.

    Args:
        directory: what preprocess wrote.

    Raises:
        UserError: where something is read that is missing or damaged; the files beside the
            records when this is made, a record when it is read.
    """

    directory: Path

    def __post_init__(self) -> None:
        check_files(
            self.directory, None, "Give the directory that preprocess wrote, or run it again."
        )

    @cached_property
    def spec(self) -> FeatureSpec:
        """What `feature_spec.json` says."""
        return FeatureSpec.load(self.directory)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The letter trigrams that the records were hashed with."""
        return load_vocabulary(self.directory, self.spec)

    @cached_property
    def titles(self) -> list[Title]:
        """The titles of the log and the corpus, most clicked first."""
        return load_titles(self.directory)

    @property
    def rules(self) -> Rules:
        """How texts were read."""
        return self.spec.rules

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts that hold records."""
        return tuple(split for split, count in self.spec.records.items() if count)

    def count(self, *splits: str) -> int:
        """How many records these parts hold."""
        return sum(self.spec.records.get(split, 0) for split in splits)

    def records(self, *splits: str) -> tf.data.Dataset:
        """Serialised examples of these parts, in the order of the files."""
        return read_records([file for one in splits for file in record_files(self.directory, one)])

    def clicks(self, *splits: str) -> Iterator[tuple[str, str, float]]:
        """Query, clicked title and number of clicks of each record of these parts, in order."""
        for batch in self.records(*splits).batch(_BATCH):
            yield from _clicks(batch)

    def log(self) -> list[tuple[str, str, float]]:
        """Query, clicked title and number of clicks of all records, in the order of their texts."""
        self.verify()
        with self.explained():
            return sorted(self.clicks(*self.splits))

    def query_ids(self) -> NDArray[np.int64]:
        """The id of every query of all parts, increasing."""
        with self.explained():
            batches = (
                read_features(batch, "query_id")["query_id"].numpy()
                for batch in self.records(*self.splits).batch(_BATCH)
            )
            return np.unique(np.concatenate([np.empty(0, np.int64), *batches]))

    @cached_property
    def counts(self) -> Mapping[str, RecordCounts]:
        """What preprocess counted, by split."""
        return load_record_counts(self.directory)

    @cached_property
    def clicked_titles(self) -> ClickedTitles:
        """The titles that were clicked for each query, anywhere in the log."""
        return load_clicked_titles(self.directory)

    def verify(self) -> None:
        """Raises UserError where records are missing: shards, or the ends of some.

        Each record has a checksum too, which is looked at when it is read.
        """
        with self.explained():
            for split in self.splits:
                if split not in self.counts:
                    raise UserError(
                        f"{self.directory / RECORD_COUNTS} says nothing of {split}; run preprocess "
                        "again."
                    )
                counted, found = self.counts[split], self._sizes(split)
                for name, size in counted.file_bytes.items():
                    if found.get(name) != size:
                        raise UserError(
                            f"{self.directory / name} has {found.get(name, 0):,} bytes where "
                            f"preprocess wrote {size:,}; copy the file again, or run preprocess "
                            "again."
                        )
                if (records := sum(counted.clicks.values())) != self.count(split):
                    raise UserError(
                        f"{self.directory} holds {records} {split} records where "
                        f"feature_spec.json says {self.count(split)}; a shard is truncated or "
                        "from another run. Run preprocess again."
                    )

    def _sizes(self, split: str) -> dict[str, int]:
        paths = map(Path, record_files(self.directory, split))
        return {path.name: path.stat().st_size for path in paths}

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns TensorFlow's error about a damaged record into one that names file and record."""
        try:
            yield
        except DAMAGE:
            for split in self.splits:
                for file in record_files(self.directory, split):
                    self._find_damage(file)
            raise

    def _find_damage(self, file: str) -> None:
        """Reads a file's records again, to name the first that is damaged."""
        number = 0
        try:
            for _ in read_records([file]):
                number += 1
        except DAMAGE:
            raise _damaged(file, number + 1, "corrupt or truncated") from None
        number = 0
        for batch in read_records([file]).batch(_BATCH):
            if not self._is_sound(batch):
                first = next(i for i in range(len(batch)) if not self._is_sound(batch[i : i + 1]))
                raise _damaged(file, number + first + 1, "no record of preprocess")
            number += len(batch)

    def _is_sound(self, serialized: tf.Tensor) -> bool:
        """Whether records hold all that is read of them, and counts that fit each other."""
        try:
            parse(serialized, self.spec.negatives, self.vocabulary.size)
            for _ in _clicks(serialized):
                pass
            read_features(serialized, *FEATURES)
        except DAMAGE:
            return False
        return True


def _clicks(serialized: tf.Tensor) -> Iterator[tuple[str, str, float]]:
    """Query, clicked title and clicks of `(batch,)` serialised examples."""
    parsed = read_features(serialized, "query", "titles", "clicks")
    for query, title, clicks in zip(
        parsed["query"].numpy(),
        parsed["titles"][:, :1].flat_values.numpy(),
        parsed["clicks"].numpy(),
        strict=True,  # raises ValueError where a record has no title
    ):
        yield query.decode(), title.decode(), float(clicks)


def _damaged(file: str, number: int, how: str) -> UserError:
    return UserError(
        f"{file}: record {number} is {how} (records before it are readable). Copy the file "
        "again, or run preprocess again."
    )
