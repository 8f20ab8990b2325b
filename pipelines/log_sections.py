"""Sections about a log, for the report as Markdown and for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from tabulate import tabulate

from dssm_tf.reports import markdown
from dssm_tf.tables.cells import printable, shown_text
from dssm_tf.text.fields import SEPARATOR

_BAR_WIDTH = 12  # characters; longer bars do not fit on a phone
_MAX_DAYS, _MAX_WEEKS, _MAX_MONTHS = 31, 27, 36
_MAX_TITLES = 10  # rows of a table of titles
_MIN_CELL_WIDTH = 20  # characters
_MANY_UNMATCHED = 0.05
"""A larger fraction of clicks on titles that the catalog lacks gets a warning."""


@dataclass(frozen=True)
class ReportTable:
    """A table.

    Args:
        caption: a sentence above it.
        heads: headings of the columns.
        rows: cells; texts of the log are not escaped.
        text_columns: number of text columns, at the left; the others have numbers.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1


@dataclass
class ReportSection:
    """A part of the report.

    Args:
        title: its heading.
        lines: sentences.
        tables: tables after the sentences.
    """

    title: str
    lines: list[str] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)


def to_markdown(sections: Sequence[ReportSection]) -> str:
    """The sections as Markdown; texts of the log are escaped."""
    parts = []
    for section in sections:
        parts += [f"## {section.title}", markdown.bullets(section.lines)]
        for table in section.tables:
            rows = [[*map(markdown.plain, row)] for row in table.rows]
            parts += [table.caption, markdown.table(table.heads, rows, table.text_columns)]
    return "\n\n".join(filter(None, parts))


def to_text(sections: Sequence[ReportSection], width: int | None = None) -> Iterator[str]:
    """The sections as lines of plain text; headings begin with `# `.

    Args:
        sections: the sections.
        width: width of the terminal in characters, to which the texts in tables are cut; None cuts
            nothing.
    """
    for section in sections:
        yield from ("", f"# {section.title}")
        yield from (f"- {printable(line)}" for line in section.lines)
        for table in section.tables:
            rows = [[*map(printable, row)] for row in table.rows]
            if width is not None:
                rows = _truncate_texts(rows, table, width)
            align = ["left" if n < table.text_columns else "right" for n in range(len(table.heads))]
            text = tabulate(rows, table.heads, "simple", disable_numparse=True, colalign=align)
            yield from ("", table.caption, "", *(line.rstrip() for line in text.splitlines()))


