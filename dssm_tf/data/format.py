"""The format of a preprocessed directory: file names and `spec.json`; see docs/data.md.

Texts are identified by their index: row i of the titles' files, in file order, is title i. The same
holds for queries and words. This module needs no TensorFlow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from dssm_tf.common.checksums import is_inside, sha256_of
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.json_files import read_json
from dssm_tf.text.rules import TextRules
from dssm_tf.text.vocabulary import Vocabulary

_FORMAT = 7
_REBUILD_HINT = "Run preprocess again."
SPEC = "spec.json"
VOCABULARY = "vocabulary.txt"
MAX_NEGATIVES = 1000
"""The largest number of negatives that are recorded with a pair."""
KINDS = ("words", "titles", "queries", "train", "validation")


def file_name(kind: str, index: int, count: int) -> str:
    """The name of file `index` of `count` files of a kind.

    >>> file_name("titles", 3, 16), file_name("train", 0, 1)
    ('titles-00003-of-00016.parquet', 'train-00000-of-00001.tfrecord.gz')
    """
    suffix = "parquet" if kind in ("titles", "queries") else "tfrecord.gz"
    return f"{kind}-{index:05d}-of-{count:05d}.{suffix}"


class Title(NamedTuple):
    """A title of the log or the corpus, with its clicks in the training split.

    Args:
        text: the text as it is in the log or the corpus.
        clicks: clicks in the training split; 0 for a title that only the validation split or the
            corpus has.
        queries: number of distinct training queries with a click on it.
    """

    text: str
    clicks: int = 0
    queries: int = 0


@dataclass(frozen=True)
class Spec:
    """Description of a preprocessed directory, stored in it as `spec.json`.

    Args:
        rules: rules by which texts become words.
        title_fields: columns that a title is joined from; see `dssm_tf.text.fields`.
        ngrams: number of n-grams in the vocabulary, without hash buckets.
        fingerprint: hash of the vocabulary.
        negatives: number of negatives recorded with each pair. A row with fewer negatives is
            padded with the clicked title.
        negative_alpha: negatives were drawn in proportion to `clicks ** negative_alpha`.
        clicks: unweighted clicks of the training split.
        rows: number of rows of each file, by kind; empty for a kind without files.
        files: SHA-256 of every other file of the directory that is read, by name.
    """

    rules: TextRules
    title_fields: tuple[str, ...]
    ngrams: int
    fingerprint: str
    negatives: int
    negative_alpha: float
    clicks: int
    rows: Mapping[str, Sequence[int]]
    files: Mapping[str, str]

    @property
    def vocabulary_size(self) -> int:
        """N-grams and hash buckets."""
        return self.ngrams + self.rules.hash_buckets

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
                f"{path} has format {version!r:.60}; this version reads {_FORMAT}. {_REBUILD_HINT}"
            )
        if raw.pop("sha256", None) != _digest(raw):
            raise UserError(
                f"{path} is damaged or was changed since it was written. {_REBUILD_HINT}"
            )
        del raw["format"]
        try:
            raw["rules"] = TextRules.from_json(raw["rules"])
            raw["title_fields"] = tuple(map(str, raw["title_fields"]))
            spec = cls(**raw)
            spec._check_values()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} is damaged: {error}. {_REBUILD_HINT}") from None
        return spec

    def _check_values(self) -> None:
        """Raises ValueError if a value is impossible, and TypeError if one has another type."""
        if not all(map(is_inside, self.files)):
            raise ValueError("a file is outside of the directory")
        if {*self.rows} != {*KINDS}:
            raise ValueError(f"it has the rows of {', '.join(map(str, self.rows))!s:.100}")
        numbers = {
            "a number of rows": [row for rows in self.rows.values() for row in rows],
            "ngrams": [self.ngrams],
            "negatives": [self.negatives],
            "clicks": [self.clicks],
        }
        for name, values in numbers.items():
            most = MAX_NEGATIVES if name == "negatives" else 1 << 53
            if not all(type(value) is int and 0 <= value <= most for value in values):
                raise ValueError(f"{name} is not a whole number from 0 to {most}")
        if type(self.negative_alpha) not in (int, float) or not isfinite(self.negative_alpha):
            raise ValueError("negative_alpha is not a number")

    def count(self, *kinds: str) -> int:
        """Number of rows in all files of the given kinds."""
        return sum(sum(self.rows[kind]) for kind in kinds)

    def paths(self, directory: Path, kind: str) -> list[Path]:
        """The files of a kind, in order."""
        count = len(self.rows[kind])
        return [Path(directory) / file_name(kind, index, count) for index in range(count)]

    def check(self, directory: Path) -> None:
        """Compares the files with their recorded checksums.

        Raises:
            UserError: a file is missing, truncated or changed.
        """
        for name, digest in self.files.items():
            path = Path(directory) / name
            if not path.exists() or sha256_of(path) != digest:
                raise UserError(
                    f"{path} is missing, damaged or was changed since preprocess wrote it; copy "
                    "it again, or run preprocess again."
                )


def _digest(raw: Mapping[str, Any]) -> str:
    """SHA-256 of the content of `spec.json`, without the digest itself."""
    return sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()


def load_vocabulary(directory: Path, spec: Spec) -> Vocabulary:
    """The vocabulary that the words were hashed with.

    Raises:
        UserError: the file is missing, or is another vocabulary.
    """
    path = Path(directory) / VOCABULARY
    vocabulary = Vocabulary.load(path, spec.rules)
    if vocabulary.fingerprint != spec.fingerprint:
        raise UserError(
            f"{path} has fingerprint {vocabulary.fingerprint}; the words were hashed with "
            f"{spec.fingerprint}. Restore the file that preprocess wrote."
        )
    return vocabulary
