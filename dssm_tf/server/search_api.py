"""Searches an index and returns plain data: the work of `/v1/search`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.hits import AnyHit, LexicalHit, MatchHit
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.opening import AnyIndex, search_index
from dssm_tf.retrieval.records import hit_record
from dssm_tf.server.bodies import refuse_repeated_keys, refuse_repeats
from dssm_tf.server.explaining import explain_title
from dssm_tf.server.limits import INVALID, Refusal
from dssm_tf.server.search_schema import (
    MAX_EXPLAINED_TITLES,
    NumberRange,
    RankedTitle,
    SearchRequest,
    SearchResponse,
)
from dssm_tf.tables.cells import one_line, shown_text

_MAX_TITLE_LENGTH = 1000  # characters of a title in a response


def parse_json(raw: bytes) -> SearchRequest:
    """Reads the body of a POST request.

    Raises:
        Refusal: it is not such a request, or has a key twice.
    """
    refuse_repeated_keys(raw)
    try:
        return SearchRequest.model_validate_json(raw)
    except ValidationError as error:
        raise _refusal(error) from None


def parse_parameters(parameters: Sequence[tuple[str, str]]) -> SearchRequest:
    """Reads the parameters of a GET request, names with values; `filters` is JSON.

    Raises:
        Refusal: a parameter is unknown or has another type, or a name or a key is repeated.
    """
    refuse_repeats(parameters, "the URL")
    fields: dict[str, Any] = {}
    for name, text in parameters:
        if name in ("query", "ranking"):
            fields[name] = text
            continue
        refuse_repeated_keys(text)
        try:
            fields[name] = json.loads(text)
        except (ValueError, RecursionError):
            raise Refusal(INVALID, f"{name:.100}: {text!r:.100} is not JSON.") from None
    try:
        return SearchRequest.model_validate(fields)
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> Refusal:
    """The first problem of a request, in one line."""
    problem = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, problem["loc"])) or "the body"
    return Refusal(INVALID, f"{field:.200}: {problem['msg']}.")


def search(index: AnyIndex, version: int, request: SearchRequest) -> SearchResponse:
    """Searches an index.

    Args:
        index: the index.
        version: its version number, for the response.
        request: the search.

    Raises:
        Refusal: a filter or a boost is not one of this index.
    """
    query = one_line(request.query).strip()
    filters = {name: _values(values) for name, values in request.filters.items()}
    ranking: str = request.ranking or "semantic"
    try:
        if ranking == "bm25" and request.boosts:
            raise UserError("boosts: expected none for the ranking bm25.")
        result = search_index(index, query, request.k, filters, request.boosts)
        rankings = dict(result.rankings)
        if ranking == "bm25" and isinstance(index, MaxSimIndex):
            allowed = index.filters.mask(filters) if filters else None
            rankings["bm25"] = index.lexical_ranking.search(query, request.k, allowed)
    except UserError as error:
        raise Refusal(INVALID, str(error)) from None
    hits = rankings[ranking]
    results = [_result(index, query, hit) for hit in hits]
    if request.explain:
        for result_of_hit, hit in zip(results[:MAX_EXPLAINED_TITLES], hits, strict=False):
            result_of_hit.explanation = _explanation(index, ranking, query, hit)
    return SearchResponse(
        query=query, model=index.model.name, version=version, ranking=ranking,
        no_good_match=bool(result.note), note=result.note, corrected_query=result.corrected_query,
        corrections=[correction._asdict() for correction in result.corrections],
        rules=[one_line(sentence) for sentence in result.blocked], results=results,
    )  # fmt: skip


def _values(
    values: str | float | Sequence[str | float] | NumberRange,
) -> Sequence[str | float] | dict[str, float]:
    """A filter of a request as an index takes it."""
    if isinstance(values, NumberRange):
        return values.model_dump(exclude_none=True)
    return [values] if isinstance(values, (str, float, int)) else values


def _result(index: AnyIndex, query: str, hit: AnyHit) -> RankedTitle:
    """A hit as plain data, with a truncated title."""
    split = index.model.vocabulary.words
    record = hit_record(hit) | {"title": shown_text(hit.title, _MAX_TITLE_LENGTH)}
    marked = hit.title_parts(query, split)
    record["title_parts"] = [{"text": text, "is_match": is_match} for text, is_match in marked]
    if isinstance(hit, MatchHit):
        record["applied_rules"] = list(map(one_line, hit.applied_rules()))
        record["shown_parts"] = hit.parts()
        for word, match in zip(record["words"], hit.matched_words(split), strict=True):
            word |= {"spelled": match.matched_word, "is_same": match.is_same, "rule": match.rule}
    elif isinstance(hit, LexicalHit):
        record["parts"] = {"bm25": hit.score}
    else:
        record["shown_parts"] = hit.parts()
    return RankedTitle.model_validate(record)


def _explanation(index: AnyIndex, ranking: str, query: str, hit: AnyHit) -> dict[str, Any]:
    """The explanation of a title as plain data; with only `error` if there is none."""
    from dssm_tf.analysis.match_explanation import MatchExplanation

    try:
        explanation = explain_title(index, ranking, query, hit.title)
        if isinstance(explanation, MatchExplanation) and isinstance(hit, MatchHit):
            explanation = replace(explanation, boosts=hit.boosts)
        summary = f"{explanation.score_breakdown()}."
        return explanation.to_json() | {"summary": summary, "method": explanation.method}
    except UserError as error:
        return {"error": str(error)}
