"""Damaged files of every source and format give rows or a UserError, within limited time."""

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
from tests.damage import damage
from tests.datasets.tables import SOURCES, write_source

MAX_SECONDS = 20
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
def limited_time():
    """Fails if the block takes more than `MAX_SECONDS` of processor time."""

    def fail(*_):
        raise AssertionError(f"takes longer than {MAX_SECONDS} s")

    previous_handler = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous_handler)


def split_log(path):
    split_by_time(read_logs([path], max_rejected=1.0)[0], 0.5)


READERS = [
    read_judgments,
    read_corpus,
    lambda path: list(scan_texts(path)),
    split_log,
    lambda path: read_logs([path], Layout("utf-16"), 1.0),
    lambda path: read_logs([path], Layout("gb18030"), 1.0),
    read_run,
]


@pytest.mark.long
@pytest.mark.parametrize("compression", ["", ".gz"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_damaged_table_gives_rows_or_a_user_error(tmp_path, format, compression):
    path, random = tmp_path / f"t.{format}{compression}", Random(f"{format}{compression}")
    FORMATS[format](tmp_path / "intact")
    intact = (tmp_path / "intact").read_bytes()
    with limited_time():
        for _ in range(60):
            data = damage(intact, random)
            if compression:
                data = gzip.compress(data)
                data = data if random.random() < 0.5 else damage(data, random)
            path.write_bytes(data)
            for read in READERS:
                with suppress(UserError):
                    read(path)


@pytest.mark.long
@pytest.mark.parametrize("name", SOURCES)
def test_a_damaged_file_of_a_source_gives_tables_or_a_user_error(tmp_path, name):
    random, source = Random(name), tmp_path / "source"
    source.mkdir()
    write_source(source, name)
    with limited_time():
        for number in range(60):
            damaged = random.choice(sorted(source.iterdir()))
            intact = damaged.read_bytes()
            damaged.write_bytes(damage(intact, random))
            with suppress(UserError):
                convert_command(name, source, tmp_path / f"out{number}")
            damaged.write_bytes(intact)
