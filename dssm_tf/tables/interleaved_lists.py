"""Logs of interleaved lists, one row per displayed title: `list_id`, `team`, `clicks` and more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
from polars import col

from dssm_tf.common.errors import UserError
from dssm_tf.tables import columns
from dssm_tf.tables.batches import LINE
from dssm_tf.tables.columns import CLICK_LOG
from dssm_tf.tables.formats import format_of
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.read import scan

FILE = "file"
_OPTIONAL = {column.name: column for column in CLICK_LOG}
_TEXT = _OPTIONAL["timestamp"]  # missing cells are empty
INTERLEAVED_LISTS = (
    columns.identifier("list_id"),
    replace(_TEXT, name="team", required=True),
    columns.count("clicks"),
    _TEXT.with_name("query"),
    _OPTIONAL["session_id"],
    _OPTIONAL["doc_id"],
)


def read_interleaved_lists(paths: Sequence[Path], layout: Layout) -> pl.DataFrame:
    """Reads logs of interleaved lists.

    Args:
        paths: tables of any format.
        layout: encoding and column names of the files.

    Returns:
        The columns of `INTERLEAVED_LISTS`, `LINE` and `FILE`. Optional columns that a file lacks
        are empty.

    Raises:
        UserError: a file cannot be read, lacks a column, has a malformed row or repeats a title of
            a list, or a list has two queries or sessions. The message has file and line.
    """
    frames = []
    for path in paths:
        for frame in scan(path, INTERLEAVED_LISTS, layout, format_of(path)):
            frames.append(frame.with_columns(pl.lit(str(path)).alias(FILE)))
    rows = pl.concat(frames) if frames else pl.DataFrame()
    if not len(rows):
        raise UserError(f"{' '.join(map(str, paths))} holds no rows below the header.")
    for name in ("query", "session_id"):
        _check_one_per_list(rows, name)
    repeated = rows.filter((col.doc_id != "") & ~pl.struct("list_id", "doc_id").is_first_distinct())
    if len(repeated):
        row = repeated.row(0, named=True)
        raise UserError(
            f"{row[FILE]}:{row[LINE]}: list_id {row['list_id']!r} has doc_id {row['doc_id']!r} "
            "twice; give each displayed list its own id, and each title one row with its clicks."
        )
    return rows


def _check_one_per_list(rows: pl.DataFrame, name: str) -> None:
    """Raises UserError if a list has several values of a column."""
    first = col(name).first().over("list_id")
    conflicts = rows.with_columns(first=first).filter(col(name) != col.first)
    if len(conflicts):
        row = conflicts.row(0, named=True)
        raise UserError(
            f"{row[FILE]}:{row[LINE]}: list_id {row['list_id']!r} has the {name} {row[name]!r} "
            f"here and {row['first']!r} above; give each displayed list its own id."
        )
