"""What preprocess writes: the features of a record, the feature spec and the table of titles.

A record is one (query, clicked title) pair of the log with its recorded negatives, hashed to
letter trigrams: a `tf.train.Example` of the features that `FEATURES` lists, and of no others.
`RecordEncoder` makes records, `dssm_tf.data.dataset` reads them back in batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.plain_data import read_json
from dssm_tf.text.rules import Rules
from dssm_tf.text.vocabulary import Vocabulary

_FORMAT_VERSION = 2
_MOST = 1 << 53  # of anything counted: what float64 counts without a gap
FEATURE_SPEC = "feature_spec.json"
VOCABULARY = "vocabulary.txt"
TITLES = "titles.tsv"


class Feature(NamedTuple):
    """One feature of a record.

    Args:
        kind: of its values, as a list of `tf.train.Example` holds them: bytes, float or int64.
        what: they are.
        single: whether it is always one value.
    """

    kind: str
    what: str
    single: bool = False


FEATURES = {
    "clicks": Feature("float", "clicks of the pair", single=True),
    "query": Feature("bytes", "the query as logged", single=True),
    "query_id": Feature("int64", "id of the query, see `Rules.id`", single=True),
    "query_ngrams": Feature("int64", "ids of its trigrams, word after word"),
    "query_word_ngrams": Feature("int64", "how many trigrams each of its words has"),
    "query_words": Feature("int64", "fingerprints of its words"),
    "title_clicks": Feature("int64", "clicks of each title in the training part"),
    "title_ids": Feature("int64", "id of each title"),
    "title_lengths": Feature("int64", "how many words each title has"),
    "title_ngrams": Feature("int64", "as of the query, title after title"),
    "title_queries": Feature("int64", "training pairs that hold the title, of each title"),
    "title_word_ngrams": Feature("int64", "as of the query, title after title"),
    "title_words": Feature("int64", "as of the query, title after title"),
    "titles": Feature("bytes", "the clicked title as logged, then the negatives"),
}
"""The features of a record by name, in the order they are written in."""


class Title(NamedTuple):
    """A title of the log or the corpus: its text and how often the training part clicked it.

    Args:
        text: the title as logged, or as the corpus has it.
        clicks: clicks in the training part; 0 for a title of the validation part or the corpus
            only.
        queries: (query, title) pairs of the training part that hold it.
    """

    text: str
    clicks: int = 0
    queries: int = 0


@dataclass(frozen=True)
class FeatureSpec:
    """What a reader must know of a directory of records; stored as `feature_spec.json`.

    Args:
        negatives: recorded negatives a pair (fewer where the log has no more titles).
        negative_alpha: negatives were drawn in proportion to `clicks ** negative_alpha`.
        vocabulary_size: trigrams and hash buckets.
        vocabulary_fingerprint: of the vocabulary the records were hashed with.
        records: records a split, by its name.
        clicks: clicks of the training part.
        pairs: (query, title) pairs of the training part.
        rules: how texts were read.
        title_fields: columns of which titles are made, see `dssm_tf.text.fields`.
        format_version: of the record layout.
    """

    negatives: int
    negative_alpha: float
    vocabulary_size: int
    vocabulary_fingerprint: str
    records: Mapping[str, int]
    clicks: int
    pairs: int
    rules: Rules
    title_fields: tuple[str, ...] = ("title",)
    format_version: int = _FORMAT_VERSION

    def save(self, directory: Path) -> None:
        """Writes `feature_spec.json`."""
        with atomic_write(Path(directory) / FEATURE_SPEC) as file:
            json.dump(asdict(self) | {"records": dict(self.records)}, file, indent=2)
            file.write("\n")

    @classmethod
    def load(cls, directory: Path) -> FeatureSpec:
        """Reads `feature_spec.json`.

        Raises:
            UserError: the file is missing, damaged, or of another format version.
        """
        path = Path(directory) / FEATURE_SPEC
        raw = read_json(path, "Give the directory that preprocess wrote, or run preprocess again.")
        version = raw.get("format_version") if isinstance(raw, dict) else None
        if version != _FORMAT_VERSION:
            raise UserError(
                f"{path} has record format {version!r:.60}; this version reads {_FORMAT_VERSION}. "
                "Run preprocess again."
            )
        try:
            fields = tuple(raw.get("title_fields", ("title",)))
            rules = Rules.of_json(raw["rules"])
            spec = cls(**(raw | {"rules": rules, "title_fields": fields}))
            spec._check()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} is damaged ({error}); run preprocess again.") from None
        return spec

    def _check(self) -> None:
        """Raises TypeError or ValueError where a value is none of its field."""
        sizes = {f"records.{name}": n for name, n in self.records.items()}
        for name in ("negatives", "vocabulary_size", "clicks", "pairs"):
            sizes[name] = getattr(self, name)
        for name, size in sizes.items():
            if type(size) is not int or not 0 <= size < _MOST:
                raise ValueError(f"{name} is {size!r:.60}; expected a whole number of at least 0")
        if type(self.negative_alpha) not in (int, float) or not abs(self.negative_alpha) < 100:
            raise ValueError(f"negative_alpha is {self.negative_alpha!r:.60}; expected a number")
        if not all(isinstance(name, str) for name in self.title_fields):
            raise ValueError(f"title_fields is {self.title_fields!r:.60}; expected names")
        if not isinstance(self.vocabulary_fingerprint, str):
            raise ValueError("vocabulary_fingerprint is no text")


def load_vocabulary(directory: Path, spec: FeatureSpec) -> Vocabulary:
    """The vocabulary beside a feature spec, checked against the spec's fingerprint.

    Raises:
        UserError: the vocabulary is not the one the records were hashed with.
    """
    path = Path(directory) / VOCABULARY
    vocabulary = Vocabulary.load(path, spec.rules)
    if vocabulary.fingerprint != spec.vocabulary_fingerprint:
        raise UserError(
            f"{path} has fingerprint {vocabulary.fingerprint}; the records were hashed with "
            f"{spec.vocabulary_fingerprint}. Restore the file that preprocess wrote."
        )
    return vocabulary


def load_titles(directory: Path) -> list[Title]:
    """The titles of the log and the corpus, most clicked first: `titles.tsv`.

    Its columns are title, and clicks and queries of the training part.

    Raises:
        UserError: the file is missing or a row is damaged.
    """
    path = Path(directory) / TITLES
    try:
        rows = path.read_text("utf-8").split("\n")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; preprocess writes it.") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 at byte {error.start + 1}; run preprocess again."
        ) from None
    titles = []
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        try:
            text, clicks, queries = row.split("\t")
            titles.append(Title(text, _count(clicks), _count(queries)))
        except ValueError:
            raise UserError(
                f"{path}:{number} holds {row[:60]!r}; expected title, clicks, queries."
            ) from None
    return titles


def save_titles(titles: Iterable[Title], path: Path) -> None:
    """Writes what `load_titles` reads, most clicked first, ties by text."""
    with atomic_write(path) as file:
        file.write("title\tclicks\tqueries\n")
        for text, clicks, queries in sorted(titles, key=lambda one: (-one.clicks, one.text)):
            file.write(f"{text}\t{clicks}\t{queries}\n")


def _count(text: str) -> int:
    """A number of clicks; raises ValueError where it is none."""
    if not 0 <= (count := int(text)) < _MOST:
        raise ValueError(f"{count} is no number of clicks")
    return count
