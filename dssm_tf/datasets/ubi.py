"""OpenSearch User Behavior Insights: queries and events of a search application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.datasets.adapter import SPLIT_BY_TIME, Adapter
from dssm_tf.datasets.output import ClickEvent, Output, clean
from dssm_tf.datasets.source import Source
from dssm_tf.tables.cells import BadRow


def convert(source: Source, output: Output, options: Mapping[str, str], held_out: float) -> None:
    """Joins events to queries by `query_id`; titles from a catalogue or from the events."""
    clicked = set(filter(None, options["clicks"].split(",")))
    shown = set(filter(None, options["impressions"].split(",")))
    both = source.find_all("ubi_queries_events.*json*")
    queries = both or [source.find("ubi_queries.*json*", "queries.*json*")]
    events = both or [source.find("ubi_events.*json*", "events.*json*")]
    catalogue = source.find_if_there("corpus.*json*", "products.*json*", "corpus.tsv")
    if catalogue is not None:
        _read_catalogue(source, output, catalogue, options["title"])
    for path in queries:
        for _, record in _records(source, path):
            if isinstance(record.get("user_query"), str) and record.get("query_id"):
                output.queries.setdefault(str(record["query_id"]), record["user_query"])
    actions: set[str] = set()
    for path in events:
        for number, record in _records(source, path):
            action = record.get("action_name")
            if action is None:
                continue  # a query, in a file that holds both
            actions.add(str(action)[:40])
            if str(action) in clicked | shown:
                with source.checked(path, number):
                    _read_event(output, record, str(action) in clicked, catalogue is None)
    if not actions & clicked:
        raise UserError(
            f"{events[0]} has no event named {', '.join(sorted(clicked))}; its actions are "
            f"{', '.join(sorted(actions)) or 'none'}. Name those that are clicks: "
            "--set clicks=NAME,NAME."
        )
    output.split_by_time(held_out)


def _read_event(output: Output, record: dict[str, Any], clicked: bool, titled: bool) -> None:
    """Keeps an event; `titled`: its object's description is the title."""
    attributes = _mapping(record.get("event_attributes"), "event_attributes")
    target = _mapping(attributes.get("object"), "object")
    position = _mapping(attributes.get("position"), "position").get("ordinal")
    doc_id = clean(str(target.get("object_id") or ""))
    query = output.queries.get(str(record.get("query_id") or ""))
    if query is None or not doc_id:
        output.dropped["event without a known query or an object"] += 1
        return
    if titled and doc_id not in output.titles:
        output.add_title(doc_id, str(target.get("description") or ""))
    session = record.get("session_id") or attributes.get("session_id") or record.get("client_id")
    output.add_event(
        ClickEvent(
            query,
            doc_id,
            int(clicked),
            _time(record.get("timestamp")),
            str(session or ""),
            "" if position is None else str(position),
            "" if clicked else "1",
        )
    )


def _records(source: Source, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Documents of an export: bare, under `_source`, under `hits`, or of the bulk interface."""
    for number, value in source.objects(path):
        hits = value.get("hits")
        with source.checked(path, number):
            if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
                found = [
                    _mapping(_mapping(hit, "a hit").get("_source"), "_source")
                    for hit in hits["hits"]
                ]
            elif "_source" in value:
                found = [_mapping(value["_source"], "_source")]
            else:
                action = len(value) == 1 and next(iter(value)) in ("index", "create")
                found = [] if action else [value]
            for record in found:
                yield number, record


def _read_catalogue(source: Source, output: Output, path: Path, title: str) -> None:
    if path.name.removesuffix(".gz").endswith(".tsv"):
        for _, (doc_id, text) in source.table(path, ("doc_id", "title")):
            output.add_title(doc_id, text)
        return
    for number, record in _records(source, path):
        with source.checked(path, number):
            names = ("object_id", "doc_id", "id", "_id")
            key = next((name for name in names if record.get(name)), None)
            if key is None or title not in record:
                raise BadRow(
                    "no id or title",
                    f"the keys are {', '.join(record)[:200] or 'none'}; expected {title} and one "
                    "of object_id, doc_id, id; name the title's key with --set title=KEY",
                )
            output.add_title(str(record[key]), str(record[title] or ""))


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise BadRow(
            f"{name} is no object", f"{name} is a {type(value).__name__}; expected a JSON object"
        )
    return value or {}


def _time(value: Any) -> str:
    """Milliseconds since 1970, as UBI has them, in ISO 8601; what else there is, as it is."""
    if isinstance(value, (int, float)) and 1e11 <= value < 1e14:
        return datetime.fromtimestamp(value / 1000, timezone.utc).isoformat(timespec="milliseconds")
    return "" if value is None else str(value)


ADAPTER = Adapter(
    title="OpenSearch User Behavior Insights: your own queries and events",
    described="the OpenSearch documentation, User Behavior Insights, index schemas; the repository "
    "ubi of o19s",
    licence="your own data: mind the consent of the users it is about",
    files=(
        "ubi_queries.ndjson (or .json, .jsonl)",
        "ubi_events.ndjson, or both in ubi_queries_events.ndjson",
        "products.ndjson or corpus.tsv (if there: titles by object id; else the events' "
        "object.description)",
    ),
    grades="by later clicks, per query: 3 most clicked, 2 at least half of that, 1 clicked",
    split=SPLIT_BY_TIME,
    convert=convert,
    held_out=0.2,
    options={
        "clicks": "click,item_click,product_click,add_to_cart,purchase actions that are clicks",
        "impressions": "impression,view actions by which a title is only shown",
        "title": "title key of the title in products.ndjson",
    },
    columns=("timestamp", "session_id", "position", "impressions"),
)
