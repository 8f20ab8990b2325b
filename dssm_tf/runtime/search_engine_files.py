"""Reads and checks the files of a search engine export, `dssm export --format opensearch`.

manifest.json       see `Manifest`
expansions.tsv.gz   a line per known word, with the columns `word`, `query_weight`, `title_weight`
                    and `similar`: catalog words and their similarities, most similar first, such as
                    `fridge 1 refrigerator 0.83`. The first `catalog_words` lines are the words of
                    the catalog, which queries are expanded to
pairs.tsv.gz        a line per known pair, with the columns `pair`, `query_weight`, `title_weight`
title_rules.json    the pinned and blocked titles of queries, see `PinnedAndBlocked`
model/              the compact model, see `compact_files`: letters of unknown words, and priors
SHA256SUMS

The specification and test vectors for other languages, the mapping, the synonyms and the README are
not read here.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from dssm_tf.common.checksums import check_files
from dssm_tf.common.errors import UserError
from dssm_tf.common.json_files import read_json
from dssm_tf.common.model_versions import newest_version, versions_in
from dssm_tf.runtime.compact_files import (
    COMPACT,
    DOCUMENT_FREQUENCIES,
    PRIOR,
    VOCABULARY,
    WEIGHTS,
)
from dssm_tf.runtime.loading import load
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker

MANIFEST = "manifest.json"
EXPANSIONS = "expansions.tsv.gz"
PAIRS = "pairs.tsv.gz"
TITLE_RULES = "title_rules.json"
MODEL = "model"

FORMAT = 1
"""Increased when older versions of this package cannot read the files."""

EXPANSION_COLUMNS = ("word", "query_weight", "title_weight", "similar")
PAIR_COLUMNS = ("pair", "query_weight", "title_weight")

_NUMBER = r"\d{1,10}(?:\.\d+)?(?:e-\d{1,3})?"
_SIMILAR = r"[^\s]+ (?:1|0(?:\.\d+)?|[1-9](?:\.\d+)?e-\d{1,3})"  # a word, and a number from 0 to 1
_ROW_PATTERNS = {
    EXPANSION_COLUMNS: re.compile(
        rf"[^\s]+\t{_NUMBER}\t{_NUMBER}\t(?:{_SIMILAR}(?: {_SIMILAR})*)?", re.ASCII
    ),
    PAIR_COLUMNS: re.compile(rf"[^\s]+ [^\s]+\t{_NUMBER}\t{_NUMBER}", re.ASCII),
}
_MAX_RATIO = 64  # characters of a table for each byte of its file; real ones have two to five
_LARGEST = {"query_side": 1e9, "title_side": 1e9, "prior_weight": 1e6, "prior_offset": 1e12}

_HINT = "Copy the directory again, or write it again with `dssm export --format opensearch`."


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json.

    Args:
        format: `FORMAT`.
        version: 16 hexadecimal digits that change with the model. Documents, mapping and table have
            the same version. It does not depend on the catalog.
        name: the model's name.
        similar_words: maximum number of similar catalog words of a query word.
        catalog_words: number of words that queries are expanded to.
        query_side: weight of the query side of the score.
        title_side: weight of the title side.
        prior_weight: weight of the log-prior; 0 if the model has none.
        prior_offset: the smallest weighted log-prior. The field `prior` of a document is the
            title's weighted log-prior minus this number, because engines allow no negative scores.
        title_fields: the columns that the model's titles were made of.
    """

    format: int
    version: str
    name: str
    similar_words: int
    catalog_words: int
    query_side: float
    title_side: float
    prior_weight: float
    prior_offset: float
    title_fields: tuple[str, ...]


class PinnedAndBlocked(NamedTuple):
    """The titles that rules by hand pin or block for a query, by the engine's `_id`.

    Attributes:
        pinned: titles that come first, in this order.
        blocked: titles that are left out.
    """

    pinned: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class SearchEngineFiles(NamedTuple):
    """The content of an export.

    Attributes:
        directory: the directory of the version.
        manifest: the content of manifest.json.
        lines: for each known word, the rest of its line of expansions.tsv.gz, catalog words first.
        pairs: for each known pair, its weights in queries and in titles.
        ranker: the model.
        title_rules: pinned and blocked titles by the words of a query, joined by spaces.
    """

    directory: Path
    manifest: Manifest
    lines: dict[str, str]
    pairs: dict[str, tuple[float, float]]
    ranker: MaxSimRanker
    title_rules: dict[str, PinnedAndBlocked]


