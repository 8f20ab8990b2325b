"""Renders the page of the demo as one HTML file, which sends no requests."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

from dssm_tf.demo_page.model_data import model_data
from dssm_tf.reports.page import document, json_element
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker

SCRIPTS = ("words.js", "maxsim.js", "page.js")
"""The scripts of the page, in the order in which they run."""


class Example(NamedTuple):
    """A query to try.

    Attributes:
        query: the query.
        note: a note next to the query; empty for none.
    """

    query: str
    note: str = ""


class MeasuredSystem(NamedTuple):
    """A row of the table of measured systems.

    Attributes:
        name: name of the system.
        description: describes the system in a few words.
        values: a number for each column, as text.
    """

    name: str
    description: str
    values: Sequence[str]


class SimilarPair(NamedTuple):
    """A word of queries and a different word of titles, with their similarity."""

    query_word: str
    title_word: str
    similarity: float


class DemoResults(NamedTuple):
    """The results of the demo, which the page shows.

    Attributes:
        numbers: the counts of the data, by their labels.
        clicks: number of clicks.
        titles: number of titles.
        measured: number of queries of the measurement.
        seconds: duration of the training.
        pairs: similar words that the model learned.
        columns: headings of the table.
        systems: rows of the table; the first is the model of the page.
        interval: the largest half-width of the 95 % intervals, in percentage points.
        note: a sentence about the table; empty for none.
        next_command: the first command to run on the user's log.
        use_commands: the commands to run afterwards.
        commands: the commands that the demo ran.
    """

    numbers: Mapping[str, str]
    clicks: int
    titles: int
    measured: int
    seconds: float
    pairs: Sequence[SimilarPair]
    columns: Sequence[str]
    systems: Sequence[MeasuredSystem]
    interval: float
    note: str
    next_command: str
    use_commands: Sequence[str]
    commands: Sequence[str]


def render(
    results: DemoResults, ranker: MaxSimRanker, titles: Sequence[str], examples: Sequence[Example]
) -> str:
    """Renders the page as HTML.

    Args:
        results: the results of the demo.
        ranker: the model that the page searches with.
        titles: the titles to search. Titles with equal scores stay in this order.
        examples: queries to try; at first, the page shows the results of the first one.
    """
    fields = {
        "clicks": f"{results.clicks:,}",
        "titles": f"{results.titles:,}",
        "measured": f"{results.measured:,}",
        "duration": _duration(results.seconds),
        "interval": f"{results.interval:.1f}",
        "note": escape(results.note),
        "examples": "\n".join(map(_example, examples)),
        "numbers": "\n".join(
            f"<div><dt>{escape(label)}</dt><dd>{escape(number)}</dd></div>"
            for label, number in results.numbers.items()
        ),
        "pairs": "\n".join(
            f"<li>{escape(pair.query_word)} → {escape(pair.title_word)}"
            f"<span>{pair.similarity:.2f}</span></li>"
            for pair in results.pairs
        ),
        "heads": "".join(f'<th scope="col">{escape(name)}</th>' for name in results.columns),
        "rows": "\n".join(
            _row(system, is_page_model=index == 0) for index, system in enumerate(results.systems)
        ),
        "next": escape(results.next_command),
        "use": escape("\n".join(results.use_commands)),
        "commands": escape("\n".join(results.commands)),
        "data": json_element(model_data(ranker, titles)),
    }
    style = f"<style>\n{_source('page.css')}</style>\n"
    body = Template(_source("page.html")).substitute(fields)
    scripts = [_source(name) for name in SCRIPTS]
    return document("dssm-tf demo", style + body, scripts, _content_security_policy(scripts))


def _duration(seconds: float) -> str:
    """Seconds, or whole minutes from two minutes on."""
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes"


def _example(example: Example) -> str:
    query, note = escape(example.query), escape(example.note)
    tag = f'<span class="tag">{note}</span>' if note else ""
    return f'<li><button type="button" value="{query}">{query}{tag}</button></li>'


def _row(system: MeasuredSystem, is_page_model: bool) -> str:
    cells = "".join(f"<td>{escape(value)}</td>" for value in system.values)
    head = f"{escape(system.name)}<small>{escape(system.description)}</small>"
    highlight = ' class="shown"' if is_page_model else ""
    return f'<tr{highlight}><th scope="row">{head}</th>{cells}</tr>'


def _content_security_policy(scripts: Sequence[str]) -> str:
    """The policy that allows these scripts and no requests, even if a text were read as HTML."""
    hashes = (b64encode(sha256(f"\n{script}".encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; "
        "form-action 'none'; base-uri 'none'"
    )


def _source(name: str) -> str:
    """Reads a file of this package."""
    return (files("dssm_tf.demo_page") / name).read_text("utf-8")
