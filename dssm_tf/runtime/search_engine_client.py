"""Turns a query into the query DSL of OpenSearch and Elasticsearch: the score maxsim in an engine.

    client = SearchEngineClient("ENGINE/maxsim")
    client.check_index(json_of("GET /shop/_mapping"))
    body = {"query": client.query("stainles steel fridge"), "size": RESCORED}
    answer = json_of("POST /shop/_search", body)
    hits = client.rescored("stainles steel fridge", answer["hits"]["hits"])[:10]

The score of a document equals the model's score of its title, see `dssm_tf.runtime.maxsim`, with
two differences. A query word is similar only to itself and to its `similar_words` most similar
catalog words. And an engine has no text vectors, so its score lacks their cosine; `rescored` adds
it to the first hits. specification.md in the export defines the DSL for clients in other languages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.boosts import Boosts
from dssm_tf.runtime.corrections import (
    Correction,
    KnownWord,
    correct_word,
    may_be_corrected,
)
from dssm_tf.runtime.good_match import FIRST_TITLES, is_good_match
from dssm_tf.runtime.maxsim import TITLE
from dssm_tf.runtime.query_words import QueryWord, query_word
from dssm_tf.runtime.search_engine_files import (
    PinnedAndBlocked,
    SearchEngineFiles,
    read_search_engine,
)
from dssm_tf.runtime.search_engine_hits import (
    FIELDS,
    TEXT_COSINE,
    Json,
    model_fields,
    parts_of_hit,
    with_text_cosine,
)
from dssm_tf.runtime.similar_words import SimilarWords
from dssm_tf.text.fields import split_mark

WORDS, NORM, PRIOR, VERSION = (f"{FIELDS}.{name}" for name in ("words", "norm", "prior", "version"))

MAX_TERMS = 1000
"""Default maximum number of terms of a query. Engines allow 1,024, filters included."""
_SMALLEST_BOOST = 1e-30  # float32 would round smaller ones to 0, and engines match a boost of 0

RESCORED = 200
"""The number of hits to request for `SearchEngineClient.rescored`, as many as an index rescores."""

PIN_STEP = 1000.0
"""A pinned title scores this much more than the next one; a model's scores are far smaller."""

Weights = tuple[float, float]
"""The weight of a pair in queries and its weight in titles."""


