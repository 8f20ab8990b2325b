"""Hits of a search engine: the parts of their scores, and the cosine of text vectors.

A hit is an object of `hits.hits` in the engine's answer, with `_id`, `_score` and `_source`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.boosts import AppliedBoost, Boosts, parts_of_boosts
from dssm_tf.runtime.maxsim import QUERY, TITLE
from dssm_tf.runtime.postings import TitleTerms
from dssm_tf.runtime.text_vectors import TextVectors
from dssm_tf.runtime.vector_ranker import normalize_vectors

FIELDS = "dssm"
"""The object field of a document that has the model's fields."""

TEXT_COSINE = "text_cosine"
"""The key of a rescored hit with the part of its score that text vectors add."""

Json = dict[str, Any]


def model_fields(hit: Json, *names: str) -> Json:
    """The model's fields of a hit.

    Args:
        hit: the hit.
        names: the fields that it must have.

    Raises:
        UserError: the hit lacks its score or one of the fields.
    """
    source = hit.get("_source") or {}
    missing = ["_score"] if hit.get("_score") is None else []
    if FIELDS in source:
        missing += [f"{FIELDS}.{name} in _source" for name in names if name not in source[FIELDS]]
    else:
        missing.append(f"{FIELDS} in _source")
    if missing:
        raise UserError(
            f"hit {hit.get('_id')!r:.60} has no {' and no '.join(missing)}; sort by score and "
            "return the source."
        )
    fields: Json = source[FIELDS]
    return fields


def parts_of_hit(hit: Json, prior: bool, boosts: Boosts, pin_boost: float) -> dict[str, float]:
    """The parts of the score of a hit, see `SearchEngineClient.parts`.

    Args:
        hit: the hit.
        prior: whether its score includes the prior.
        boosts: the boosts that its score includes.
        pin_boost: the part that pins it; 0 if it is not pinned.

    Raises:
        UserError: the hit lacks its score or a field.
    """
    fields = model_fields(hit, *(["prior"] if prior else []))
    parts = {
        "words_and_pairs": 0.0,
        TEXT_COSINE: float(hit.get(TEXT_COSINE, 0.0)),
        "prior": float(fields["prior"]) if prior else 0.0,
    }
    parts |= parts_of_boosts(
        tuple(
            AppliedBoost(field, weight, _field_value(hit["_source"], field))
            for field, weight in boosts.items()
        )
    )
    if pin_boost:
        parts["pinned"] = pin_boost
    parts["words_and_pairs"] = float(hit["_score"]) - sum(parts.values())
    return parts


def with_text_cosine(
    text_vectors: TextVectors, query: Sequence[str], hits: Sequence[Json]
) -> list[Json]:
    """Copies of hits whose scores include the cosine of text vectors, sorted by these scores.

    Equal scores keep their order. Hits that include the cosine already keep their scores.

    Args:
        text_vectors: computes the vectors.
        query: the distinct words of the query.
        hits: the hits.

    Raises:
        UserError: a hit lacks its score or its words.
    """
    new_hits = [hit for hit in hits if TEXT_COSINE not in hit]
    # `words` also has the pairs of the title; no word contains a space.
    titles = [
        [word for word in model_fields(hit, "words")["words"] if " " not in word]
        for hit in new_hits
    ]
    parts = iter(_cosine_parts(text_vectors, query, titles))
    rescored = [hit if TEXT_COSINE in hit else _with_part(hit, next(parts)) for hit in hits]
    return sorted(rescored, key=lambda hit: -float(hit["_score"]))


def _with_part(hit: Json, part: float) -> Json:
    """A copy of a hit whose score includes the cosine of text vectors."""
    return {**hit, "_score": float(hit["_score"]) + part, TEXT_COSINE: part}


def _cosine_parts(
    text_vectors: TextVectors, query: Sequence[str], titles: Sequence[Sequence[str]]
) -> list[float]:
    """The part of the score that text vectors add, for each title.

    Titles with the same words get exactly the same part, so that their scores stay equal.

    Args:
        text_vectors: computes the vectors.
        query: the distinct words of the query.
        titles: the distinct words of each title.
    """
    keys = list(map(frozenset, titles))
    distinct_titles = dict(zip(keys, titles, strict=True))
    distinct_titles.pop(frozenset(), None)  # `reduceat` needs at least one word per title
    part_of_title: dict[frozenset[str], float] = {frozenset(): 0.0}
    if distinct_titles:
        row_of_word, rows, starts = TitleTerms.from_texts(distinct_titles.values())
        words = text_vectors.weighted_words(list(row_of_word), TITLE)
        sums = np.add.reduceat(words[rows], starts[:-1], axis=0)
        cosines = normalize_vectors(sums) @ text_vectors.of_text(query, QUERY)
        parts = (text_vectors.factor * cosines).tolist()
        part_of_title |= dict(zip(distinct_titles, parts, strict=True))
    return [part_of_title[key] for key in keys]


def _field_value(source: Json, field: str) -> float | None:
    """The number of a field of a document; None if it has none. A dot separates nested names."""
    value: Any = source.get(field)
    if value is None and "." in field:
        name, _, rest = field.partition(".")
        inner = source.get(name)
        return _field_value(inner, rest) if isinstance(inner, dict) else None
    return None if value is None else float(value)
