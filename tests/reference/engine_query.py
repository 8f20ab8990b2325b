"""The score of one document for query DSL, as OpenSearch and Elasticsearch document it.

Implements the queries that exports use, and refuses what engines refuse:

*   `term` matches a document that has the value in the field.
*   `constant_score`: every match has the score `boost`, also if that is 0. A negative
    boost is an error.
*   `bool`: a document must match all of `must` and `filter`, and at least `minimum_should_match` of
    `should`: by default 1 without `must` and `filter`, else 0; and none of `must_not`. The score is
    the sum of those of `must` and `should`. Without any clause it matches every document with
    score 1.
*   `ids` matches documents whose `_id` is one of `values`.
*   `dis_max`: the largest score of the matching queries. No query at all is an error.
*   `function_score` with `field_value_factor`: `factor` times the field's value, or `missing`
    without one, is multiplied with the score of the query or added to it. A negative result of the
    factor is an error.
*   `function_score` with `functions`: the results of all factors, each times its `weight`, are
    added up (`score_mode` sum) and then added to the score of the query (`boost_mode` sum). The
    `modifier` ln1p is the natural logarithm of 1 plus the value. A negative value, or a negative
    score, is an error.
*   `match_none` and `match_all`.

References: the pages "Boolean query", "Disjunction max query", "Constant score query" and
"Function score query" of both engines' documentation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]


def score(query: Json, document: Json) -> float | None:
    """The score of a document in float64; None if it does not match.

    Raises:
        ValueError: an engine refuses the query.
    """
    ((kind, body),) = query.items()
    if kind == "match_none":
        return None
    if kind == "match_all":
        return 1.0
    if kind == "term":
        ((field, value),) = body.items()
        values = _value(document, field)
        values = values if isinstance(values, list) else [values]
        return 1.0 if value in values else None
    if kind == "ids":
        return 1.0 if document["_id"] in body["values"] else None
    if kind == "constant_score":
        boost = float(body.get("boost", 1.0))
        if boost < 0:
            raise ValueError(f"boost {boost} is negative")
        return None if score(body["filter"], document) is None else boost
    if kind == "dis_max":
        if not body["queries"]:
            raise ValueError("dis_max without queries")
        return max(_matches(body["queries"], document), default=None)
    if kind == "bool":
        return _bool(body, document)
    if kind == "function_score":
        return _function_score(body, document)
    raise ValueError(f"the query {kind} is not implemented")


def terms(query: Any) -> int:
    """The number of terms of a query, which engines limit."""
    if isinstance(query, Mapping):
        return sum((key == "term") + terms(value) for key, value in query.items())
    return sum(map(terms, query)) if isinstance(query, list) else 0


def _matches(queries: list[Json], document: Json) -> list[float]:
    scores = [score(query, document) for query in queries]
    return [value for value in scores if value is not None]


def _bool(body: Json, document: Json) -> float | None:
    musts, filters, shoulds = (body.get(name, []) for name in ("must", "filter", "should"))
    if not (musts or filters or shoulds):
        return 1.0
    required = _matches(musts, document)
    if len(required) < len(musts) or len(_matches(filters, document)) < len(filters):
        return None
    if _matches(body.get("must_not", []), document):
        return None
    optional = _matches(shoulds, document)
    default = 0 if musts or filters else 1
    if len(optional) < body.get("minimum_should_match", default):
        return None
    return sum(required) + sum(optional)


def _function_score(body: Json, document: Json) -> float | None:
    value = score(body["query"], document)
    if value is None:
        return None
    if "functions" in body:
        if (body["score_mode"], body["boost_mode"]) != ("sum", "sum"):
            raise ValueError("only sums of functions are implemented")
        total = value + sum(_weighted(function, document) for function in body["functions"])
        if total < 0:
            raise ValueError(f"the score is {total}, which is negative")
        return total
    factor = body["field_value_factor"]
    number = _value(document, factor["field"])
    if number is None:
        if "missing" not in factor:
            raise ValueError(f"a document has no {factor['field']}")
        number = factor["missing"]
    result = factor.get("factor", 1.0) * number
    if result < 0:
        raise ValueError(f"the factor is {result}, which is negative")
    mode = body.get("boost_mode", "multiply")
    return {"multiply": value * result, "sum": value + result}[mode]


def _weighted(function: Json, document: Json) -> float:
    factor = function["field_value_factor"]
    number = _value(document, factor["field"])
    number = factor["missing"] if number is None else number
    if factor["modifier"] != "ln1p" or number < 0:
        raise ValueError(f"{factor['modifier']} of {number} is not implemented")
    return function["weight"] * math.log(1 + number)


def _value(document: Json, field: str) -> Any:
    value: Any = document
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