def read_search_engine(directory: Path | str) -> SearchEngineFiles:
    """Reads and checks an export.

    Args:
        directory: a version; a model, then its newest version is read; or a directory with exactly
            one model.

    Raises:
        UserError: the directory does not exist or has another format, or a file was damaged or
            changed.
    """
    directory = _find_version(Path(directory))
    check_files(directory, (MANIFEST, EXPANSIONS, PAIRS, TITLE_RULES), _HINT)
    manifest = _read_manifest(directory / MANIFEST)
    ranker = load(directory / MODEL)
    if not isinstance(ranker, MaxSimRanker):
        raise UserError(f"{directory / MODEL} is not a maxsim model. {_HINT}")
    if (version := version_of(directory / MODEL)) != manifest.version:
        raise UserError(
            f"{directory / MODEL} has version {version!r}, {MANIFEST} {manifest.version!r:.40}. "
            f"{_HINT}"
        )
    lines = dict(_split(line, 1) for line in _rows(directory / EXPANSIONS, EXPANSION_COLUMNS))
    pairs = {
        pair: (float(query_weight), float(title_weight))
        for pair, query_weight, title_weight in (
            _split(line, 2) for line in _rows(directory / PAIRS, PAIR_COLUMNS)
        )
    }
    if len(lines) < manifest.catalog_words:
        raise UserError(
            f"{directory / EXPANSIONS} has {len(lines)} words; {MANIFEST} says "
            f"{manifest.catalog_words} catalog words. {_HINT}"
        )
    if pairs.keys() != ranker.maxsim.frequencies.pairs.keys():
        raise UserError(f"{directory / PAIRS} has other pairs than {directory / MODEL}. {_HINT}")
    title_rules = _read_title_rules(directory / TITLE_RULES)
    return SearchEngineFiles(directory, manifest, lines, pairs, ranker, title_rules)


def version_of(model: Path) -> str:
    """The version of a compact model: 16 hexadecimal digits.

    It is a hash of the files from which the fields of documents are computed.

    Args:
        model: the directory of the compact model.
    """
    digest = sha256(f"{FORMAT}".encode())
    for name in (COMPACT, VOCABULARY, WEIGHTS, PRIOR, DOCUMENT_FREQUENCIES):
        digest.update(sha256((model / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


def _find_version(path: Path) -> Path:
    """The directory of the version to read, see `read_search_engine`."""
    version = newest_version(path)
    models = [child for child in path.glob("*") if versions_in(child)]
    if not (version / MANIFEST).exists() and len(models) == 1:
        return newest_version(models[0])
    return version


def _split(line: str, tabs: int) -> tuple[Any, ...]:
    return tuple(line.split("\t", tabs))


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[str]:
    """The lines of a compressed table after its header.

    Raises:
        UserError: the file cannot be read, is far larger than its compressed form, or its header or
            a line is not as expected.
    """
    characters_left = _MAX_RATIO * path.stat().st_size
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            header = file.readline(characters_left).rstrip("\n")
            if header != "\t".join(columns):
                raise UserError(
                    f"{path} has the columns {header!r:.80}; expected {', '.join(columns)}. {_HINT}"
                )
            line_number = 2
            while line := file.readline(characters_left):  # a small file must not fill the memory
                characters_left -= len(line)
                if characters_left <= 0:
                    raise UserError(f"{path} becomes too large when it is decompressed. {_HINT}")
                row = line.rstrip("\n")
                if not _ROW_PATTERNS[columns].fullmatch(row):
                    raise UserError(
                        f"{path}:{line_number} is {row!r:.60}; expected {', '.join(columns)}, with "
                        f"a tab between two columns. {_HINT}"
                    )
                yield row
                line_number += 1
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: {error}. {_HINT}") from None


def _read_title_rules(path: Path) -> dict[str, PinnedAndBlocked]:
    """Reads title_rules.json."""
    content = read_json(path, _HINT)
    try:
        return {
            query: PinnedAndBlocked(_texts(titles["pinned"]), _texts(titles["blocked"]))
            for query, titles in content.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is not as expected ({error!r:.80}). {_HINT}") from None


def _texts(values: Any) -> tuple[str, ...]:
    """A list of texts as a tuple; raises TypeError for other values."""
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{values!r:.40} is not a list of texts")
    return tuple(values)


def _read_manifest(path: Path) -> Manifest:
    """Reads and checks manifest.json."""
    content = read_json(path, _HINT)
    version = content.get("format") if isinstance(content, dict) else None
    if version != FORMAT:
        raise UserError(
            f"{path} is of format {version!r:.20}; this version reads {FORMAT}. Install the "
            "version of dssm-tf or dssm-runtime that wrote it, or export the model again."
        )
    types = {field.name: field.type for field in fields(Manifest)}
    for name, kind in types.items():
        if not _is_valid(content.get(name), str(kind), _LARGEST.get(name, 0.0)):
            raise UserError(f"{path}: {name} is {content.get(name)!r:.60}. {_HINT}")
    values = {name: content[name] for name in types}
    return Manifest(**values | {"title_fields": tuple(values["title_fields"])})


def _is_valid(value: Any, kind: str, largest: float) -> bool:
    """Whether a JSON value is of the type of a field of `Manifest`, and a number is in its range.

    Args:
        value: the value.
        kind: the type of the field.
        largest: the largest absolute value of a float.
    """
    if kind == "int":
        return type(value) is int and 0 <= value < 1 << 31
    if kind == "float":
        return type(value) in (int, float) and -largest <= value <= largest
    if kind == "str":
        return isinstance(value, str) and bool(value)
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
