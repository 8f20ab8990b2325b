"""Searches an index and returns plain data: the work of `/v1/search`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from pydantic import ValidationError

from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.hits import AnyHit, LexicalHit, MatchHit, SearchResult
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.opening import AnyIndex
from dssm_tf.retrieval.records import hit_record
from dssm_tf.server.limits import INVALID, Refusal
from dssm_tf.server.search_schema import (
    MAX_EXPLAINED_TITLES,
    MatchedWord,
    Result,
    SearchRequest,
    SearchResponse,
)
from dssm_tf.tables.cells import one_line, shown_text
from dssm_tf.text.fields import split_mark

_MAX_TITLE_LENGTH = 1000  # characters of a title in a response
_MAX_EXPLAINED_WORDS = 64  # of the query and the title together
_MIN_SIMILARITY = 0.7  # of the letters of a misspelled word and its correction


def parse_json(raw: bytes) -> SearchRequest:
    """Reads the body of a POST request.

    Raises:
        Refusal: it is not such a request.
    """
    try:
        return SearchRequest.model_validate_json(raw)
    except ValidationError as error:
        raise _refusal(error) from None


def parse_parameters(parameters: Mapping[str, str]) -> SearchRequest:
    """Reads the parameters of a GET request; `filters` is JSON.

    Raises:
        Refusal: a parameter is unknown or has another type.
    """
    fields: dict[str, Any] = {}
    for name, text in parameters.items():
        try:
            fields[name] = text if name in ("query", "ranking") else json.loads(text)
        except (ValueError, RecursionError):
            raise Refusal(INVALID, f"{name:.100}: {text!r:.100} is not JSON.") from None
    try:
        return SearchRequest.model_validate(fields)
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> Refusal:
    """The first error of a request, in one line."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"])) or "the body"
    return Refusal(INVALID, f"{field:.200}: {first['msg']}.")


def search(index: AnyIndex, version: int, request: SearchRequest) -> SearchResponse:
    """Searches an index.

    Args:
        index: the index.
        version: its version number, for the response.
        request: the search.

    Raises:
        Refusal: a filter is not one of this index.
    """
    query = one_line(request.query).strip()
    filters = {
        name: [values] if isinstance(values, str) else values
        for name, values in request.filters.items()
    }
    ranking: str = request.ranking or "semantic"
    try:
        if ranking == "bm25" and isinstance(index, MaxSimIndex):
            allowed = index.filters.mask(filters) if filters else None
            lexical_hits = index.lexical_ranking.search(query, request.k, allowed)
            result = SearchResult({"bm25": lexical_hits}, "")
        else:
            result = index.search(query, request.k, filters=filters)
    except UserError as error:
        raise Refusal(INVALID, str(error)) from None
    hits = result.rankings[ranking]
    results = [_result(index, query, hit) for hit in hits]
    if request.explain:
        for shown, hit in zip(results[:MAX_EXPLAINED_TITLES], hits, strict=False):
            shown.explanation = _explanation(index, ranking, query, hit.title)
    return SearchResponse(
        query=query, model=index.model.name, version=version, ranking=ranking,
        no_good_match=bool(result.note), note=result.note, corrected=_corrected(index, results),
        rules=[one_line(sentence) for sentence in result.blocked], results=results,
    )  # fmt: skip


def _result(index: AnyIndex, query: str, hit: AnyHit) -> Result:
    """A hit as plain data, with a truncated title."""
    split = index.model.vocabulary.words
    record = hit_record(hit) | {"title": shown_text(hit.title, _MAX_TITLE_LENGTH)}
    marked = hit.title_parts(query, split)
    record["title_parts"] = [{"text": text, "is_match": is_match} for text, is_match in marked]
    if isinstance(hit, MatchHit):
        record["applied_rules"] = list(map(one_line, hit.applied_rules()))
        record["shown_parts"] = hit.parts()
        for word, shown in zip(record["words"], hit.matched_words(split), strict=True):
            word["word"] = split_mark(word["word"])[1]  # without the mark of its field
            word["match"] = word["match"] and split_mark(word["match"])[1]
            word |= {"spelled": shown.match, "is_same": shown.is_same, "rule": shown.rule}
    elif isinstance(hit, LexicalHit):
        record["parts"] = {"bm25": hit.score}
    else:
        record["shown_parts"] = hit.parts()
    return Result.model_validate(record)


def _corrected(index: AnyIndex, results: Sequence[Result]) -> list[MatchedWord]:
    """Query words that no title has, with the first matched word of similar spelling.

    A word with a similar use but other letters, such as `shoe` for `sneaker`, is not a correction.
    """
    corrected: dict[str, MatchedWord] = {}
    if isinstance(index, MaxSimIndex):
        for word in (word for result in results for word in result.words):
            if word.match is None or word.word in corrected or index.has_word(word.word):
                continue
            if SequenceMatcher(None, word.word, word.match, False).ratio() >= _MIN_SIMILARITY:
                corrected[word.word] = word
    return [*corrected.values()]


def _explanation(index: AnyIndex, ranking: str, query: str, title: str) -> dict[str, Any]:
    """The explanation of a title as plain data; `error` if it has none."""
    from dssm_tf.analysis.explanation import explain

    ranker: Any = index.model
    if ranking == "bm25" and not isinstance(index, MaxSimIndex):
        ranker = index.bm25
    words = index.model.vocabulary.rules.words
    if len(words(query)) + len(words(title)) > _MAX_EXPLAINED_WORDS:
        return {"error": f"Only pairs with at most {_MAX_EXPLAINED_WORDS} words are explained."}
    try:
        explanation = explain(ranker, query, title)
        summary = f"{explanation.score_breakdown()}."
        return explanation.to_json() | {"summary": summary, "method": explanation.method}
    except UserError as error:
        return {"error": str(error)}
