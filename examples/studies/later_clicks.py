"""Splits a click log by time and turns the later clicks into judgments, for several studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dssm_tf.tables.judgments import Judgment, judgments_from_clicks
from dssm_tf.text.rules import FOLDED

CUTOFFS = ("ndcg@1", "ndcg@3", "ndcg@10")


def split_by_time(clicks: Path, fraction: float) -> tuple[list[str], list[str], list[str]]:
    """Splits the rows of a TSV by its column `timestamp`.

    Args:
        clicks: table with a header.
        fraction: fraction of the earlier rows.

    Returns:
        The names of the columns, the earlier rows and the later rows.
    """
    header, *rows = clicks.read_text("utf-8").splitlines()
    column = header.split("\t").index("timestamp")
    rows.sort(key=lambda row: row.split("\t")[column])
    earlier = int(len(rows) * fraction)
    return header.split("\t"), rows[:earlier], rows[earlier:]


def later_judgments(
    header: Sequence[str], rows: Sequence[str], ids: Mapping[str, str]
) -> list[Judgment]:
    """Judgments from later clicks on titles of the catalog, see `judgments_from_clicks`.

    Args:
        header: names of the columns.
        rows: rows of the later clicks.
        ids: doc ids by title.
    """
    query, title = header.index("query"), header.index("title")
    count = header.index("clicks") if "clicks" in header else None
    cells = [row.split("\t") for row in rows]
    return judgments_from_clicks(
        (
            (row[query], ids[row[title]], 1.0 if count is None else float(row[count]))
            for row in cells
            if row[title] in ids
        ),
        FOLDED,
        {doc_id: title for title, doc_id in ids.items()},
    )