def _truncate_texts(
    rows: Sequence[Sequence[str]], table: ReportTable, width: int
) -> list[list[str]]:
    """Cuts the cells of text columns, so that a row fits into the width of the terminal."""
    columns = [*zip(table.heads, *rows, strict=True)]
    numbers = sum(max(map(len, column)) + 2 for column in columns[table.text_columns :])
    limit = max(_MIN_CELL_WIDTH, (width - numbers) // table.text_columns - 2)
    return [
        [shown_text(cell, limit) if n < table.text_columns else cell for n, cell in enumerate(row)]
        for row in rows
    ]


def log_sections(log: Mapping[str, Any]) -> list[ReportSection]:
    """The sections that describe a log.

    Args:
        log: the result of `summarize_log`.
    """
    sections = [
        _summary(log), _days(log["days"]), _queries(log), _titles(log), _catalog(log),
        _dropped(log), _drift(log),
    ]  # fmt: skip
    return [section for section in sections if section.lines or section.tables]


def warnings(log: Mapping[str, Any]) -> list[str]:
    """Sentences about properties of a log that a user may want to change."""
    result, days, sessions, catalog = [], log["days"], log["sessions"], log["catalog"]
    if not log["rows"]:
        return []
    if not sessions["number"]:
        result.append(
            "No row has a session_id: robots are not recognized, and repeated clicks of one user "
            "all count."
        )
    if not days["clicks"]:
        result.append("No row has a readable timestamp: the log cannot be split by time.")
    elif rows := days["rows_without_a_time"] + days["rows_with_an_unreadable_time"]:
        result.append(f"{rows:,} rows have no readable timestamp.")
    if missing := days.get("number_without_a_click"):
        listed = days["without_a_click"]
        unlisted = missing - len(listed)
        end = f" and {unlisted:,} more" if unlisted else ""
        result.append(f"{_plural(missing, 'day')} without a click: {', '.join(listed)}{end}.")
    if catalog and (clicks := log["titles"]["clicks"]):
        fraction = catalog["unmatched"]["clicks"] / clicks
        if fraction > _MANY_UNMATCHED:
            result.append(f"{fraction:.1%} of the clicks are on titles that the catalog lacks.")
    return result


def _summary(log: Mapping[str, Any]) -> ReportSection:
    section, days, sessions = ReportSection("Summary"), log["days"], log["sessions"]
    if not log["rows"]:
        return section
    section.lines.append(f"{_plural(log['rows'], 'row')} with {_plural(log['clicks'], 'click')}.")
    if "first" in days:
        section.lines.append(
            f"{days['first']} to {days['last']}, {_plural(days['number'], 'day')}."
        )
    for kind, noun, verb in (("queries", "query", "kept"), ("titles", "title", "clicked")):
        texts = log[kind]
        section.lines.append(
            f"{_plural(texts['number'], noun)} {verb}, {_plural(texts['clicks'], 'click')}."
        )
    if sessions["number"]:
        section.lines.append(f"{_plural(sessions['number'], 'session')}.")
    section.lines += [f"Warning: {warning}" for warning in warnings(log)]
    return section


def _days(days: Mapping[str, Any]) -> ReportSection:
    """Clicks per day, week, month or year, whichever gives a table of readable length."""
    section = ReportSection("Clicks by date")
    clicks = {date.fromisoformat(day): number for day, number in days["clicks"].items()}
    if not clicks:
        return section
    number, start = days["number"], min(clicks)
    limits = {"day": _MAX_DAYS, "week": 7 * _MAX_WEEKS, "month": 31 * _MAX_MONTHS}
    unit = next((unit for unit, limit in limits.items() if number <= limit), "year")
    totals = dict.fromkeys((_period(start + timedelta(n), unit) for n in range(number)), 0)
    for day, day_clicks in clicks.items():
        totals[_period(day, unit)] += day_clicks
    largest = max(totals.values()) or 1
    mean = sum(totals.values()) / number
    section.lines.append(f"{mean:,.0f} clicks per day on average.")
    if unit != "day":
        section.lines.append("The first and the last row of the table may be incomplete.")
    rows = [[name, "█" * round(_BAR_WIDTH * n / largest), f"{n:,}"] for name, n in totals.items()]
    head = "week from" if unit == "week" else unit
    section.tables.append(ReportTable(f"Clicks of each {unit}.", [head, "", "clicks"], rows, 2))
    return section


def _period(day: date, unit: str) -> str:
    """The name of the day, week (its Monday), month or year that contains a day."""
    if unit == "week":
        return (day - timedelta(day.weekday())).isoformat()
    return day.isoformat()[: {"day": 10, "month": 7, "year": 4}[unit]]


def _queries(log: Mapping[str, Any]) -> ReportSection:
    section, queries, unclicked = ReportSection("Queries"), log["queries"], log["unclicked"]
    if not log["rows"]:
        return section
    section.lines += _head_and_tail(queries, "query")
    if queries["with_several_spellings"]:
        merged = _plural(queries["with_several_spellings"], "query")
        section.lines.append(f"{merged} with several spellings are merged.")
    section.tables.append(_classes_table(queries, "queries"))
    enough_sessions = (
        f"at least {_plural(queries['min_sessions'], 'session')} (or clicks without a session)"
    )
    if queries["top"]:
        section.tables.append(
            _top_table(
                queries,
                f"Most clicked queries, of the {queries['to_show']:,} with {enough_sessions}.",
            )
        )
    elif queries["number"]:
        section.lines.append(f"No query has {enough_sessions}, so none is shown.")
    if unclicked["queries"]:
        section.lines.append(
            f"{_plural(unclicked['queries'], 'query')} with impressions and no click, "
            f"{_plural(unclicked['impressions'], 'impression')}."
        )
        if unclicked["top"]:
            rows = [
                [row["query"], f"{row['impressions']:,}", f"{row['sessions']:,}"]
                for row in unclicked["top"]
            ]
            heads = ["query", "impressions", "sessions"]
            caption = f"Queries with most impressions and no click, shown in {enough_sessions}."
            section.tables.append(ReportTable(caption, heads, rows))
        else:
            section.lines.append("No such query is shown, because none has enough sessions.")
    elif not unclicked["all_impressions_without_a_click"]:
        section.lines.append("The log has no impressions without a click.")
    return section


def _titles(log: Mapping[str, Any]) -> ReportSection:
    section, titles = ReportSection("Titles"), log["titles"]
    if not log["rows"]:
        return section
    section.lines += _head_and_tail(titles, "title")
    section.tables.append(_classes_table(titles, "titles"))
    if titles["top"]:
        top = dict(titles, top=titles["top"][:_MAX_TITLES])
        section.tables.append(_top_table(top, "Most clicked titles."))
    if merged := titles["with_several_spellings"]:
        section.lines.append(
            f"{_plural(merged, 'title')} of the log with several spellings are merged: they have "
            "the same words."
        )
        rows = [[" = ".join(map(_with_bars, texts))] for texts in titles["merged"][:_MAX_TITLES]]
        section.tables.append(
            ReportTable("Merged titles, most clicked first.", ["spellings"], rows)
        )
    return section


def _catalog(log: Mapping[str, Any]) -> ReportSection:
    section, catalog = ReportSection("Catalog"), log["catalog"]
    if not catalog:
        return section
    section.lines.append(
        f"{_plural(catalog['rows'], 'row')}, {_plural(catalog['titles'], 'distinct title')}."
    )
    if catalog["with_several_spellings"]:
        merged = _plural(catalog["with_several_spellings"], "title")
        section.lines.append(f"{merged} of the catalog with several spellings are merged.")
    if not log["rows"]:
        return section
    unmatched = catalog["unmatched"]
    section.lines += [
        f"{_plural(catalog['without_a_click'], 'title')} without a click "
        f"({_percent(catalog['without_a_click'], catalog['titles'])}).",
        f"{_plural(unmatched['titles'], 'clicked title')} that the catalog lacks, with "
        f"{_plural(unmatched['clicks'], 'click')} "
        f"({_percent(unmatched['clicks'], log['titles']['clicks'])}).",
    ]
    if unmatched["top"]:
        top = {"top": unmatched["top"][:_MAX_TITLES], "clicks": log["titles"]["clicks"]}
        section.tables.append(_top_table(top, "Clicked titles that the catalog lacks."))
    return section


def _dropped(log: Mapping[str, Any]) -> ReportSection:
    section, sessions = ReportSection("Dropped rows and sessions"), log["sessions"]
    if not log["rows"]:
        return section
    rows = [
        [row["reason"], "; ".join(row["examples"]), f"{row['rows']:,}",
         _percent(row["rows"], log["rows"])]
        for row in log["dropped"]
    ]  # fmt: skip
    if rows:
        heads = ["reason", "examples", "rows", "of all rows"]
        section.tables.append(ReportTable("Dropped rows.", heads, rows, 2))
    else:
        section.lines.append("No row is dropped.")
    if sessions["dropped"]:
        rows = [
            [f"{row['reason']}, more than {row['limit']:,}", f"{row['sessions']:,}",
             f"{row['rows']:,}", f"{row['clicks']:,}", f"{row['largest']:,}"]
            for row in sessions["dropped"]
        ]  # fmt: skip
        heads = ["reason", "sessions", "rows", "clicks", "most of a session"]
        section.tables.append(ReportTable("Dropped sessions, which look like robots.", heads, rows))
    elif sessions["number"]:
        section.lines.append(f"None of the {_plural(sessions['number'], 'session')} is dropped.")
    return section


def _drift(log: Mapping[str, Any]) -> ReportSection:
    section, drift = ReportSection("Changes since the previous report"), log["drift"]
    if not drift:
        return section
    first, last = drift["previous_days"]
    dates = f", {first} to {last}" if first and last else ""
    section.lines.append(f"Previous: {drift['previous']}{dates}.")
    for name, noun, nouns in (
        ("new_queries", "new query", "queries"), ("new_titles", "new title", "titles")
    ):  # fmt: skip
        new = drift[name]
        section.lines.append(
            f"{_plural(new['number'], noun)}: {_fraction(new['share'])} of the {nouns}, "
            f"{_fraction(new['share_of_clicks'])} of the clicks."
        )
    rows = [
        [name, *(_fraction(value) if name not in _NUMBERS else _number(value) for value in values)]
        for name, values in drift["before_and_now"].items()
        if values != [None, None]
    ]
    heads = ["", "previous", "this log"]
    section.tables.append(ReportTable("Previous log and this log.", heads, rows))
    for name, noun, clicks in (
        ("new_queries", "queries", log["queries"]["clicks"]),
        ("new_titles", "titles", log["titles"]["clicks"]),
    ):
        if drift[name]["top"]:
            top = {"top": drift[name]["top"][:_MAX_TITLES], "clicks": clicks}
            section.tables.append(_top_table(top, f"Most clicked new {noun}."))
    return section


_NUMBERS = {"clicks", "clicks per day", "queries", "clicked titles"}
"""The rows of `before_and_now` that are numbers; the others are fractions."""


def _head_and_tail(texts: Mapping[str, Any], noun: str) -> list[str]:
    if not texts["number"]:
        return []
    return [
        f"Half of the clicks are of the {_plural(texts['half'], noun)} with most clicks, "
        f"{_percent(texts['half'], texts['number'])} of {_plural(texts['number'], noun)}."
    ]


def _classes_table(texts: Mapping[str, Any], nouns: str) -> ReportTable:
    rows = [
        [_range(row["from"], row["to"]), f"{row['texts']:,}",
         _percent(row["texts"], texts["number"]), f"{row['clicks']:,}",
         _percent(row["clicks"], texts["clicks"])]
        for row in texts["by_clicks"]
    ]  # fmt: skip
    heads = ["clicks each", nouns, f"of all {nouns}", "clicks", "of all clicks"]
    return ReportTable(f"Head and tail: {nouns} by their clicks.", heads, rows)


def _top_table(texts: Mapping[str, Any], caption: str) -> ReportTable:
    noun = "query" if texts["top"] and "query" in texts["top"][0] else "title"
    rows = [
        [_with_bars(row[noun]), f"{row['clicks']:,}", _percent(row["clicks"], texts["clicks"])]
        for row in texts["top"]
    ]
    return ReportTable(caption, [noun, "clicks", "of all clicks"], rows)


def _with_bars(text: str) -> str:
    """A title with vertical bars between its fields."""
    return text.replace(SEPARATOR, " | ")


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _percent(part: float, total: float) -> str:
    return _fraction(part / total if total else None)


def _fraction(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _plural(number: int, noun: str) -> str:
    """A number with its noun, `1 query` or `2 queries`."""
    if number == 1:
        return f"1 {noun}"
    return (
        f"{number:,} {noun[:-1]}ies"
        if noun.endswith("y") and noun != "day"
        else f"{number:,} {noun}s"
    )
