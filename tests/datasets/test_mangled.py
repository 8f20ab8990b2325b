"""Mangled files of every source and format: rows or one clear error, nothing else, and soon."""

from __future__ import annotations

import gzip
import io
import json
import signal
from contextlib import contextmanager, suppress
from random import Random

import pyarrow
import pytest
from pyarrow import parquet

from dssm_tf.commands.data import convert as convert_command
from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import read_logs
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.reader import read_texts
from dssm_tf.tables.splits import split_by_time
from dssm_tf.tables.trec import read_run
from tests.damage import mangled
from tests.datasets.tables import WRITERS

SECONDS = 20
COLUMNS = ("query_id", "query", "doc_id", "title", "grade", "clicks", "timestamp", "session_id")
ROWS = [
    (f"q{n}", f"hat {n}", f"d{n}", f'Red, "Hät" {n}', n % 3, n, f"2024-01-{n + 1:02}T10:00", "s")
    for n in range(25)
]


@contextmanager
def soon():
    """Fails what takes longer than `SECONDS`."""

    def late(*_):
        raise AssertionError(f"takes longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def table(format):
    if format == "parquet":
        file = io.BytesIO()
        columns = dict(zip(COLUMNS, map(list, zip(*ROWS, strict=True)), strict=True))
        parquet.write_table(pyarrow.table(columns), file)
        return file.getvalue()
    if format == "jsonl":
        rows = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in ROWS]
    else:
        between = "," if format == "csv" else "\t"
        quoted = [[f'"{str(cell).replace(chr(34), chr(34) * 2)}"' for cell in row] for row in ROWS]
        cells = quoted if format == "csv" else [[*map(str, row)] for row in ROWS]
        rows = [between.join(row) for row in [list(COLUMNS), *cells]]
    return "\n".join(rows).encode()


def split(path):
    split_by_time(read_logs([path], max_rejected=1.0)[0], 0.5)


READERS = [
    read_judgments,
    read_corpus,
    lambda path: list(read_texts(path)),
    split,
    lambda path: read_logs([path], Layout("utf-16"), 1.0),
    lambda path: read_logs([path], Layout("gb18030"), 1.0),
    read_run,
]


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("format", ["tsv", "csv", "jsonl", "parquet"])
def test_a_mangled_table_gives_rows_or_one_clear_error(tmp_path, format, packed):
    whole, random = table(format), Random(f"{format}{packed}")
    path = tmp_path / f"t.{format}{packed}"
    with soon():
        for _ in range(60):
            data = mangled(whole, random)
            if packed:
                data = gzip.compress(data)
                data = data if random.random() < 0.5 else mangled(data, random)
            path.write_bytes(data)
            for read in READERS:
                with suppress(UserError):
                    read(path)


@pytest.mark.parametrize("name", WRITERS)
def test_a_mangled_file_of_a_source_gives_tables_or_one_clear_error(tmp_path, name):
    random, source = Random(name), tmp_path / "source"
    source.mkdir()
    WRITERS[name](source)
    with soon():
        for number in range(60):
            broken = random.choice(sorted(source.iterdir()))
            whole = broken.read_bytes()
            broken.write_bytes(mangled(whole, random))
            with suppress(UserError):
                convert_command(name, source, tmp_path / f"out{number}")
            broken.write_bytes(whole)
