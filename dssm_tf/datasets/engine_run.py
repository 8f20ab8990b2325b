"""Ranks queries with a search engine and writes a TREC run; continues after an interruption."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import exclusive_lock, refuse_special_file
from dssm_tf.common.progress import progress_of
from dssm_tf.datasets.search_engine import EngineHit, Json, SearchEngine
from dssm_tf.tables import columns
from dssm_tf.tables.batches import LINE
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.read import read
from dssm_tf.tables.trec import MAX_SCORE, write_run

PLACEHOLDER = "{{query}}"
"""Stands for the text of the query in the strings of a template."""


class QueryTemplate:
    """A body of `_search` with a placeholder for the text of the query.

    Args:
        path: a JSON file. `{{query}}` in any of its strings stands for the query.
        size: number of titles per ranking; replaces the `size` of the template.
        id_field: field of documents that responses must contain; empty for none.

    Raises:
        UserError: the file cannot be read, is not a JSON object, lacks the placeholder, or skips
            the first hits.
    """

    def __init__(self, path: Path, size: int, id_field: str = "") -> None:
        refuse_special_file(path, "Give a JSON file with the body of a search.", allow_pipe=True)
        try:
            body = json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise UserError(f"{path} is not encoded in UTF-8.") from None
        except json.JSONDecodeError as error:
            raise UserError(
                f"{path}:{error.lineno} is not JSON: {error.msg} at column {error.colno}. The "
                f'placeholder is a string: "{PLACEHOLDER}".'
            ) from None
        if not isinstance(body, dict):
            raise UserError(f"{path} is not a JSON object; expected the body of a search.")
        if _fill_placeholder(body, "") == body:
            raise UserError(
                f"{path} has no {PLACEHOLDER}; write it where the text of the query belongs, such "
                'as {"query": {"match": {"title": "' + PLACEHOLDER + '"}}}.'
            )
        if body.get("from"):
            raise UserError(f"{path} skips the first {body['from']} hits; remove its 'from'.")
        self._body = body | {"size": size, "_source": [id_field] if id_field else False}

    def body(self, query: str) -> Json:
        """The body of a search for a query."""
        body: Json = _fill_placeholder(self._body, query)
        return body

    @property
    def hash(self) -> str:
        """A hash of the template."""
        return sha256(json.dumps(self._body, sort_keys=True).encode()).hexdigest()


class RunCounts(NamedTuple):
    """Counts of a run.

    Attributes:
        queries: number of queries.
        hits: number of listed titles.
        queries_without_hits: number of queries without a listed title.
        unknown: number of hits that the corpus lacks.
        resumed: number of queries whose rankings an interrupted command had received.
    """

    queries: int
    hits: int
    queries_without_hits: int
    unknown: int
    resumed: int


def read_queries(path: Path, layout: Layout | None = None) -> dict[str, str]:
    """Reads the columns `query_id` and `query` of a table, such as judgments.

    Returns:
        The texts of the queries by id.

    Raises:
        UserError: the file is not usable, or a query id has two texts.
    """
    rows = read(path, [columns.identifier("query_id"), columns.text("query")], layout, "", "query")
    queries: dict[str, str] = {}
    for query_id, query, line in rows.select("query_id", "query", LINE).iter_rows():
        if queries.setdefault(query_id, query) != query:
            raise UserError(
                f"{path}:{line}: query_id {query_id!r} has the text {query!r} here and "
                f"{queries[query_id]!r} above; give each query its own id."
            )
    return queries


def write_engine_run(
    engine: SearchEngine,
    template: QueryTemplate,
    queries: Mapping[str, str],
    out: Path,
    *,
    tag: str,
    known_ids: frozenset[str] | None = None,
    batch: int = 20,
) -> RunCounts:
    """Ranks queries with a search engine and writes a TREC run.

    Received rankings are appended to `.OUT.partial`. If the command is interrupted, the same
    command continues after them. The run has the engine's order and its scores, see `run_scores`.

    Args:
        engine: the index.
        template: the search.
        queries: texts by id.
        out: the file to write.
        tag: name of the system in the run.
        known_ids: doc ids of the corpus; other hits are left out. None: no hit is left out.
        batch: number of searches per request.

    Raises:
        UserError: `out` exists, the engine refuses, another process writes the run, the unfinished
            run has other settings, or no query has a hit.
    """
    settings = {"engine": engine.url, "index": engine.index, "template": template.hash}
    partial_path = out.with_name(f".{out.name}.partial")
    with exclusive_lock(out):
        if out.exists():
            partial_path.unlink(missing_ok=True)  # a command was killed between the last two steps
            raise UserError(f"{out} exists already; choose another name, or remove it first.")
        received = _read_partial(partial_path, settings, queries)
        resumed = len(received)
        missing = [query_id for query_id in queries if query_id not in received]
        with progress_of(f"searches of {engine.index}", len(queries), unit="queries") as task:
            task.advance(resumed)
            for ids in _batches(missing, batch):
                rankings = engine.search([template.body(queries[query_id]) for query_id in ids])
                rows = [
                    {"id": query_id, "query": queries[query_id], "hits": hits}
                    for query_id, hits in zip(ids, rankings, strict=True)
                ]
                if not received:
                    partial_path.unlink(missing_ok=True)
                with partial_path.open("a", encoding="utf-8") as file:
                    for row in rows if received else [settings, *rows]:
                        file.write(json.dumps(row) + "\n")
                received |= zip(ids, rankings, strict=True)
                task.advance(len(ids))
        run = {query_id: _known_hits(received[query_id], known_ids) for query_id in queries}
        received_hits = sum(map(len, received.values()))
        listed_hits = sum(map(len, run.values()))
        if not listed_hits:
            partial_path.unlink(missing_ok=True)
            raise UserError(_no_hits_message(received_hits, queries, received))
        write_run(out, run_scores(run), tag)
        partial_path.unlink(missing_ok=True)
    empty = sum(not ranking for ranking in run.values())
    return RunCounts(len(queries), listed_hits, empty, received_hits - listed_hits, resumed)


def run_scores(run: Mapping[str, Sequence[EngineHit]]) -> dict[str, dict[str, float]]:
    """Scores of a TREC run that keep the order of the engine; readers of a run sort by score.

    The scores are those of the engine. If two titles of a ranking have equal scores, the second one
    gets the next smaller float32. If the engine did not sort by score, the last title of each
    ranking gets 1, the one above it 2, and so on.

    Args:
        run: rankings by query id.

    Returns:
        Scores by query id and doc id.
    """
    if not all(map(_is_ordered, run.values())):
        return {
            query_id: {doc_id: float(len(hits) - index) for index, (doc_id, _) in enumerate(hits)}
            for query_id, hits in run.items()
        }
    scores: dict[str, dict[str, float]] = {}
    for query_id, hits in run.items():
        scores[query_id], smallest = {}, np.float32(np.inf)
        for doc_id, score in hits:
            smallest = min(np.float32(score or 0.0), np.nextafter(smallest, np.float32(-np.inf)))
            scores[query_id][doc_id] = float(smallest)
    return scores


def _is_ordered(hits: Sequence[EngineHit]) -> bool:
    """Whether all hits have scores, in descending order."""
    scores = [score for _, score in hits if score is not None and abs(score) < MAX_SCORE]
    return len(scores) == len(hits) and scores == sorted(scores, reverse=True)


def _known_hits(hits: Sequence[EngineHit], known_ids: frozenset[str] | None) -> list[EngineHit]:
    return [hit for hit in hits if known_ids is None or hit[0] in known_ids]


def _no_hits_message(
    total: int, queries: Mapping[str, str], received: Mapping[str, list[EngineHit]]
) -> str:
    """The message about a run without titles."""
    if not total:
        return (
            f"none of the {len(queries):,} queries has a hit, such as "
            f"{next(iter(queries.values()))!r}; check the fields of the template."
        )
    example = next(hits[0][0] for hits in received.values() if hits)
    return (
        f"none of the {total:,} hits is in the corpus, such as {example!r}; name the field that "
        "has the doc_id: --id-field."
    )


def _read_partial(
    path: Path, settings: Mapping[str, str], queries: Mapping[str, str]
) -> dict[str, list[EngineHit]]:
    """The rankings of an unfinished run by query id; an incomplete last line is cut off.

    Raises:
        UserError: the unfinished run has other settings.
    """
    if not path.exists():
        return {}
    content = path.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    if len(complete) < len(content):
        with path.open("rb+") as file:
            file.truncate(len(complete))
    lines: list[Any] = []
    with suppress(ValueError):
        lines = [json.loads(line) for line in complete.splitlines()]
    if complete and (not lines or lines[0] != settings):
        changed = [
            name for name in settings if not lines or lines[0].get(name) != settings[name]
        ]  # fmt: skip
        raise UserError(
            f"{path} has the rankings of an interrupted command with another "
            f"{', '.join(changed)}; give the same flags to continue it, or remove it to start over."
        )
    return {
        row["id"]: [(doc_id, score) for doc_id, score in row["hits"]]
        for row in lines[1:]
        if queries.get(row["id"]) == row["query"]
    }  # fmt: skip


def _batches(ids: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(ids)
    while batch := list(islice(iterator, size)):
        yield batch


def _fill_placeholder(value: Any, query: str) -> Any:
    """JSON with the placeholder in its strings replaced by a query."""
    if isinstance(value, str):
        return value.replace(PLACEHOLDER, query)
    if isinstance(value, dict):
        return {key: _fill_placeholder(item, query) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill_placeholder(item, query) for item in value]
    return value
