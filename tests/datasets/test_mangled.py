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
from dssm_tf.tables.splits import split_by_time
from dssm_tf.tables.texts import open_texts
from dssm_tf.tables.trec import read_qrels, read_run

SECONDS = 20
COLUMNS = ("query_id", "query", "doc_id", "title", "grade", "clicks", "timestamp", "session_id")
ROWS = [
    (f"q{n}", f"hat {n}", f"d{n}", f'Red, "Hät" {n}', n % 3, n, f"2024-01-{n + 1:02}T10:00", "s")
    for n in range(25)
]
BITS = [
    b"\x00",
    b'"',
    b"\n",
    b"\t",
    b"\xff",
    b"\xfe\xff",
    b"<",
    b">",
    b"[" * 3000,
    b"{",
    b"e999999",
    b"-",
    b"9" * 400,
    b"\xed\xa0\x80",
    b"\\ud800",
    b"1e308",
    b"NaN",
    b"</",
    b"<top ",
    b"'",
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


def mangled(data, random):
    """The bytes with a few changes: flipped, cut, doubled or strange ones."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 8])):
        at, other = sorted(random.randrange(len(data) + 1) for _ in range(2))
        match random.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1:
                del data[at:other]
            case 2:
                data[at:at] = data[at:other]
            case _:
                data[at:at] = random.choice(BITS) * random.choice([1, 1, 300])
    return bytes(data)


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


def read_texts(path):
    with open_texts(path) as texts:
        list(texts.rows)


def split(path):
    split_by_time(read_logs([path], max_rejected=1.0)[0], 0.5)


READERS = [
    read_judgments,
    read_corpus,
    read_texts,
    split,
    lambda path: read_logs([path], Layout("utf-16", thousands=","), 1.0),
    lambda path: read_logs([path], Layout("gb18030"), 1.0),
    read_run,
    read_qrels,
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


def objects(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


EVENTS = objects(
    *(
        {
            "action_name": "click",
            "query_id": f"q{n % 5}",
            "timestamp": 1_700_000_000_000 + n,
            "event_attributes": {
                "object": {"object_id": f"d{n}", "description": f"T {n}"},
                "position": {"ordinal": n},
            },
        }
        for n in range(20)
    )
)
PAIRS = "".join(f"q{n}\tred hat {n}\n" for n in range(9)).encode()
QRELS = "".join(f"q{n} 0 d{n} 1\n" for n in range(9)).encode()
TITLES = "".join(f"d{n}\tTitle {n}\n" for n in range(9)).encode()
SOURCES = {
    "ubi": {
        "ubi_queries.ndjson": objects(
            *({"query_id": f"q{n}", "user_query": f"hat {n}"} for n in range(5))
        ),
        "ubi_events.ndjson": EVENTS,
    },
    "trec": {
        "topics.txt": b"".join(
            b"<top>\n<num> Number: q%d\n<title> hat %d\n</top>\n" % (n, n) for n in range(9)
        ),
        "qrels": QRELS,
        "docs.xml": b"".join(
            b"<DOC>\n<DOCNO>d%d</DOCNO>\n<TITLE>Title %d</TITLE></DOC>\n" % (n, n) for n in range(9)
        ),
    },
    "msmarco": {
        "collection.tsv": TITLES,
        "queries.train.tsv": PAIRS,
        "qrels.train.tsv": QRELS,
        "queries.dev.tsv": PAIRS,
        "qrels.dev.tsv": QRELS,
    },
    "wands": {
        "product.csv": b"product_id\tproduct_name\n1\tHat\n2\tTie\n",
        "query.csv": b"query_id\tquery\n1\that\n2\ttie\n",
        "label.csv": b"query_id\tproduct_id\tlabel\n1\t1\tExact\n2\t2\tPartial\n",
    },
    "homedepot": {
        "train.csv": b"product_uid,product_title,search_term,relevance\n1,Hat,hat,3\n2,Tie,tie,2\n"
    },
    "bestbuy": {
        "train.csv": b"sku,query,click_time\n1,hat,2011-09-01\n2,tie,2011-09-02\n",
        "small_product_data.xml": b"<products><product><sku>1</sku><name>Hat</name></product>"
        b"<product><sku>2</sku><name>Tie</name></product></products>",
    },
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_mangled_file_of_a_source_gives_tables_or_one_clear_error(tmp_path, name):
    random = Random(name)
    with soon():
        for number in range(60):
            source = tmp_path / f"source{number}"
            source.mkdir()
            broken = random.choice([*SOURCES[name]])
            for file, data in SOURCES[name].items():
                (source / file).write_bytes(mangled(data, random) if file == broken else data)
            with suppress(UserError):
                convert_command(name, source, tmp_path / f"out{number}")


@pytest.mark.parametrize(
    "data",
    [
        b"<top>" + b"<num>" + b" " * 300_000 + b"<\n</top>\n",
        b"<top " * 200_000,
        b"<top>\n" + b"<title>" * 150_000 + b"\n</top>\n",
        b"<top>\n" + b"<" * 500_000 + b"\n</top>\n",
        b"<top>\n<num> 1\n<title> hat\n" * 20_000,
    ],
)
def test_unclosed_tags_of_topics_and_documents_take_no_minutes(tmp_path, data):
    for file, bytes_ in (SOURCES["trec"] | {"topics.txt": data}).items():
        (tmp_path / file).write_bytes(bytes_)
    with soon(), suppress(UserError):
        convert_command("trec", tmp_path, tmp_path / "out")
    (tmp_path / "topics.txt").write_bytes(SOURCES["trec"]["topics.txt"])
    (tmp_path / "docs.xml").write_bytes(data.replace(b"top", b"doc").replace(b"<num>", b"<docno>"))
    with soon(), suppress(UserError):
        convert_command("trec", tmp_path, tmp_path / "out2")
