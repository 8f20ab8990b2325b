"""`tfds.load("click_log", ...)`: the records of `pipelines.preprocess` as a TensorFlow dataset.

    import tensorflow_datasets as tfds
    import pipelines.tfds_builder  # registers the name "click_log"

    train = tfds.load("click_log", split="train", builder_kwargs={"logs": "clicks/"})

`logs` is what `--input` is: files, globs or directories; `flags` are preprocess's, without their
dashes: `builder_kwargs={"logs": "clicks/", "flags": {"negatives": 8, "corpus": ["titles.tsv"]}}`.
Nothing is downloaded. A dataset is prepared once for each log, corpus and setting; one that changed
is another dataset.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from dssm_tf.common.errors import UserError
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
        logs: click logs: a path, glob or directory, or several.
        data_dir: where tfds keeps prepared datasets; its default when None.
        version: as tfds understands it.
        flags: of `pipelines.preprocess`, without dashes.
        **tfds_arguments: passed on to tfds.
    """

    name = "click_log"
    VERSION = tfds.core.Version("2.0.0")
    RELEASE_NOTES = {"2.0.0": "Texts and trigrams of the third format."}  # noqa: RUF012

    def __init__(
        self,
        *,
        logs: str | Path | Sequence[str | Path] = (),
        data_dir: str | Path | None = None,
        version: str | None = None,
        flags: dict[str, Any] | None = None,
        **tfds_arguments: Any,
    ) -> None:
        self._logs = [str(logs)] if isinstance(logs, (str, Path)) else [str(one) for one in logs]
        self._flags = dict(flags or {})
        if tfds_arguments.get("config") is None and self._logs:
            tfds_arguments["config"] = tfds.core.BuilderConfig(
                name=_fingerprint(self._logs, self._flags),
                description=f"click logs {' '.join(self._logs)}",
            )
        super().__init__(data_dir=data_dir, version=version, **tfds_arguments)

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(_FEATURES),
            description="Query and clicked title pairs of search click logs, with negatives.",
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        if not self._logs:
            raise UserError(
                "The click_log dataset needs its logs: "
                'tfds.load("click_log", builder_kwargs={"logs": "clicks/"}).'
            )
        self._work = tempfile.TemporaryDirectory(prefix="click-log-")
        data = Path(self._work.name) / "data"
        _preprocess(self._logs, self._flags, data)
        splits = Preprocessed(data).splits
        return {split: self._generate_examples(data, split) for split in splits}

    def _generate_examples(self, data: Path, split: str) -> Iterator[tuple[int, dict[str, Any]]]:
        yield from enumerate(read_examples(data, split))


def read_examples(directory: Path, split: str) -> Iterator[dict[str, Any]]:
    """The pairs of a split that preprocess wrote, as features by name, in file order."""
    data = Preprocessed(directory)
    queries, titles = data.texts("queries"), data.texts("titles")
    query_words, title_words = data.words("queries"), data.words("titles")
    _, ngrams = data.distinct_words
    for query, row, clicks in zip(*(one.tolist() for one in data.pairs(split)), strict=True):
        numbers = [one for one in row if one >= 0]
        yield {
            "clicks": clicks,
            "query": queries[query],
            "query_ngrams": [ngrams.of(word).tolist() for word in query_words.of(query)],
            "query_number": query,
            "titles": [titles[one] for one in numbers],
            "title_ngrams": [
                [ngrams.of(word).tolist() for word in title_words.of(one)] for one in numbers
            ],
            "title_numbers": numbers,
            "clicked_numbers": data.clicked.of(query).tolist(),
        }


def _preprocess(logs: Sequence[str], flags: Mapping[str, Any], output: Path) -> None:
    # Here, so that dssm_tf alone does not need Beam.
    from pipelines.options import parse
    from pipelines.preprocess import preprocess

    preprocess(parse([*_arguments(flags), "--input", *logs, "--output", str(output)]))


def _arguments(flags: Mapping[str, Any]) -> list[str]:
    found = []
    for name, value in sorted(flags.items()):
        several = isinstance(value, (list, tuple))
        found += [f"--{name}", *map(str, value)] if several else [f"--{name}={value}"]
    return found


def _fingerprint(logs: Sequence[str], flags: Mapping[str, Any]) -> str:
    """A name that changes with the files' paths, sizes and times, and with the flags."""
    parts = [*_arguments(flags)]
    corpus = flags.get("corpus", ())
    for pattern in (*logs, *([corpus] if isinstance(corpus, (str, Path)) else corpus)):
        parts.append(str(Path(pattern).resolve()))
        paths = [Path(one) for one in sorted(glob(str(pattern), recursive=True))]
        for path in paths:
            inside = sorted(path.iterdir()) if path.is_dir() else [path]
            for file in inside:
                status = file.stat()
                parts.append(f"{file.name} {status.st_size} {status.st_mtime_ns}")
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()
