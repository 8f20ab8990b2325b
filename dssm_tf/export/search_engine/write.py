"""Writes the files of a search engine export next to its compact model."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from string import Template

from dssm_tf.common.checksums import write_checksums
from dssm_tf.common.progress import progress_of
from dssm_tf.export.search_engine.examples import query_examples
from dssm_tf.runtime.compact_files import read_compact
from dssm_tf.runtime.loading import load
from dssm_tf.runtime.maxsim import QUERY, TITLE, MaxSim
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.query_words import QueryWord, query_word
from dssm_tf.runtime.search_engine_client import SearchEngineClient
from dssm_tf.runtime.search_engine_files import (
    EXPANSION_COLUMNS,
    EXPANSIONS,
    FORMAT,
    MANIFEST,
    MODEL,
    PAIR_COLUMNS,
    PAIRS,
    TITLE_RULES,
    Manifest,
    version_of,
)
from dssm_tf.runtime.search_engine_hits import FIELDS
from dssm_tf.runtime.similar_words import SIMILAR_WORDS, SimilarWords
from dssm_tf.text.characters import TABLE as CHARACTERS
from dssm_tf.text.fields import SEPARATOR
from dssm_tf.text.letter_ngrams import BOUNDARY

MAPPING = "settings_and_mapping.json"
SYNONYMS = "synonyms.txt"
TEST_VECTORS = "test_vectors.json"
README, SPECIFICATION = "README.md", "specification.md"

SYNONYM_SIMILARITY = 0.5
"""Minimum similarity of a synonym."""
_MAX_SYNONYMS = 5


def write_search_engine(
    directory: Path,
    words: Iterable[str] | None = None,
    similar_words: int = SIMILAR_WORDS,
    title_fields: Iterable[str] = ("title",),
    name: str | None = None,
    title_of_id: Mapping[str, str] | None = None,
) -> None:
    """Writes the files of an export next to its compact model.

    Args:
        directory: the directory of the export; it has the compact model in `model/`.
        words: the words of the catalog; by default those of the training data's titles.
        similar_words: number of similar catalog words of each word; 0: all.
        title_fields: the columns that the model's titles were made of.
        name: the model's name; by default that of the compact model.
        title_of_id: titles by the engine's `_id`, for rules that name titles by their texts.
    """
    ranker = load(directory / MODEL)
    if not isinstance(ranker, MaxSimRanker):
        raise ValueError(f"{directory / MODEL} is not a maxsim model.")
    model = ranker.maxsim
    words_with_rules = {word for rule in model.search_rules.words for word in rule.words}
    catalog = sorted({*(model.frequencies.words if words is None else words), *words_with_rules})
    vectors = model.words(catalog).vectors
    # A word without a vector is similar to others only by a rule.
    catalog = [
        word
        for word, vector in zip(catalog, vectors, strict=True)
        if vector.any() or word in words_with_rules
    ]
    compact = read_compact(directory / MODEL)
    log_priors = [*compact.prior["log_priors"].tolist(), compact.settings["unseen"]]
    # With a weight of 0, -0.0 becomes 0.0.
    weighted_priors = [float(ranker.prior_weight) * value + 0.0 for value in log_priors]
    manifest = Manifest(
        format=FORMAT,
        version=version_of(directory / MODEL),
        name=name or ranker.name,
        similar_words=similar_words,
        catalog_words=len(catalog),
        query_side=float(model.side_weights[QUERY]),
        title_side=float(model.side_weights[TITLE]),
        prior_weight=float(ranker.prior_weight),
        prior_offset=min(weighted_priors),
        title_fields=tuple(title_fields),
    )
    _write_json(directory / MANIFEST, asdict(manifest))
    _write_json(directory / TITLE_RULES, _title_rules(ranker, title_of_id or {}))
    _write_json(directory / MAPPING, _settings_and_mapping(manifest.version))
    _write_expansions(directory, model, catalog, similar_words or None)
    pairs = [*model.frequencies.pairs]
    weights = model.pair_weights(pairs)
    rows = (f"{pair}\t{a:.9g}\t{b:.9g}" for pair, (a, b) in zip(pairs, weights, strict=True))
    _write_table(directory / PAIRS, PAIR_COLUMNS, rows)
    values = {
        "version": manifest.version,
        "title_fields": ",".join(manifest.title_fields),
        "similar_words": str(similar_words or "all"),
        "text_cosine": f"{compact.settings['score']['text_cosine']:g}",
        "field": FIELDS,
    }
    for file in (README, SPECIFICATION):
        text = files("dssm_tf.export.search_engine").joinpath(file).read_text("utf-8")
        (directory / file).write_text(Template(text).substitute(values), "utf-8")
    (directory / CHARACTERS.name).write_bytes(CHARACTERS.read_bytes())
    # The client, which computes the test vectors, refuses files without a matching checksum.
    write_checksums(directory)
    client = SearchEngineClient(directory)
    _write_json(directory / TEST_VECTORS, query_examples(client))
    write_checksums(directory)


def expansion_lines(
    model: MaxSim, catalog: Sequence[str], known: Sequence[str], similar_words: int | None
) -> Iterator[tuple[str, QueryWord, str]]:
    """The similar words of known words, and their lines of expansions.tsv.gz.

    Args:
        model: the model.
        catalog: the words of the catalog.
        known: the words to expand.
        similar_words: number of similar catalog words of each word; None for all.

    Yields:
        The word, its similar words, and its line without its first cell, the word.
    """
    similar = SimilarWords(model, catalog, similar_words).of_each(known)
    title_weights = model.words(known).weights[:, TITLE].tolist()
    for word, title_weight, rows in zip(known, title_weights, similar, strict=True):
        entry = query_word(model, catalog, word, rows)
        parts = " ".join(f"{name} {x:.9g}" for name, x in entry.similar.items())
        yield word, entry, f"{entry.weight:.9g}\t{title_weight:.9g}\t{parts}"


def _write_expansions(
    directory: Path, model: MaxSim, catalog: Sequence[str], similar_words: int | None
) -> None:
    """Writes the table of expansions and the synonyms; see `expansion_lines`."""
    known = [*catalog, *sorted({*model.frequencies.words} - {*catalog})]
    ngrams = model.vocabulary.whole_words
    query_only_words = {ngram.replace(BOUNDARY, "") for ngram in ngrams} - {*known}
    synonyms = []

    def rows() -> Iterator[str]:
        with progress_of("similar words", len(known), unit="words") as task:
            for word, entry, line in expansion_lines(model, catalog, known, similar_words):
                synonyms.extend(_synonym_rule(word, entry.similar))
                task.advance()
                yield f"{word}\t{line}"

    _write_table(directory / EXPANSIONS, EXPANSION_COLUMNS, rows())
    for word, entry, _ in expansion_lines(model, catalog, sorted(query_only_words), similar_words):
        synonyms.extend(_synonym_rule(word, entry.similar))
    (directory / SYNONYMS).write_text("".join(f"{rule}\n" for rule in synonyms), "utf-8")


def _synonym_rule(word: str, similar: Mapping[str, float]) -> list[str]:
    """A rule in Solr's format with the synonyms of a word; none without synonyms."""
    if SEPARATOR in word:
        return []
    synonyms = [
        name
        for name, similarity in similar.items()
        if similarity >= SYNONYM_SIMILARITY and name != word and SEPARATOR not in name
    ][:_MAX_SYNONYMS]
    return [f"{word} => {', '.join([word, *synonyms])}"] if synonyms else []


