"""A directory that preprocess wrote: spec, vocabulary, titles and records, each read once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.data.records import DAMAGE, read_records, record_files
from dssm_tf.data.schema import FeatureSpec, Title, load_titles, load_vocabulary, text_id
from dssm_tf.text.vocabulary import Vocabulary

_BATCH = 1024


@dataclass(frozen=True, eq=False)
class Preprocessed:
    """What a training, an evaluation or a benchmark reads of a preprocessed directory.

    Args:
        directory: what preprocess wrote.

    Raises:
        UserError: where something is read that is missing or damaged.
    """

    directory: Path

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
        features = {
            "query": tf.io.FixedLenFeature([], tf.string),
            "titles": tf.io.RaggedFeature(tf.string),
            "clicks": tf.io.FixedLenFeature([], tf.float32),
        }
        for batch in self.records(*splits).batch(_BATCH):
            parsed = tf.io.parse_example(batch, features)
            for query, title, clicks in zip(
                parsed["query"].numpy(),
                parsed["titles"][:, :1].flat_values.numpy(),
                parsed["clicks"].numpy(),
                strict=True,
            ):
                yield query.decode(), title.decode(), float(clicks)

    def log(self) -> list[tuple[str, str, float]]:
        """Query, clicked title and number of clicks of all records, in the order of their texts."""
        self.verify()
        return sorted(self.clicks(*self.splits))

    @cached_property
    def clicked_titles(self) -> dict[int, list[int]]:
        """By the id of each title whose text is a query too: ids of all titles clicked for it.

        Reads every record once, which is how damage is found before anything starts.
        """
        wanted = {text_id(title.text) for title in self.titles}
        found: dict[int, list[int]] = {}
        features = {
            "query_id": tf.io.FixedLenFeature([], tf.int64),
            "clicked_ids": tf.io.RaggedFeature(tf.int64),
        }
        with self.explained():
            for split in self.splits:
                count = 0
                for batch in self.records(split).batch(_BATCH):
                    parsed = tf.io.parse_example(batch, features)
                    ids = parsed["clicked_ids"].values.numpy()
                    ends = parsed["clicked_ids"].row_splits.numpy()
                    for row, query in enumerate(parsed["query_id"].numpy().tolist()):
                        count += 1
                        if query in wanted and query not in found:
                            found[query] = ids[ends[row] : ends[row + 1]].tolist()
                if count != self.count(split):
                    raise UserError(
                        f"{self.directory} holds {count} {split} records where feature_spec.json "
                        f"says {self.count(split)}; a shard is truncated or from another run. Run "
                        "preprocess again."
                    )
        return found

    def verify(self) -> None:
        """Raises UserError where a record is missing or damaged, naming file and record."""
        _ = self.clicked_titles

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns TensorFlow's error about a damaged record into one that names file and record."""
        try:
            yield
        except DAMAGE:
            for split in self.splits:
                for file in record_files(self.directory, split):
                    _find_damage(file)
            raise


def _find_damage(file: str) -> None:
    """Reads a file's records one by one, to name the first that is damaged."""
    number = 1
    try:
        for record in read_records([file]):
            tf.io.parse_single_example(record, {"clicks": tf.io.FixedLenFeature([], tf.float32)})
            number += 1
    except DAMAGE:
        raise UserError(
            f"{file}: record {number} is corrupt or truncated (records before it are "
            "readable). Copy the file again, or run preprocess again."
        ) from None
