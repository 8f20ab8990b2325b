"""The description of a log in `report.json`: plain data, from statistics that steps have merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from itertools import islice
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import shown_text
from dssm_tf.tables.tally import Tally
from pipelines.log_statistics import LogStatistics, TextExample
from pipelines.options import PreprocessOptions
from pipelines.previous import PreviousReport
from pipelines.shards import Counts

ROBOTS = {
    "session with many queries": "max_queries_per_session",
    "session with many clicks": "max_clicks_per_session",
}
"""The reasons to drop a session, and the option with the limit of each."""
_MAX_EXAMPLES = 3
_MAX_EXAMPLE_LENGTH = 100  # characters
_MAX_LISTED_DAYS = 10


def summarize_log(
    statistics: LogStatistics,
    counts: Counts,
    tally: Tally,
    options: PreprocessOptions,
    previous: PreviousReport | None,
) -> dict[str, Any]:
    """Describes a log.

    Args:
        statistics: statistics of the log and the corpus.
        counts: counts of the steps.
        tally: counts of good and malformed rows.
        options: options of the command.
        previous: an earlier output to compare with.
    """
    sums = statistics.sums
    result = {
        "rows": tally.rows,
        "clicks": tally.clicks,
        "days": _days(statistics),
        "queries": _texts(statistics, "queries", "query")
        | {"to_show": sums["queries to show"], "min_sessions": options.report_min_sessions},
        "titles": _texts(statistics, "titles", "title")
        | {"merged": [list(example.texts) for example in _examples(statistics, _SPELLINGS)]},
        "unclicked": {
            "queries": sums["queries without a click"],
            "impressions": sums["impressions of queries without a click"],
            "all_impressions_without_a_click": sums["impressions without a click"],
            "top": _rows(statistics, "queries without a click", "query", "impressions"),
        },
        "catalog": _catalog(statistics, options),
        "sessions": _sessions(statistics, counts, options),
        "dropped": [*_dropped(statistics, counts, tally)],
    }
    titles = counts.get("titles: in all", 0)
    return result | {"drift": _drift(result, statistics, titles, previous)}


_SPELLINGS = "titles with several spellings"


def _examples(statistics: LogStatistics, name: str) -> list[TextExample]:
    return statistics.examples.get(name, [])


def _rows(
    statistics: LogStatistics, name: str, text_key: str, number_key: str
) -> list[dict[str, Any]]:
    """The examples of a name as rows of a table; `text_key` and `number_key` name its columns."""
    return [
        {text_key: example.texts[0], number_key: example.number}
        | ({"sessions": example.sessions} if example.sessions else {})
        for example in _examples(statistics, name)
    ]


def _days(statistics: LogStatistics) -> dict[str, Any]:
    """The first and the last day, the clicks of each day, and the days without a click."""
    days = dict(sorted(statistics.days.items()))
    sums = statistics.sums
    result: dict[str, Any] = {
        "rows_without_a_time": sums["rows without a time"],
        "rows_with_an_unreadable_time": sums["rows with an unreadable time"],
        "clicks": days,
    }
    if days:
        first, last = (date.fromisoformat(day) for day in (min(days), max(days)))
        number = (last - first).days + 1
        every_day = ((first + timedelta(day)).isoformat() for day in range(number))
        days_without_clicks = (day for day in every_day if not days.get(day))
        missing = number - sum(1 for clicks in days.values() if clicks)
        result |= {
            "first": first.isoformat(),
            "last": last.isoformat(),
            "number": number,
            "number_without_a_click": missing,
            "without_a_click": list(islice(days_without_clicks, _MAX_LISTED_DAYS)),
        }
    return result


def _texts(statistics: LogStatistics, kind: str, text_key: str) -> dict[str, Any]:
    """Head and tail of the queries or titles, by their clicks.

    `half` is the smallest number of texts that have at least half of the clicks.
    """
    histogram: Mapping[int, int] = statistics.histograms.get(kind, {})
    clicks = sum(number * texts for number, texts in histogram.items())
    half = reached = 0
    for number, texts in sorted(histogram.items(), reverse=True):
        needed = min(texts, -(-(clicks - 2 * reached) // (2 * number)))
        half, reached = half + needed, reached + needed * number
        if 2 * reached >= clicks:
            break
    return {
        "number": sum(histogram.values()),
        "clicks": clicks,
        "half": half,
        "by_clicks": [*_classes(histogram)],
        "with_several_spellings": statistics.sums[f"{kind} with several spellings"],
        "top": _rows(statistics, kind, text_key, "clicks"),
    }


def _classes(histogram: Mapping[int, int]) -> Iterator[dict[str, int]]:
    """The numbers of texts and their clicks: with 1 click, 2 to 9, 10 to 99, and so on."""
    low, high, most = 1, 1, max(histogram, default=0)
    while low <= most:
        inside = {number: texts for number, texts in histogram.items() if low <= number <= high}
        yield {
            "from": low,
            "to": high,
            "texts": sum(inside.values()),
            "clicks": sum(number * texts for number, texts in inside.items()),
        }
        low, high = high + 1, 9 if high == 1 else 10 * high + 9


def _catalog(statistics: LogStatistics, options: PreprocessOptions) -> dict[str, Any] | None:
    """The titles of `--corpus`, and the clicked titles that it lacks; None without the flag."""
    if not options.corpus:
        return None
    sums = statistics.sums
    return {
        "rows": sums["catalog rows"],
        "titles": sums["catalog titles"],
        "without_a_click": sums["catalog titles without a click"],
        "with_several_spellings": sums["catalog titles with several spellings"],
        "unmatched": {
            "titles": sums["unmatched titles"],
            "clicks": sums["clicks of unmatched titles"],
            "top": _rows(statistics, "unmatched titles", "title", "clicks"),
        },
    }


def _sessions(
    statistics: LogStatistics, counts: Counts, options: PreprocessOptions
) -> dict[str, Any]:
    sums = statistics.sums
    return {
        "number": counts.get("sessions: in all", 0),
        "clicks_without_a_session": sums["clicks without a session"],
        "dropped": [
            {
                "reason": reason,
                "limit": getattr(options, limit),
                "largest": statistics.maxima[reason],
                **{name: sums[f"{name}: {reason}"] for name in ("sessions", "rows", "clicks")},
            }
            for reason, limit in ROBOTS.items()
            if sums[f"sessions: {reason}"]
        ],
    }


def _dropped(statistics: LogStatistics, counts: Counts, tally: Tally) -> Iterator[dict[str, Any]]:
    """The dropped rows by reason, malformed ones first, each with examples."""
    for reason, rows in tally.reasons.most_common():
        file, reject = tally.examples[reason]
        text = shown_text(reject.text, _MAX_EXAMPLE_LENGTH)
        example = f"{file.rpartition('/')[2]}:{reject.line}: {text}"
        yield {"reason": f"malformed: {reason}", "rows": rows, "examples": [example]}
    for name, rows in sorted(counts.items()):
        kind, _, reason = name.partition(": ")
        if kind == "dropped":
            examples = [
                f"{side} {shown_text(example.texts[0], _MAX_EXAMPLE_LENGTH)}"
                for side in ("query", "title")
                for example in _examples(statistics, f"{side} without words")
            ]
            texts = examples[:_MAX_EXAMPLES] if reason == "no words" else []
            yield {"reason": reason, "rows": rows, "examples": texts}


def _drift(
    log: Mapping[str, Any],
    statistics: LogStatistics,
    title_count: int,
    previous: PreviousReport | None,
) -> dict[str, Any] | None:
    """Compares a log with the previous one.

    Args:
        log: the description of the log.
        statistics: statistics of the log.
        title_count: number of titles of the log and the corpus.
        previous: the earlier output, or None.

    Returns:
        Numbers, and fractions, whose names begin with `share`; a fraction of a total of 0 is None.
        None without a previous log.

    Raises:
        UserError: the earlier report is damaged.
    """
    if previous is None:
        return None
    sums, directory = statistics.sums, previous.tables.directory
    try:
        earlier = previous.report["log"]
        before_and_now = {name: [read(earlier), read(log)] for name, read in _COMPARED.items()}
        days = [earlier["days"].get(name) for name in ("first", "last")]
    except (AttributeError, LookupError, TypeError) as error:
        raise UserError(
            f"--previous-report {directory}: report.json is damaged or of another version "
            f"({error!r}); give an output that this version wrote."
        ) from None
    return {
        "previous": directory,
        "previous_days": days,
        "new_queries": {
            "number": sums["new queries"],
            "share": _fraction(sums["new queries"], log["queries"]["number"]),
            "share_of_clicks": _fraction(sums["clicks of new queries"], log["queries"]["clicks"]),
            "top": _rows(statistics, "new queries", "query", "clicks"),
        },
        "new_titles": {
            "number": sums["new titles"],
            "share": _fraction(sums["new titles"], title_count),
            "share_of_clicks": _fraction(sums["clicks of new titles"], log["titles"]["clicks"]),
            "top": _rows(statistics, "new titles", "title", "clicks"),
        },
        "before_and_now": before_and_now,
    }


def _fraction(part: int, total: int) -> float | None:
    return part / total if total else None


def _unmatched_fraction(log: Mapping[str, Any], name: str) -> float | None:
    if not log["catalog"]:
        return None
    return _fraction(log["catalog"]["unmatched"][name], log["titles"][_TOTALS[name]])


_TOTALS = {"titles": "number", "clicks": "clicks"}
"""For a number in `catalog.unmatched`, the key of its total in `titles`."""
_COMPARED: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
    "clicks": lambda log: log["clicks"],
    "clicks per day": lambda log: _fraction(log["clicks"], log["days"].get("number", 0)),
    "queries": lambda log: log["queries"]["number"],
    "clicked titles": lambda log: log["titles"]["number"],
    "queries with one click": lambda log: _fraction(
        (log["queries"]["by_clicks"] or [{"texts": 0}])[0]["texts"], log["queries"]["number"]
    ),
    "clicked titles that the catalog lacks": lambda log: _unmatched_fraction(log, "titles"),
    "clicks on titles that the catalog lacks": lambda log: _unmatched_fraction(log, "clicks"),
    "malformed rows": lambda log: _fraction(
        sum(row["rows"] for row in log["dropped"] if row["reason"].startswith("malformed: ")),
        log["rows"],
    ),
}
"""The numbers and fractions to compare, computed from the description of a log."""
