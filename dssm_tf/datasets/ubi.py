"""OpenSearch User Behavior Insights: queries and events of a search application."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.datasets.adapter import BY_LATER_CLICKS, SPLIT_BY_TIME, Adapter, Option
from dssm_tf.datasets.output import DatasetWriter, clean
from dssm_tf.datasets.source import Source
from dssm_tf.tables.cells import BadRow

_EVENT_KEYS = (
    "action_name", "query_id", "timestamp", "event_attributes", "session_id", "client_id",
)  # fmt: skip
_ID_KEYS = ("object_id", "doc_id", "id", "_id")


def convert(source: Source, output: DatasetWriter, options: Mapping[str, str]) -> None:
    """Joins events to queries by `query_id`; titles are those of a catalog or of the events."""
    clicks = set(filter(None, options["clicks"].split(",")))
    impressions = set(filter(None, options["impressions"].split(",")))
    events = source.find("ubi_events.*json*", "events.*json*")
    catalog = source.find_all("corpus.*json*", "products.*json*")
    title_key, actions = options["title"], set[str]()

    def add_product(*cells: object) -> None:
        *ids, text = cells
        doc_id = next((doc_id for doc_id in map(clean, ids) if doc_id), "")
        if not doc_id or text is None:
            raise BadRow(
                "no id or title",
                f"expected {title_key} and one of {', '.join(_ID_KEYS)}; name the title's key with "
                "--set title=KEY",
            )
        output.add_title(doc_id, text)

    def add_event(
        action: str,
        query_id: str,
        time: object,
        attributes: object,
        session: object,
        client: object,
    ) -> None:
        action = str(action)[:40]
        actions.add(action)
        is_click = action in clicks
        if is_click or action in impressions:
            query, doc_id = (
                output.query(query_id),
                clean(_value_at(attributes, "object", "object_id")),
            )
            if not query or not doc_id:
                output.dropped["event without a known query or without an object"] += 1
                return
            if not catalog and doc_id not in output.titles:
                output.add_title(doc_id, _value_at(attributes, "object", "description"))
            session = session or _value_at(attributes, "session_id") or client
            position = _value_at(attributes, "position", "ordinal")
            impression = "" if is_click else "1"
            output.add_event(
                query, doc_id, int(is_click), clean(time), session, position, impression
            )

    for path in catalog:
        _read(source, path, (*_ID_KEYS, title_key), add_product)
    queries = source.find("ubi_queries.*json*", "queries.*json*")
    _read(source, queries, ("query_id", "user_query"), output.add_query)
    _read(source, events, _EVENT_KEYS, add_event)
    if not actions & clicks:
        raise UserError(
            f"{events} has no event named {', '.join(sorted(clicks))}; its actions are "
            f"{', '.join(sorted(actions)) or 'none'}. Name those that are clicks: "
            "--set clicks=NAME,NAME."
        )


def _read(source: Source, path: Path, keys: Sequence[str], add: Callable[..., None]) -> None:
    """Reads one object per line. Its keys may be under `_source`, as in a search response."""

    def add_row(*cells: Any) -> None:
        *values, hit = cells
        if hit is not None:
            values = [_value_at(hit, key) for key in keys]
        add(*values)

    source.read(path, (*keys, "_source"), add_row, format="jsonl")


def _value_at(value: Any, *keys: str) -> Any:
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
    origin="the OpenSearch documentation, User Behavior Insights, index schemas; the repository "
    "ubi of o19s",
    license="your own data: check that the users consented",
    files=(
        "ubi_queries.ndjson (or .json, .jsonl): one object per line, with or without _source; "
        "jq -c '.hits.hits[]' extracts them from a search response",
        "ubi_events.ndjson",
        "products.ndjson (optional: titles by object id; otherwise the events' object.description)",
    ),
    grades=BY_LATER_CLICKS,
    split=SPLIT_BY_TIME,
    convert=convert,
    held_out=0.2,
    options={
        "clicks": Option(
            "click,item_click,product_click,add_to_cart,purchase", "actions that are clicks"
        ),
        "impressions": Option(
            "impression,view", "actions by which a title is displayed and not clicked"
        ),
        "title": Option("title", "key of the title in products.ndjson"),
    },
    columns=("timestamp", "session_id", "position", "impressions"),
)
