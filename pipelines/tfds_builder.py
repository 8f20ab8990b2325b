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
from dssm_tf.data.clicked_titles import load_clicked_titles
from dssm_tf.data.example_pb2 import Example
from dssm_tf.data.example_pb2 import Feature as StoredFeature
from dssm_tf.data.records import read_records, record_files
from dssm_tf.data.schema import FEATURES, Feature, FeatureSpec

_KINDS = {"bytes": tfds.features.Text(), "float": np.float32, "int64": np.int64}


class ClickLog(tfds.core.GeneratorBasedBuilder):
    """Query and clicked title pairs with negatives, hashed to letter trigrams.

    Differs from `dssm_tf.data.dataset` by going through tfds: its files, its splits and its
    caching. The records are those that preprocess writes, in the same order.

    Args:
        logs: click logs: a path, glob or directory, or several.
        data_dir: where tfds keeps prepared datasets; its default when None.
        version: as tfds understands it.
        flags: of `pipelines.preprocess`, without dashes.
        **tfds_arguments: passed on to tfds.
    """

    name = "click_log"
    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "The record format of dssm_tf.data.schema."}  # noqa: RUF012

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
        features = {
            name: _KINDS[one.kind] if one.single else tfds.features.Sequence(_KINDS[one.kind])
            for name, one in FEATURES.items()
        }
        features["clicked_ids"] = tfds.features.Sequence(_KINDS["int64"])
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(features),
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
        splits = FeatureSpec.load(data).records
        return {split: self._generate_examples(data, split) for split in splits if splits[split]}

    def _generate_examples(self, data: Path, split: str) -> Iterator[tuple[int, dict[str, Any]]]:
        yield from enumerate(read_examples(data, split))


def read_examples(data: Path, split: str) -> Iterator[dict[str, Any]]:
    """The records of a split that preprocess wrote, as features by name, in file order.

    `clicked_ids` are the ids of all titles clicked for the query.
    """
    clicked = load_clicked_titles(data)
    for record in read_records(record_files(data, split)).as_numpy_iterator():
        stored = Example.FromString(record).features.feature
        values = {name: _values(one, stored[name]) for name, one in FEATURES.items()}
        yield values | {"clicked_ids": clicked.of(values["query_id"])}


def _values(feature: Feature, stored: StoredFeature) -> Any:
    values = list(getattr(stored, f"{feature.kind}_list").value)
    return values[0] if feature.single else values


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
