"""Rows of a click log with their time stamps, to split the log before anything learns from it."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.tables.click_log import FORMATS, BadRow, Columns, LogRow, mapping_row
from dssm_tf.text.fingerprint import unit_interval
from dssm_tf.text.normalize import normalize


class TimedRow(NamedTuple):
    """A row of the log and its time stamp as written, empty where there is none."""

    row: LogRow
    time: str


def read_rows(paths: Sequence[Path]) -> list[TimedRow]:
    """The good rows of log files; malformed ones are left out, as in preprocess.

    Raises:
        UserError: a file cannot be read, or holds no good row.
    """
    rows = [row for path in paths for row in _rows(path)]
    if not rows:
        names = " ".join(map(str, paths))
        raise UserError(f"{names} holds no usable rows below the header; is it the right log?")
    return rows


def split_by_time(rows: Sequence[TimedRow], share: float) -> tuple[list[LogRow], list[LogRow]]:
    """The earlier rows and the later share of them; rows of equal time keep their order.

    Raises:
        UserError: the log has no time stamps, or nothing is left on one side.
    """
    missing = sum(not row.time for row in rows)
    if missing:
        raise UserError(
            f"--judge-later: {missing:,} of {len(rows):,} rows have no timestamp; give every row "
            "one (a number, or text such as 2024-01-31 12:00 that sorts by time)."
        )
    times: Sequence[Any] = [row.time for row in rows]
    with suppress(ValueError):  # dates, which sort as text
        times = [float(time) for time in times]
    order = sorted(range(len(rows)), key=times.__getitem__)
    cut = round(len(rows) * (1 - share))
    if not 0 < cut < len(rows):
        raise UserError(
            f"--judge-later {share:g}: of {len(rows):,} rows {cut:,} are left to learn from and "
            f"{len(rows) - cut:,} to judge by; choose another share."
        )
    ordered = [rows[place].row for place in order]
    return ordered[:cut], ordered[cut:]


def held_out(query: str, share: float) -> bool:
    """Whether a query is in the held-out share: by its normalised text, the same in every run."""
    return unit_interval(normalize(query), "benchmark") < share


def write_rows(path: Path, rows: Iterable[LogRow]) -> None:
    """Writes a TSV log that preprocess reads."""
    with atomic_write(path) as file:
        file.write("query\ttitle\tclicks\timpressions\tsession_id\n")
        for row in rows:
            session = " ".join(row.session.split())
            file.write(f"{row.query}\t{row.title}\t{row.clicks}\t{row.impressions}\t{session}\n")


def _rows(path: Path) -> Iterator[TimedRow]:
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix not in FORMATS:
        raise UserError(f"{path} is of no known format; expected one of {', '.join(FORMATS)}.")
    try:
        if suffix == ".parquet":
            yield from _of_mappings(_parquet(path))
            return
        opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8", errors="surrogateescape", newline="") as file:
            if suffix == ".jsonl":
                yield from _of_mappings(_objects(file))
            elif suffix == ".csv":
                yield from _of_table(csv.reader(file), path)
            else:
                yield from _of_table((line.rstrip("\r\n").split("\t") for line in file), path)
    except (OSError, EOFError, csv.Error) as error:
        raise UserError(f"{path} cannot be read: {error}.") from error


def _of_table(lines: Iterator[list[str]], path: Path) -> Iterator[TimedRow]:
    columns = Columns.of(next(lines, []), str(path))
    read = columns.reader()
    at = columns.names.index("timestamp") if "timestamp" in columns.names else -1
    for fields in lines:
        try:
            yield TimedRow(read(fields), fields[at].strip() if at >= 0 else "")
        except BadRow:
            continue


def _of_mappings(rows: Iterable[dict[str, Any]]) -> Iterator[TimedRow]:
    for row in rows:
        time = row.get("timestamp")
        try:
            yield TimedRow(mapping_row(row), "" if time is None else str(time))
        except BadRow:
            continue


def _objects(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        for batch in parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise UserError(f"{path} cannot be read as Parquet: {error}.") from error
