"""Turns the result of a search into plain data, for JSON and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dssm_tf.retrieval.hits import AnyHit, Hit, MatchHit, SearchResult
from dssm_tf.tables.cells import one_line

COLUMNS = ("query", "system", "rank", "doc_id", "title", "score")
"""The columns of `result_rows`."""


def result_record(query: str, result: SearchResult) -> dict[str, Any]:
    """A result as plain data.

    Args:
        query: the query.
        result: its result.

    Returns:
        `query`, and `note`, `corrected_query`, `corrections` and `blocked` of the `SearchResult`.
        `rankings` has a list of hits by system. Each hit has `rank`, `doc_id`, `title`, `score` and
        `parts`. With a maxsim model, it also has `words`, the matches of the query words, and
        `rules`, the applied rules by hand; with other models, it has `bm25_score`.
    """
    return {
        "query": query,
        "note": result.note,
        "corrected_query": result.corrected_query,
        "corrections": [correction._asdict() for correction in result.corrections],
        "rankings": {
            system: [{"rank": rank} | hit_record(hit) for rank, hit in enumerate(hits, 1)]
            for system, hits in result.rankings.items()
        },
        "blocked": list(result.blocked),
    }


def hit_record(hit: AnyHit) -> dict[str, Any]:
    """A hit as plain data; see `result_record`. The values of `parts` add up to `score`."""
    record: dict[str, Any] = {"doc_id": hit.doc_id, "title": hit.title, "score": hit.score}
    if isinstance(hit, Hit):
        parts = {"similarity": hit.similarity, "prior": hit.prior}
        return record | {"parts": parts, "bm25_score": hit.bm25_score}
    if not isinstance(hit, MatchHit):
        return record
    matches = hit.matches.displayed()
    return record | {
        "parts": hit.exact_parts(),
        "words": [
            {"word": match.word, "match": match.matched_word, "similarity": match.similarity}
            for match in matches.query
        ],
        "rules": [rule._asdict() for rule in matches.rules]
        + ([] if hit.pin_rule is None else [hit.pin_rule._asdict()]),
    }


def result_rows(query: str, result: SearchResult) -> Iterator[tuple[str, ...]]:
    """The hits of all rankings as rows of `COLUMNS`, texts on one line.

    Args:
        query: the query.
        result: its result.
    """
    for system, hits in result.rankings.items():
        for rank, hit in enumerate(hits, 1):
            texts = map(one_line, (hit.doc_id, hit.title))
            yield (one_line(query), system, str(rank), *texts, f"{hit.score:.9g}")
