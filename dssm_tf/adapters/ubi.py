"""OpenSearch User Behavior Insights: queries and events of a search application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dssm_tf.adapters.adapter import SPLIT_BY_TIME, Adapter
from dssm_tf.adapters.output import ClickEvent, Output, clean
from dssm_tf.adapters.source import Source
from dssm_tf.common.errors import UserError


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
                output.remember("query", str(record["query_id"]), record["user_query"])
    actions: set[str] = set()
    for path in events:
        for where, record in _records(source, path):
            action = record.get("action_name")
            if action is None:
                continue  # a query, in a file that holds both
            actions.add(str(action))
            if action in clicked or action in shown:
                _read_event(output, record, where, action in clicked, catalogue is None)
    if not actions & clicked:
        raise UserError(
            f"{events[0]} has no event named {', '.join(sorted(clicked))}; its actions are "
            f"{', '.join(sorted(actions)) or 'none'}. Name those that are clicks: "
            "--set clicks=NAME,NAME."
        )
    output.split_by_time(held_out)


def _read_event(
    output: Output, record: dict[str, Any], where: str, clicked: bool, titled: bool
) -> None:
    """Keeps an event; `titled`: its object's description is the title."""
    attributes = _mapping(record.get("event_attributes"), f"{where}: event_attributes")
    target = _mapping(attributes.get("object"), f"{where}: object")
    position = _mapping(attributes.get("position"), f"{where}: position").get("ordinal")
    doc_id = clean(str(target.get("object_id") or ""))
    query = output.recall("query", str(record.get("query_id") or ""))
    if query is None or not doc_id:
        output.dropped["event without a known query or an object"] += 1
        return
    if titled and not output.has_title(doc_id):
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


def _records(source: Source, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Documents of an export: bare, under `_source`, under `hits`, or of the bulk interface."""
    for number, value in source.objects(path):
        where = f"{path}:{number}"
        hits = value.get("hits")
        if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
            for hit in hits["hits"]:
                yield where, _mapping(_mapping(hit, where).get("_source"), where)
        elif "_source" in value:
            yield where, _mapping(value["_source"], where)
        elif len(value) != 1 or next(iter(value)) not in ("index", "create"):
            yield where, value


def _read_catalogue(source: Source, output: Output, path: Path, title: str) -> None:
    if path.name.removesuffix(".gz").endswith(".tsv"):
        for _, (doc_id, text) in source.table(path, ("doc_id", "title")):
            output.add_title(doc_id, text)
        return
    for where, record in _records(source, path):
        key = next((key for key in ("object_id", "doc_id", "id", "_id") if record.get(key)), None)
        if key is None or title not in record:
            raise UserError(
                f"{where}: the keys are {', '.join(record) or 'none'}; expected {title} and one of "
                "object_id, doc_id, id. Name the title's key: --set title=KEY."
            )
        output.add_title(str(record[key]), str(record[title] or ""))


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise UserError(f"{where} is a {type(value).__name__}; expected a JSON object.")
    return value or {}


def _time(value: Any) -> str:
    """Milliseconds since 1970 or ISO 8601, as text that sorts by time."""
    if isinstance(value, (int, float)) and 0 <= value < 1e14:
        return datetime.fromtimestamp(value / 1000, timezone.utc).isoformat(timespec="milliseconds")
    return str(value or "")


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
