"""Mangled files of every source and format: rows or one clear error, nothing else, and soon."""

import gzip
import signal
from contextlib import contextmanager, suppress
from functools import partial
from random import Random

import polars
import pytest

from dssm_tf.commands.data import convert as convert_command
from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import read_logs
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.read import scan_texts
from dssm_tf.tables.splits import split_by_time
from dssm_tf.tables.trec import read_run
from tests.damage import corrupted
from tests.datasets.tables import SOURCES, write_source

SECONDS = 20
COLUMNS = ("query_id", "query", "doc_id", "title", "grade", "clicks", "timestamp", "session_id")
ROWS = [
    (f"q{n}", f"hat {n}", f"d{n}", f'Red, "Hät" {n}', n % 3, n, f"2024-01-{n + 1:02}T10:00", "s")
    for n in range(25)
]
FRAME = polars.DataFrame(ROWS, COLUMNS, orient="row")
FORMATS = {
    "tsv": partial(FRAME.write_csv, separator="\t", quote_style="never"),
    "csv": partial(FRAME.write_csv, quote_style="always"),
    "jsonl": FRAME.write_ndjson,
    "parquet": FRAME.write_parquet,
}


@contextmanager
def soon():
    """Fails what works longer than `SECONDS`, on a busy machine too: of the process's own time."""

    def late(*_):
        raise AssertionError(f"takes longer than {SECONDS} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def split(path):
    split_by_time(read_logs([path], max_rejected=1.0)[0], 0.5)


READERS = [
    read_judgments,
    read_corpus,
    lambda path: list(scan_texts(path)),
    split,
    lambda path: read_logs([path], Layout("utf-16"), 1.0),
    lambda path: read_logs([path], Layout("gb18030"), 1.0),
    read_run,
]


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_mangled_table_gives_rows_or_one_clear_error(tmp_path, format, packed):
    path, random = tmp_path / f"t.{format}{packed}", Random(f"{format}{packed}")
    FORMATS[format](tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    with soon():
        for _ in range(60):
            data = corrupted(whole, random)
            if packed:
                data = gzip.compress(data)
                data = data if random.random() < 0.5 else corrupted(data, random)
            path.write_bytes(data)
            for read in READERS:
                with suppress(UserError):
                    read(path)


@pytest.mark.parametrize("name", SOURCES)
def test_a_mangled_file_of_a_source_gives_tables_or_one_clear_error(tmp_path, name):
    random, source = Random(name), tmp_path / "source"
    source.mkdir()
    write_source(source, name)
    with soon():
        for number in range(60):
            broken = random.choice(sorted(source.iterdir()))
            whole = broken.read_bytes()
            broken.write_bytes(corrupted(whole, random))
            with suppress(UserError):
                convert_command(name, source, tmp_path / f"out{number}")
            broken.write_bytes(whole)
