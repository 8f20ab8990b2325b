"""`tfds.load("click_log", ...)`: an output of `dssm preprocess` as a TensorFlow dataset.

    import tensorflow_datasets as tfds
    import pipelines.tfds_builder  # registers the name "click_log"

    train = tfds.load("click_log", split="train", builder_kwargs={"data": "DATA"})

Nothing is downloaded. The dataset is prepared once per output of preprocess.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from dssm_tf.common.checksums import sha256_of
from dssm_tf.common.errors import UserError
from dssm_tf.data.format import SPEC
from dssm_tf.data.preprocessed import Preprocessed

_TEXT, _INTEGER = tfds.features.Text(), np.int64
_LIST = tfds.features.Sequence
_FEATURES = {
    "clicks": np.float32,
    "query": _TEXT,
    "query_ngrams": _LIST(_LIST(_INTEGER)),  # ids of the letter n-grams of each word, of all kinds
    "query_number": _INTEGER,
    "titles": _LIST(_TEXT),  # the clicked title, then the negatives
    "title_ngrams": _LIST(_LIST(_LIST(_INTEGER))),
    "title_numbers": _LIST(_INTEGER),
    "clicked_numbers": _LIST(_INTEGER),  # the numbers of all titles clicked for the query
}


class ClickLog(tfds.core.GeneratorBasedBuilder):
    """Query and clicked title pairs with negatives, hashed to letter n-grams.

    Differs from the batches of `dssm_tf.data` by using the files, splits and caching of tfds. Each
    example has the texts of its query and titles. Examples are in the order of the records.

    Args:
        data: directory written by `dssm preprocess`.
        **tfds_arguments: arguments of `tfds.core.GeneratorBasedBuilder`.

    Raises:
        UserError: the directory is unusable, or has no pairs.
    """

    name = "click_log"
    VERSION = tfds.core.Version("3.0.0")

    def __init__(self, *, data: str | Path, **tfds_arguments: Any) -> None:
        self._data = Preprocessed(Path(data))
        if not self._data.nonempty_splits:
            raise UserError(
                f"{data} has no pairs of a query and a title, because it was made without a click "
                "log; give preprocess --input."
            )
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
    """The pairs of a split as features by name, in the order of the files."""
    queries, titles = data.texts("queries"), data.texts("titles")
    query_words, title_words = data.words("queries"), data.words("titles")
    _, ngrams = data.distinct_words
    for query, row, clicks in zip(*(column.tolist() for column in data.splits[split]), strict=True):
        numbers = [number for number in row if number >= 0]
        yield {
            "clicks": clicks,
            "query": queries[query],
            "query_ngrams": [ngrams[word].as_py() for word in query_words[query].as_py()],
            "query_number": query,
            "titles": [titles[number] for number in numbers],
            "title_ngrams": [
                [ngrams[word].as_py() for word in title_words[number].as_py()] for number in numbers
            ],
            "title_numbers": numbers,
            "clicked_numbers": data.clicked[query].as_py(),
        }