class SearchEngineClient:
    """Writes queries for an index whose documents have the fields of one model.

    Several threads may use it.

    Args:
        export: a directory of `dssm export --format opensearch`, or the content of one.

    Raises:
        UserError: see `read_search_engine`.
    """

    def __init__(self, export: SearchEngineFiles | Path | str) -> None:
        files = export if isinstance(export, SearchEngineFiles) else read_search_engine(export)
        self.manifest = files.manifest
        self.vocabulary = files.ranker.vocabulary
        self.pairs = files.pairs
        self.title_rules = files.title_rules
        self._lines = files.lines
        self.ranker = files.ranker
        self._model = files.ranker.maxsim
        self.catalog = list(islice(files.lines, files.manifest.catalog_words))
        self._similar_words = SimilarWords(
            self._model, self.catalog, files.manifest.similar_words or None
        )

    def query(
        self,
        text: str,
        prior: bool = True,
        max_terms: int = MAX_TERMS,
        boosts: Boosts | None = None,
    ) -> Json:
        """Writes the query DSL of a query.

        Args:
            text: the user's query.
            prior: whether to add the title's prior, if the model has one. A document's score is
                then the model's score minus `manifest.prior_offset`.
            max_terms: maximum number of terms. The least similar words are dropped first.
            boosts: weights by numeric fields of the documents: `weight * ln(1 + number)` is added,
                see `dssm_tf.runtime.boosts`. A document without the field gets 0. The engine
                refuses negative numbers.

        Returns:
            A query for the key `query` of a search; it matches nothing if the text has no word that
            is similar to a word of the catalog, and no pinned title.
        """
        titles = self._titles_with_rules(text)
        if titles is None:
            return _boosted(self._word_query(text, prior, max_terms), boosts or {})
        max_terms = max(0, max_terms - len(titles.pinned) - bool(titles.blocked))
        query = _boosted(self._word_query(text, prior, max_terms), boosts or {})
        return _with_pinned_and_blocked(query, titles)

    @property
    def text_cosine(self) -> float:
        """The factor of the cosine of text vectors; with 0, `rescored` changes no hit."""
        text_vectors = self._model.text_vectors
        return 0.0 if text_vectors is None else text_vectors.factor

    def rescored(self, text: str, hits: Sequence[Json]) -> list[Json]:
        """Adds the cosine of text vectors to the scores of an engine's first hits, and sorts them.

        Request `RESCORED` hits, sorted by score, and cut the result to the size of a page. Pinned
        titles stay on top. Hits with equal scores stay in the order of the engine.

        Args:
            text: the user's query.
            hits: hits of the engine's answer, with `_score` and `_source.dssm.words`.

        Returns:
            Copies of the hits, best first. `_score` includes the cosine, and the new key
            `text_cosine` is this part; a hit that has the key already keeps its score. If the
            model has no text vectors, the hits as they are.

        Raises:
            UserError: a hit lacks its score or its words.
        """
        text_vectors = self._model.text_vectors
        if text_vectors is None:
            return list(hits)
        return with_text_cosine(text_vectors, self.words(text), hits)

    def parts(
        self, text: str, hit: Json, prior: bool = True, boosts: Boosts | None = None
    ) -> dict[str, float]:
        """The parts of the score of a hit, which add up to it.

        Args:
            text: the user's query.
            hit: a hit of `rescored` or of the engine's answer, with `_score` and `_source`.
            prior: see `query`.
            boosts: see `query`.

        Returns:
            `words_and_pairs`; `text_cosine`, 0 unless `rescored` returned the hit; `prior`;
            `boost_FIELD` for each boost; and `pinned` for a pinned title.

        Raises:
            UserError: the hit lacks its score or the model's fields.
        """
        has_prior = prior and self.manifest.prior_weight != 0
        return parts_of_hit(hit, has_prior, boosts or {}, self._pin_boost(text, hit))

    def has_good_match(
        self, text: str, hits: Sequence[Json], prior: bool = True, boosts: Boosts | None = None
    ) -> bool:
        """Whether a search has a good match, by the rule of `dssm_tf.runtime.good_match`.

        Its similarity includes the cosine of text vectors. If hits lack it, it is computed here.

        Args:
            text: the user's query.
            hits: the first ten hits of `rescored`, or all if there are fewer. If the engine's
                order is shown, the first ten of its answer.
            prior: see `query`.
            boosts: see `query`.

        Raises:
            UserError: a hit lacks its score or the model's fields.
        """
        words, cutoff = self.words(text), self.ranker.cutoff
        if not words:
            return False
        for hit in self.rescored(text, hits[:FIRST_TITLES]):
            parts = self.parts(text, hit, prior, boosts)
            similarity = parts["words_and_pairs"] + parts[TEXT_COSINE]
            title = model_fields(hit, "words")["words"]
            if "pinned" in parts or is_good_match(cutoff, similarity, words, title):
                return True
        return False

    def _titles_with_rules(self, text: str) -> PinnedAndBlocked | None:
        """The titles that rules pin or block for a query; None if there are none."""
        return self.title_rules.get(" ".join(self.vocabulary.words(text)))

    def _pin_boost(self, text: str, hit: Json) -> float:
        """The part of the score that pins a hit; 0 if it is not pinned."""
        titles = self._titles_with_rules(text)
        if titles is None or hit.get("_id") not in titles.pinned:
            return 0.0
        return PIN_STEP * (len(titles.pinned) - titles.pinned.index(hit["_id"]))

    def _word_query(self, text: str, prior: bool, max_terms: int) -> Json:
        """The query DSL of a query, without boosts, pinned and blocked titles; see `query`."""
        words = {word: self.word(word) for word in self.words(text)}
        pairs = {pair: self.pairs[pair] for pair in self.pairs_of(text)}
        total = sum(word.weight for word in words.values())
        total += sum(query_weight for query_weight, _ in pairs.values())
        words, pairs = _most_similar(words, pairs, max_terms // 2)
        scale = self.manifest.query_side / total if total else 0.0
        clauses = []
        best: dict[str, float] = {}  # the highest similarity of each title word
        for weight, similar in words.values():
            clauses += _dis_max([_term(name, scale * weight * x) for name, x in similar.items()])
            best |= {name: max(x, best.get(name, 0.0)) for name, x in similar.items()}
        clauses += [_term(pair, scale * query_weight) for pair, (query_weight, _) in pairs.items()]
        title_side = [_term(name, self.title_weight(name) * x) for name, x in best.items()]
        title_side += [_term(pair, title_weight) for pair, (_, title_weight) in pairs.items()]
        clauses += self._title_side_clauses(title_side)
        query = _any_of(clauses)
        if query and prior and self.manifest.prior_weight:
            query = _with_field_value(query, {"field": PRIOR, "missing": 0}, "sum")
        return query or {"match_none": {}}

    def words(self, text: str) -> list[str]:
        """The distinct words of a text, in order."""
        return list(dict.fromkeys(self.vocabulary.words(text)))

    def pairs_of(self, text: str) -> list[str]:
        """The distinct known pairs of neighboring words of a text, in order."""
        return self._model.frequencies.pairs_of(self.vocabulary.words(text))

    def word(self, word: str) -> QueryWord:
        """The weight and the similar words of a query word, from the table or by its letters."""
        if (line := self._lines.get(word)) is None:
            return query_word(self._model, self.catalog, word, self._similar_words.of_word(word))
        weight, _, similar = line.split("\t")
        parts = similar.split(" ") if similar else []
        return QueryWord(float(weight), dict(zip(parts[::2], map(float, parts[1::2]), strict=True)))

    def corrections(self, text: str) -> list[Correction]:
        """The unknown words of a query, and the known words that they may mean.

        `dssm_tf.runtime.corrections.corrected_query` applies them to the query.
        """
        corrections = []
        title_counts = self._model.frequencies.words
        for word in self.words(text):
            is_known = word in self._lines or any(self.ranker.search_rules.of_word(word))
            if is_known or not may_be_corrected(word):
                continue
            similar = [
                KnownWord(split_mark(known)[1], similarity, title_counts.get(known, 0))
                for known, similarity in self.word(word).similar.items()
                if known != word
            ]
            correction = correct_word(word, similar)
            corrections += [] if correction is None else [correction]
        return corrections

    def title_weight(self, word: str) -> float:
        """The weight of a word in titles, `b` of `dssm_tf.runtime.maxsim`."""
        if (line := self._lines.get(word)) is not None:
            return float(line.split("\t", 2)[1])
        return float(self._model.words([word]).weights[0, TITLE])

    def check_index(self, mapping: Mapping[str, Any], other_documents: int = 0) -> None:
        """Checks that an index has the fields of this model.

        Args:
            mapping: the response of `GET /INDEX/_mapping`.
            other_documents: the `count` of `POST /INDEX/_count` with the body `other_versions`.

        Raises:
            UserError: mapping or documents are of another version.
        """
        version = self.manifest.version
        indexes = mapping if "mappings" not in mapping else {"the index": mapping}
        if not indexes:
            raise UserError("there is no such index; create it with settings_and_mapping.json.")
        for name, index in indexes.items():
            meta = index.get("mappings", {}).get("_meta", {}).get(FIELDS, {})
            if (index_version := meta.get("version")) != version:
                raise UserError(
                    f"{name} has the fields of version {index_version or 'none'}, the table of "
                    f"expansions is of version {version}; use the export that the documents were "
                    "made with, or write them again with `dssm documents`."
                )
        if other_documents:
            raise UserError(
                f"{other_documents:,} documents have fields of another version than {version}; "
                "write them again with `dssm documents`."
            )

    @property
    def other_versions(self) -> Json:
        """A search for documents with the fields of another version."""
        same = {"term": {VERSION: self.manifest.version}}
        return {"query": {"bool": {"filter": [{"exists": {"field": VERSION}}], "must_not": [same]}}}

    def _title_side_clauses(self, terms: list[Json | None]) -> list[Json | None]:
        """The title side of the score as a list of one clause; empty without terms.

        The sum of the terms is divided by the sum of the weights of the title, by the field `norm`.
        """
        query = _any_of(terms)
        if not query or not self.manifest.title_side:
            return []
        norm = {"field": NORM, "factor": self.manifest.title_side, "missing": 0}
        return [_with_field_value(query, norm, "multiply")]


def _most_similar(
    words: dict[str, QueryWord], pairs: dict[str, Weights], limit: int
) -> tuple[dict[str, QueryWord], dict[str, Weights]]:
    """The `limit` most similar of all similar words and pairs of a query.

    Each of them is one term of the query side, and at most one of the title side. Of equally
    similar ones, the last of the query are dropped. A pair has similarity 1 and follows all words.
    """
    entries = [(word, name, x) for word in words for name, x in words[word].similar.items()]
    entries += [(pair, pair, 1.0) for pair in pairs]
    if len(entries) <= limit:
        return words, pairs
    entries.sort(key=lambda entry: -entry[2])
    selected = {(word, name) for word, name, _ in entries[:limit]}
    return (
        {
            word: QueryWord(weight, {v: x for v, x in similar.items() if (word, v) in selected})
            for word, (weight, similar) in words.items()
        },
        {pair: weights for pair, weights in pairs.items() if (pair, pair) in selected},
    )


def _term(term: str, score: float) -> Json | None:
    """A clause that adds a score to documents with a term; None if the score is 0."""
    boost = float(f"{score:.7g}")
    if boost < _SMALLEST_BOOST:
        return None
    return {"constant_score": {"filter": {"term": {WORDS: term}}, "boost": boost}}


def _dis_max(terms: list[Json | None]) -> list[Json | None]:
    """The largest score of some terms, as a list of one clause; empty without terms.

    Engines refuse a `dis_max` without queries.
    """
    queries = list(filter(None, terms))
    return [{"dis_max": {"queries": queries}}] if queries else []


def _any_of(clauses: list[Json | None]) -> Json:
    """The sum of the scores of matching clauses; empty without clauses."""
    should = list(filter(None, clauses))
    return {"bool": {"should": should, "minimum_should_match": 1}} if should else {}


def _with_pinned_and_blocked(query: Json, titles: PinnedAndBlocked) -> Json:
    """A query with pinned and blocked documents."""
    pins = [
        {
            "constant_score": {
                "filter": {"ids": {"values": [pinned]}},
                "boost": PIN_STEP * (len(titles.pinned) - row),
                "_name": f"pinned {row + 1}",  # engines report one query per name
            }
        }
        for row, pinned in enumerate(titles.pinned)
    ]
    body: Json = {"should": [query, *pins], "minimum_should_match": 1}
    if titles.blocked:
        body["must_not"] = [{"ids": {"values": list(titles.blocked)}}]
    return {"bool": body}


def _boosted(query: Json, boosts: Boosts) -> Json:
    """A query with boosts by fields of the documents; one that matches nothing is unchanged."""
    if not boosts or "match_none" in query:
        return query
    functions = [
        {
            "field_value_factor": {"field": field, "modifier": "ln1p", "missing": 0},
            "weight": weight,
        }
        for field, weight in boosts.items()
    ]
    return {
        "function_score": {
            "query": query, "functions": functions, "score_mode": "sum", "boost_mode": "sum"
        }
    }  # fmt: skip


def _with_field_value(query: Json, factor: Json, mode: str) -> Json:
    """A query whose score is added to a number of the document, or multiplied by it.

    Args:
        query: the query.
        factor: the body of `field_value_factor`: the field and a factor.
        mode: `sum` or `multiply`.
    """
    return {"function_score": {"query": query, "field_value_factor": factor, "boost_mode": mode}}
