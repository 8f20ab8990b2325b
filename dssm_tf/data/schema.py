"""One training record, `ClickExample`, and what it is made of: feature names and the spec file.

A record is one (query, clicked title) pair of the log with its recorded negatives, hashed to
letter trigrams. `dssm_tf.data.dataset` reads it back in batches.

| feature | type | length | what |
|---|---|---|---|
| `query`, `titles` | bytes | 1, 1 + negatives | the texts, clicked title first |
| `query_id`, `title_ids` | int64 | 1, 1 + negatives | fingerprints of the normalised texts |
| `clicked_ids` | int64 | any | every title clicked for this query anywhere in the log |
| `clicks` | float | 1 | clicks of the pair |
| `title_clicks` | int64 | 1 + negatives | clicks of each title in the training part |
| `title_queries` | int64 | 1 + negatives | training pairs that hold the title |
| `query_words` | int64 | words | fingerprints of the words |
| `query_word_ngrams` | int64 | words | how many trigrams each word has |
| `query_ngrams` | int64 | trigrams | trigram ids, word after word |
| `title_lengths` | int64 | 1 + negatives | how many words each title has |
| `title_words`, `title_word_ngrams`, `title_ngrams` | int64 | | as of the query, in title order |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.data.example_proto import Example
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.normalize import normalize
from dssm_tf.text.vocabulary import TextLimits, Vocabulary

FORMAT_VERSION = 1
FEATURE_SPEC = "feature_spec.json"
VOCABULARY = "vocabulary.txt"
TITLES = "titles.tsv"


@dataclass(frozen=True)
class Title:
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
class ClickExample:
    """A (query, clicked title) pair with its negatives, before hashing.

    Args:
        query: the query as logged.
        titles: the clicked title, then the negatives.
        clicks: clicks of the pair.
        clicked_ids: `text_id` of every title clicked for the query anywhere in the log.
    """

    query: str
    titles: Sequence[Title]
    clicks: float
    clicked_ids: Sequence[int]

    def serialize(self, vocabulary: Vocabulary) -> bytes:
        """The record as `tf.train.Example` bytes."""
        query_words = vocabulary.words(self.query)
        title_words = [vocabulary.words(title.text) for title in self.titles]
        flat_words = [word for one in title_words for word in one]
        query_ids = [vocabulary.ngram_ids(word) for word in query_words]
        title_ids = [vocabulary.ngram_ids(word) for word in flat_words]
        return _serialize(
            {
                "query": [self.query.encode("utf-8", "replace")],
                "titles": [title.text.encode("utf-8", "replace") for title in self.titles],
            },
            {"clicks": [float(self.clicks)]},
            {
                "query_id": [text_id(self.query)],
                "title_ids": [text_id(title.text) for title in self.titles],
                "clicked_ids": list(self.clicked_ids),
                "title_clicks": [title.clicks for title in self.titles],
                "title_queries": [title.queries for title in self.titles],
                "query_words": [_word_id(word) for word in query_words],
                "query_word_ngrams": [len(ids) for ids in query_ids],
                "query_ngrams": [i for ids in query_ids for i in ids],
                "title_lengths": [len(one) for one in title_words],
                "title_words": [_word_id(word) for word in flat_words],
                "title_word_ngrams": [len(ids) for ids in title_ids],
                "title_ngrams": [i for ids in title_ids for i in ids],
            },
        )


def text_id(text: str) -> int:
    """The fingerprint of a text's normalised form: equal for texts no model can tell apart."""
    return fingerprint64(normalize(text))


_word_id = lru_cache(maxsize=1 << 18)(fingerprint64)


def _serialize(
    texts: Mapping[str, list[bytes]],
    floats: Mapping[str, list[float]],
    integers: Mapping[str, list[int]],
) -> bytes:
    example = Example()
    feature = example.features.feature
    for name, values in texts.items():
        feature[name].bytes_list.value.extend(values)
    for name, numbers in floats.items():
        feature[name].float_list.value.extend(numbers)
    for name, whole in integers.items():
        feature[name].int64_list.value.extend(whole)
    data: bytes = example.SerializeToString(deterministic=True)
    return data


@dataclass(frozen=True)
class FeatureSpec:
    """What a reader must know of a directory of records; stored as `feature_spec.json`.

    Args:
        negatives: recorded negatives a pair (fewer where the log has no more titles).
        negative_alpha: negatives were drawn in proportion to `clicks ** negative_alpha`.
        limits: how texts were cut.
        vocabulary_size: trigrams and hash buckets.
        vocabulary_fingerprint: of the vocabulary the records were hashed with.
        records: records a split, by its name.
        clicks: clicks of the training part.
        pairs: (query, title) pairs of the training part.
        format_version: of the record layout.
    """

    negatives: int
    negative_alpha: float
    vocabulary_size: int
    vocabulary_fingerprint: str
    records: Mapping[str, int]
    clicks: int
    pairs: int
    limits: TextLimits = field(default_factory=TextLimits)
    format_version: int = FORMAT_VERSION

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
        try:
            raw: dict[str, Any] = json.loads(path.read_text("utf-8"))
            version = raw["format_version"]
            if version != FORMAT_VERSION:
                raise UserError(
                    f"{path} has record format {version}; this version reads {FORMAT_VERSION}. "
                    "Run preprocess again."
                )
            return cls(**(raw | {"limits": TextLimits(**raw["limits"])}))
        except FileNotFoundError:
            raise UserError(
                f"{path} does not exist; give the directory that preprocess wrote."
            ) from None
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} is damaged ({error}); run preprocess again.") from None


def load_vocabulary(directory: Path, spec: FeatureSpec) -> Vocabulary:
    """The vocabulary beside a feature spec, checked against the spec's fingerprint.

    Raises:
        UserError: the vocabulary is not the one the records were hashed with.
    """
    path = Path(directory) / VOCABULARY
    vocabulary = Vocabulary.load(path, spec.limits)
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
    titles = []
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        try:
            text, clicks, queries = row.split("\t")
            titles.append(Title(text, int(clicks), int(queries)))
        except ValueError:
            raise UserError(
                f"{path}:{number} holds {row[:60]!r}; expected title, clicks, queries."
            ) from None
    return titles
