"""The queries of a small log, held out in turn: a preprocessed directory divided otherwise."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.data.counts import RecordCounts
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.records import read_features
from dssm_tf.data.schema import FeatureSpec, Title

_BATCH = 1024


@dataclass(frozen=True, eq=False)
class Fold(Preprocessed):
    """The same records, in other parts: a share of the queries is the validation part.

    Its records are held in memory. Clicks of titles are those of its own training part; what
    records say of their titles' clicks, and the negatives drawn by them, are as preprocess has it.

    Args:
        whole: what preprocess wrote.
        number: of the fold, from 0.
        folds: of how many.

    Raises:
        UserError: there are fewer queries than folds.
    """

    whole: Preprocessed
    number: int
    folds: int

    @classmethod
    def all_of(cls, whole: Preprocessed, folds: int) -> Iterator[Fold]:
        """Every fold of a directory, one after the other: each query is held out in one of them."""
        return (cls(whole.directory, whole, number, folds) for number in range(folds))

    def _read(self) -> Iterator[tuple[bytes, Mapping[str, Any]]]:
        """Each record, and what counts of it."""
        names = ("query_id", "clicks", "title_lengths", "title_ids")
        for batch in self.whole.records(*self.whole.splits).batch(_BATCH):
            found = read_features(batch, *names)
            rows = zip(
                batch.numpy(),
                *(found[name].numpy() for name in names[:2]),
                *(found[name].to_list() for name in names[2:]),
                strict=True,
            )
            for record, *values in rows:
                yield record, dict(zip(names, values, strict=True))

    @cached_property
    def _parts(self) -> dict[str, list[tuple[bytes, Mapping[str, Any]]]]:
        records = list(self._read())
        # Fingerprints: their order is as good as a random one.
        queries = sorted({one["query_id"] for _, one in records})
        if len(queries) < self.folds:
            raise UserError(
                f"training.folds: {self.folds} folds of {len(queries)} queries; expected at least "
                "one query a fold."
            )
        mine = set(queries[self.number :: self.folds])
        return {
            "train": [pair for pair in records if pair[1]["query_id"] not in mine],
            "validation": [pair for pair in records if pair[1]["query_id"] in mine],
        }

    @cached_property
    def spec(self) -> FeatureSpec:
        """As preprocess has it, with the records of this fold."""
        records = {name: len(of) for name, of in self._parts.items()}
        return replace(self.whole.spec, records=records)

    @cached_property
    def titles(self) -> list[Title]:
        """The titles, most clicked first, with the clicks of this fold's training part."""
        clicks: defaultdict[int, float] = defaultdict(float)
        queries: Counter[int] = Counter()
        for _, one in self._parts["train"]:
            clicks[one["title_ids"][0]] += one["clicks"]
            queries[one["title_ids"][0]] += 1
        ids = ((title.text, self.rules.id(title.text)) for title in self.whole.titles)
        counted = [Title(text, round(clicks[key]), queries[key]) for text, key in ids]
        return sorted(counted, key=lambda title: -title.clicks)

    @cached_property
    def counts(self) -> Mapping[str, RecordCounts]:
        """What preprocess would have counted."""
        return {
            name: RecordCounts(
                {},
                Counter(float(one["clicks"]) for _, one in of),
                Counter(one["title_lengths"][0] for _, one in of),
                Counter(len(one["title_lengths"]) - 1 for _, one in of),
            )
            for name, of in self._parts.items()
        }

    def records(self, *splits: str) -> tf.data.Dataset:
        """Serialised examples of these parts."""
        chosen = [record for name in splits for record, _ in self._parts[name]]
        options = tf.data.Options()
        options.autotune.enabled = False
        return tf.data.Dataset.from_tensor_slices(np.array(chosen, object)).with_options(options)