def _title_rules(
    ranker: MaxSimRanker, title_of_id: Mapping[str, str]
) -> dict[str, dict[str, list[str]]]:
    """The content of title_rules.json: the ids of the pinned and blocked titles of each query."""
    key = ranker.vocabulary.rules.key
    keys = {key(rule.title) for rule in ranker.search_rules.titles}
    ids_of_key: dict[str, list[str]] = {}
    for doc_id, title in title_of_id.items() if keys else ():
        if (title_key := key(title)) in keys:
            ids_of_key.setdefault(title_key, []).append(doc_id)
    ids_of_query: dict[str, dict[str, list[str]]] = {}
    for rule in ranker.search_rules.titles:
        ids_by_kind = ids_of_query.setdefault(rule.query, {"pinned": [], "blocked": []})
        ids = [rule.title]
        if rule.title not in title_of_id:  # the rule names the title by its text
            ids = ids_of_key.get(key(rule.title), ids)
        earlier_ids = {*ids_by_kind["pinned"], *ids_by_kind["blocked"]}
        kind = "pinned" if rule.pinned else "blocked"
        ids_by_kind[kind] += [doc_id for doc_id in ids if doc_id not in earlier_ids]
    return ids_of_query


def _settings_and_mapping(version: str) -> dict[str, object]:
    """The body of the request that creates an index; other fields can be added."""
    properties = {
        "words": {"type": "keyword", "doc_values": False},
        "norm": {"type": "double", "index": False},
        "prior": {"type": "double", "index": False},
        "version": {"type": "keyword"},
    }
    return {
        "settings": {"index": {"number_of_shards": 1}},
        "mappings": {
            "_meta": {FIELDS: {"version": version}},
            "properties": {FIELDS: {"dynamic": "strict", "properties": properties}},
        },
    }


def _write_table(path: Path, columns: tuple[str, ...], rows: Iterable[str]) -> None:
    """Writes a compressed table; equal rows give equal bytes."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", mtime=0, fileobj=file) as compressed,
        io.TextIOWrapper(compressed, "utf-8", newline="\n") as text,
    ):
        text.write("\t".join(columns) + "\n")
        text.writelines(f"{row}\n" for row in rows)


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
