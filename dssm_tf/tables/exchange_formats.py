"""Judgments as files of other tools: TREC qrels, Quepid, OpenSearch Search Relevance Workbench."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from dssm_tf.tables.judgments import Judgment
from dssm_tf.tables.trec import write_qrels
from dssm_tf.tables.writer import write_lines

_QUEPID_COLUMNS = ("query", "docid", "rating")


class ExchangeFormat(NamedTuple):
    """A format of another tool.

    Attributes:
        file: name of the file.
        write: writes judgments, which are sorted by query, to a path; returns notes about rows
            that the format does not allow.
        use: how to import the file, in one line.
    """

    file: str
    write: Callable[[Path, Sequence[Judgment]], list[str]]
    use: str


def write_trec(path: Path, judgments: Sequence[Judgment]) -> list[str]:
    """Writes qrels: `query_id 0 doc_id grade`."""
    write_qrels(path, judgments)
    return []


def write_quepid(path: Path, judgments: Sequence[Judgment]) -> list[str]:
    """Writes the CSV that Quepid imports as ratings of a case: `query,docid,rating`.

    Quepid refuses a file if a line contains a comma within a cell, unless it has exactly two
    quotation marks. Rows that need more quotation marks are left out.

    Reference: https://github.com/o19s/quepid, import_ratings_modal_instance_controller.js.
    """
    lines, left_out = [",".join(_QUEPID_COLUMNS)], []
    for judgment in judgments:
        line = _csv_line([judgment.query, judgment.doc_id, f"{judgment.grade:g}"])
        if line.count(",") + 1 > len(_QUEPID_COLUMNS) and line.count('"') != 2:
            left_out.append(judgment)
        else:
            lines.append(line)
    write_lines(path, lines)
    if not left_out:
        return []
    return [
        f"{len(left_out):,} rows were left out, because Quepid accepts no text with commas and "
        f"quotation marks, such as {left_out[0].query!r}"
    ]


def write_search_relevance(path: Path, judgments: Sequence[Judgment]) -> list[str]:
    """Writes the body of `PUT _plugins/_search_relevance/judgments` of OpenSearch 3.

    Reference: https://docs.opensearch.org/latest/search-plugins/search-relevance/judgments/.
    """
    ratings = [
        {
            "query": rows[0].query,
            "ratings": [{"docId": row.doc_id, "rating": f"{row.grade:.3f}"} for row in rows],
        }
        for rows in (list(group) for _, group in groupby(judgments, lambda row: row.query_id))
    ]
    body = {
        "name": "Clicks",
        "description": "Grades from clicks, written by dssm data judgments",
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": ratings,
    }
    write_lines(path, [json.dumps(body, ensure_ascii=False)])
    return []


FORMATS = {
    "trec": ExchangeFormat("qrels.trec", write_trec, "trec_eval {file} engine.trec"),
    "quepid": ExchangeFormat(
        "quepid.csv", write_quepid, "in a case of Quepid, choose Import, Ratings, CSV: {file}"
    ),
    "search-relevance": ExchangeFormat(
        "search_relevance.json",
        write_search_relevance,
        "curl -X PUT -H 'Content-Type: application/json' --data-binary @{file} "
        "http://localhost:9200/_plugins/_search_relevance/judgments",
    ),
}
"""The formats by name."""


def _csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
