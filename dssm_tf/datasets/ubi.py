"""OpenSearch User Behavior Insights: queries and events of a search application."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.datasets.adapter import BY_LATER_CLICKS, SPLIT_BY_TIME, Adapter
from dssm_tf.datasets.output import DatasetWriter, clean
from dssm_tf.datasets.source import Source
from dssm_tf.tables.cells import BadRow

_EVENT = (
    "action_name", "query_id", "timestamp", "event_attributes", "session_id", "client_id",
)  # fmt: skip
_IDS = ("object_id", "doc_id", "id", "_id")


def convert(source: Source, output: DatasetWriter, options: Mapping[str, str]) -> None:
    """Joins events to queries by `query_id`; titles from a catalogue or from the events."""
    clicks = set(filter(None, options["clicks"].split(",")))
    impressions = set(filter(None, options["impressions"].split(",")))
    events = source.find("ubi_events.*json*", "events.*json*")
    catalogue = source.find_all("corpus.*json*", "products.*json*")
    title, actions = options["title"], set[str]()

    def product(*cells: object) -> None:
        *ids, text = cells
        doc_id = next((doc_id for doc_id in map(clean, ids) if doc_id), "")
        if not doc_id or text is None:
            raise BadRow(
                "no id or title",
                f"expected {title} and one of {', '.join(_IDS)}; name the title's key with --set "
                "title=KEY",
            )
        output.add_title(doc_id, text)

    def event(
        action: str, query_id: str, time: object, about: object, session: object, client: object
    ) -> None:
        action = str(action)[:40]
        actions.add(action)
        clicked = action in clicks
        if clicked or action in impressions:
            query, doc_id = output.query(query_id), clean(_inside(about, "object", "object_id"))
            if not query or not doc_id:
                output.dropped["event without a known query or an object"] += 1
                return
            if not catalogue and doc_id not in output.titles:
                output.add_title(doc_id, _inside(about, "object", "description"))
            session = session or _inside(about, "session_id") or client
            position = _inside(about, "position", "ordinal")
            impression = "" if clicked else "1"
            output.add_event(
                query, doc_id, int(clicked), clean(time), session, position, impression
            )

    for path in catalogue:
        _read(source, path, (*_IDS, title), product)
    queries = source.find("ubi_queries.*json*", "queries.*json*")
    _read(source, queries, ("query_id", "user_query"), output.add_query)
    _read(source, events, _EVENT, event)
    if not actions & clicks:
        raise UserError(
            f"{events} has no event named {', '.join(sorted(clicks))}; its actions are "
            f"{', '.join(sorted(actions)) or 'none'}. Name those that are clicks: "
            "--set clicks=NAME,NAME."
        )


def _read(source: Source, path: Path, keys: Sequence[str], use: Callable[..., None]) -> None:
    """Reads objects, one per line: bare, or under `_source` as in a search response."""

    def bare(*cells: Any) -> None:
        *values, inner = cells
        if inner is not None:
            values = [_inside(inner, key) for key in keys]
        use(*values)

    source.read(path, (*keys, "_source"), bare, format="jsonl")


def _inside(value: Any, *keys: str) -> Any:
    """The value under nested keys; None if it is missing.

    Args:
        value: an object, or its JSON.
        *keys: from the outermost to the innermost.
    """
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError):
            value = json.loads(value)
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


ADAPTER = Adapter(
    title="OpenSearch User Behavior Insights: your own queries and events",
    described="the OpenSearch documentation, User Behavior Insights, index schemas; the repository "
    "ubi of o19s",
    license="your own data: mind the consent of the users it is about",
    files=(
        "ubi_queries.ndjson (or .json, .jsonl): one object per line, bare or under _source; of a "
        "search response by jq -c '.hits.hits[]'",
        "ubi_events.ndjson",
        "products.ndjson (if there: titles by object id; else the events' object.description)",
    ),
    grades=BY_LATER_CLICKS,
    split=SPLIT_BY_TIME,
    convert=convert,
    held_out=0.2,
    options={
        "clicks": "click,item_click,product_click,add_to_cart,purchase actions that are clicks",
        "impressions": "impression,view actions by which a title is displayed and not clicked",
        "title": "title key of the title in products.ndjson",
    },
    columns=("timestamp", "session_id", "position", "impressions"),
)
