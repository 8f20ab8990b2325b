"""What preprocess writes, without TensorFlow: the files' names and `spec.json`, see docs/data.md.

A text is a number: row i of the titles' files, in their order, is title i.
So are queries and words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from dssm_tf.common.checksums import sha256_of
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.plain_data import read_json
from dssm_tf.text.rules import Rules
from dssm_tf.text.vocabulary import Vocabulary

_FORMAT = 5
_AGAIN = "Run preprocess again."
SPEC = "spec.json"
VOCABULARY = "vocabulary.txt"
KINDS = ("words", "titles", "queries", "train", "validation")


def file_name(kind: str, number: int, count: int) -> str:
    """The name of a file of a kind, the first of which has number 0.

    >>> file_name("titles", 3, 16), file_name("train", 0, 1)
    ('titles-00003-of-00016.parquet', 'train-00000-of-00001.tfrecord.gz')
    """
    suffix = "parquet" if kind in ("titles", "queries") else "tfrecord.gz"
    return f"{kind}-{number:05d}-of-{count:05d}.{suffix}"


class Title(NamedTuple):
    """A title of the log or the corpus: its text and how often the training part clicked it.

    Args:
        text: as logged, or as the corpus has it.
        clicks: clicks in the training part; 0 for a title of the validation part or the corpus
            only.
        queries: (query, title) pairs of the training part that hold it.
    """

    text: str
    clicks: int = 0
    queries: int = 0


@dataclass(frozen=True)
class Spec:
    """What a reader must know of a preprocessed directory; stored as `spec.json`.

    Args:
        rules: how texts become words.
        title_fields: columns of which titles are made, see `dssm_tf.text.fields`.
        trigrams: of the vocabulary, without hash buckets.
        fingerprint: of the vocabulary.
        negatives: recorded with each pair; where the log had fewer the clicked title fills the row.
        negative_alpha: negatives were drawn in proportion to `clicks ** negative_alpha`.
        clicks: of the training part, unweighted.
        rows: of each file, by kind; none for a kind that is not there.
        files: the SHA-256 of each other file that is read, by name.
    """

    rules: Rules
    title_fields: tuple[str, ...]
    trigrams: int
    fingerprint: str
    negatives: int
    negative_alpha: float
    clicks: int
    rows: Mapping[str, Sequence[int]]
    files: Mapping[str, str]

    @property
    def vocabulary_size(self) -> int:
        """Letter trigrams and hash buckets."""
        return self.trigrams + self.rules.hash_buckets

    def save(self, directory: Path) -> None:
        """Writes `spec.json`."""
        raw = {"format": _FORMAT, **asdict(self)}
        with atomic_write(Path(directory) / SPEC) as file:
            json.dump(raw | {"sha256": _digest(raw)}, file, indent=1)
            file.write("\n")

    @classmethod
    def load(cls, directory: Path) -> Spec:
        """Reads `spec.json`.

        Raises:
            UserError: it is missing, damaged, or of another format.
        """
        path = Path(directory) / SPEC
        raw = read_json(path, "Give the directory that preprocess wrote, or run preprocess again.")
        version = raw.get("format") if isinstance(raw, dict) else None
        if version != _FORMAT:
            raise UserError(
                f"{path} has format {version!r:.60}; this version reads {_FORMAT}. {_AGAIN}"
            )
        if raw.pop("sha256", None) != _digest(raw):
            raise UserError(f"{path} is damaged or was changed since it was written. {_AGAIN}")
        del raw["format"]
        raw["rules"], raw["title_fields"] = Rules(**raw["rules"]), tuple(raw["title_fields"])
        return cls(**raw)

    def count(self, *kinds: str) -> int:
        """How many rows the files of some kinds hold."""
        return sum(sum(self.rows[kind]) for kind in kinds)

    def paths(self, directory: Path, kind: str) -> list[Path]:
        """The files of a kind, in order."""
        count = len(self.rows[kind])
        return [Path(directory) / file_name(kind, number, count) for number in range(count)]

    def check(self, directory: Path) -> None:
        """Compares files with what was written.

        Raises:
            UserError: one is missing, truncated or changed.
        """
        for name, digest in self.files.items():
            path = Path(directory) / name
            if not path.exists() or sha256_of(path) != digest:
                raise UserError(
                    f"{path} is missing, damaged or was changed since preprocess wrote it; copy "
                    "it again, or run preprocess again."
                )


def _digest(raw: Mapping[str, Any]) -> str:
    """Of what `spec.json` holds besides."""
    return sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()


def load_vocabulary(directory: Path, spec: Spec) -> Vocabulary:
    """The vocabulary that the words were hashed with.

    Raises:
        UserError: it is missing or another one.
    """
    path = Path(directory) / VOCABULARY
    vocabulary = Vocabulary.load(path, spec.rules)
    if vocabulary.fingerprint != spec.fingerprint:
        raise UserError(
            f"{path} has fingerprint {vocabulary.fingerprint}; the words were hashed with "
            f"{spec.fingerprint}. Restore the file that preprocess wrote."
        )
    return vocabulary
