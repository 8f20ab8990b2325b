"""Computes the score of a document as a search engine does, to verify exports without an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def engine_score(query: Mapping[str, Any], document: Mapping[str, Any]) -> float | None:
    """The score of a document.

    Args:
        query: query DSL that `SearchEngineClient.query` wrote.
        document: the document; fields of the object `dssm` are those of `DocumentWriter.fields`. It
            has `_id` if the query has pinned or blocked titles.

    Returns:
        The score; None if the document does not match.
    """
    ((kind, body),) = query.items()
    if kind == "match_none":
        return None
    if kind == "ids":
        return 1.0 if document["_id"] in body["values"] else None
    if kind == "term":
        ((field, term),) = body.items()
        return 1.0 if term in _value(document, field) else None
    if kind == "constant_score":
        matches = engine_score(body["filter"], document) is not None
        return float(body["boost"]) if matches else None
    if kind == "function_score":
        score = engine_score(body["query"], document)
        factor = body["field_value_factor"]
        value = factor.get("factor", 1) * _value(document, factor["field"])
        return _combine(score, value, body["boost_mode"])
    if any(engine_score(clause, document) for clause in body.get("must_not", ())):
        return None
    scores = [
        score
        for clause in body["should" if kind == "bool" else "queries"]
        if (score := engine_score(clause, document)) is not None
    ]
    if not scores:
        return None
    return sum(scores) if kind == "bool" else max(scores)


def _combine(score: float | None, value: float, mode: str) -> float | None:
    if score is None:
        return None
    return score * value if mode == "multiply" else score + value


def _value(document: Mapping[str, Any], field: str) -> Any:
    """The value of a field such as `dssm.words`."""
    value: Any = document
    for name in field.split("."):
        value = value[name]
    return value
