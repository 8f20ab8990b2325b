"""`tfds.load("click_log", ...)`: what `dssm preprocess` wrote, as a TensorFlow dataset.

    import tensorflow_datasets as tfds
    import pipelines.tfds_builder  # registers the name "click_log"

    train = tfds.load("click_log", split="train", builder_kwargs={"data": "DATA"})

Nothing is downloaded. A dataset is prepared once for each output of preprocess.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from dssm_tf.common.checksums import sha256_of
from dssm_tf.data.format import SPEC
from dssm_tf.data.preprocessed import Preprocessed

_TEXT, _NUMBER = tfds.features.Text(), np.int64
_LIST = tfds.features.Sequence
_FEATURES = {
    "clicks": np.float32,
    "query": _TEXT,
    "query_ngrams": _LIST(_LIST(_NUMBER)),  # ids of the trigrams of each word
    "query_number": _NUMBER,
    "titles": _LIST(_TEXT),  # the clicked one, then the negatives
    "title_ngrams": _LIST(_LIST(_LIST(_NUMBER))),
    "title_numbers": _LIST(_NUMBER),
    "clicked_numbers": _LIST(_NUMBER),  # of all titles that were clicked for the query
}


class ClickLog(tfds.core.GeneratorBasedBuilder):
    """Query and clicked title pairs with negatives, hashed to letter trigrams.

    Differs from the batches of `dssm_tf.data` by going through tfds: its files, its splits and its
    caching. Numbers are looked up in the tables; the order is that of the records.

    Args:
        data: directory that `dssm preprocess` wrote.
        **tfds_arguments: passed on to tfds.
    """

    name = "click_log"
    VERSION = tfds.core.Version("3.0.0")

    def __init__(self, *, data: str | Path, **tfds_arguments: Any) -> None:
        self._data = Preprocessed(Path(data))
        version = sha256_of(Path(data, SPEC))[:16]
        tfds_arguments["config"] = tfds.core.BuilderConfig(name=version)
        super().__init__(**tfds_arguments)

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(_FEATURES),
            description="Query and clicked title pairs of search click logs, with negatives.",
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {split: self._generate_examples(split) for split in self._data.nonempty_splits}

    def _generate_examples(self, split: str) -> Iterator[tuple[int, dict[str, Any]]]:
        yield from enumerate(read_examples(self._data, split))


def read_examples(data: Preprocessed, split: str) -> Iterator[dict[str, Any]]:
    """The pairs of a split that preprocess wrote, as features by name, in file order."""
    queries, titles = data.texts("queries"), data.texts("titles")
    query_words, title_words = data.words("queries"), data.words("titles")
    _, ngrams = data.distinct_words
    for query, row, clicks in zip(*(one.tolist() for one in data.splits[split]), strict=True):
        numbers = [one for one in row if one >= 0]
        yield {
            "clicks": clicks,
            "query": queries[query],
            "query_ngrams": [ngrams[word].as_py() for word in query_words[query].as_py()],
            "query_number": query,
            "titles": [titles[one] for one in numbers],
            "title_ngrams": [
                [ngrams[word].as_py() for word in title_words[one].as_py()] for one in numbers
            ],
            "title_numbers": numbers,
            "clicked_numbers": data.clicked[query].as_py(),
        }
