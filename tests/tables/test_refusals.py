"""The error for a file that cannot be read is one line that names the file."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config.load import find_config, load_config
from dssm_tf.datasets.engine_run import QueryTemplate
from dssm_tf.positions.curve import read_curve
from dssm_tf.runtime.search_rules import read_rules
from dssm_tf.tables.click_log import read_logs
from dssm_tf.tables.graded_lists import SCORE_LIMITS, read_lists
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.read import scan, scan_texts
from dssm_tf.tables.trec import QRELS, QRELS_NAMES, read_run
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.training.vector_file import check_vector_file
from pipelines.sources import find_files

JUDGED = "query_id\tquery\tdoc_id\ttitle\tgrade\n"
GRADED = "query\ttitle\tgrade\nfox\tRed fox\t4\nfox\tOwl\t"
SCORED = "query\ttitle\tscore\n"
OWL = SCORED + "fox\tRed fox\t4\nfox\tOwl\t"


def log(path):
    return read_logs([path])


def texts(path):
    return [*scan_texts(path)]


def grades(path):
    return read_lists(path, "grade", (0, 4), FOLDED)


def scores(path):
    return read_lists(path, "score", SCORE_LIMITS, FOLDED)


def qrels(path):
    return [*scan(path, QRELS, Layout(names=QRELS_NAMES), "trec")]


@pytest.mark.parametrize(
    ("read_file", "head"),
    [
        (read_judgments, JUDGED + "q1\tq\td1\tt\t"),
        (grades, GRADED),
        (scores, OWL),
        (read_curve, "position\tpropensity\n1\t"),
        (read_run, "q1 Q0 a 1 {} tag\n"),
        (qrels, "q1 0 a {}\n"),
    ],
)
def test_a_grade_with_an_underscore_is_refused(write, read_file, head):
    content = head if "{}" in head else head + "{}\n"
    for cell in ("1_0", "0.1_0", "1_0e0"):
        with pytest.raises(UserError, match=rf"'{cell}' is not a number"):
            read_file(write("t.tsv", content.format(cell)))


@pytest.mark.parametrize(
    ("read", "name", "content", "message"),
    [
        (log, "t.tsv", "query\ttitle\n", "holds no usable rows below the header"),
        (log, "t.tsv", "query\tdoc\nhat\td1\n", "'query', 'doc'; .*missing: title"),
        (read_judgments, "t.tsv", "query\ttitle\nq\tt\n", "missing: query_id, doc_id, grade"),
        (read_judgments, "t.tsv", JUDGED, "no judgment"),
        (read_judgments, "t.tsv", JUDGED + "q1\tq\td1\tt\t-1\n", ":2: .*'-1'.* from 0"),
        (read_judgments, "t.tsv", JUDGED + "q1\tq\td1\tt\tnan\n", ":2: .*'nan'"),
        (
            read_judgments,
            "t.tsv",
            JUDGED + "q1\tq\td1\tt\t1\nq1\tother\td2\tt\t2\n",
            ":3: .*'other'.* own id",
        ),
        (read_judgments, "t.tsv", JUDGED + "q1\tq\t \tt\t1\n", ":2: .*doc_id is empty"),
        (read_judgments, "t.tsv", JUDGED + "\tq\td1\tt\t1\n", ":2: .*query_id is empty"),
        (read_corpus, "t.tsv", "doc_id\ttitle\nd1\ta\nd1\tb\n", ":3: .*'d1'.* own id"),
        (read_corpus, "t.tsv", "doc_id\ttitle\n", "no title"),
        (read_corpus, "t.tsv", "id\ttitle\nd1\ta\n", "missing: doc_id"),
        (grades, "t.tsv", GRADED + "5", ":3: grade '5'; expected a number from 0 to 4"),
        (grades, "t.tsv", GRADED + "-1", ":3: grade '-1'; expected a number from 0 to 4"),
        (grades, "t.tsv", GRADED + "good", ":3: grade 'good' is not a number"),
        (scores, "t.tsv", OWL + "nan", ":3: score 'nan' is not a number"),
        (scores, "t.tsv", OWL + "inf", ":3: score 'inf'; expected"),
        (scores, "t.tsv", OWL + "-inf", ":3: score '-inf'; expected"),
        (scores, "t.tsv", OWL + "1e9", ":3: score '1e9'; expected"),
        (scores, "t.tsv", SCORED, "has a header and no score"),
        (scores, "t.tsv", GRADED + "1", "missing: score"),
        (scores, "t.tsv", SCORED + "\tRed fox\t1\n", ":2: the query is empty"),
        (texts, "t.tsv", "name\tyear\na\t1\n", "'name', 'year'; expected 'title'"),
        (texts, "t.txt", b"fine\nca\xe9\n", ":2: the text is not UTF-8; give"),
        (
            texts,
            "t.jsonl",
            '{"title": "a"}\n{"title": 3}\n',
            ":2: 'title' is 3; expected text",
        ),
        (
            texts,
            "t.jsonl",
            '{"title": "a", "doc_id": 1}\n{"title": "b"}\n',
            ":2: 'doc_id' is None",
        ),
        (texts, "t.tsv", "", "t.tsv is empty; expected the columns 'title'"),
        (
            texts,
            "t.xlsx",
            "",
            "expected a name ending in .txt, .tsv, .csv, .jsonl, .parquet, .ndjson",
        ),
        (read_run, "t.trec", "q1 Q0 a 1 0.5\n", ":1: .*5 columns"),
        (read_run, "t.trec", "q1 Q0 a 1 nan tag\n", ":1: .*score 'nan'"),
        (read_run, "t.trec", "q1 Q0 b 1 2 t\nq1 Q0 a 1 1e39 t\n", ":2: score '1e39'; expected"),
        (read_run, "t.trec", "q1 Q0 a 1 -inf t\n", ":1: score '-inf'; expected a number"),
        (read_run, "t.trec", "q1 Q0 a 1 2 t\nq1 Q0 a 2 1 t\n", ":2: .*'a' is repeated"),
    ],
)
def test_the_error_for_an_unreadable_file_names_it_in_a_single_line(
    write, read, name, content, message
):
    path = write(name, content)
    with pytest.raises(UserError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def rules(path):
    return read_rules(path, Vocabulary([], FOLDED))


def inputs(path):
    return find_files([str(path)])


def configuration(path):
    return find_config(str(path))


def template(path):
    return QueryTemplate(path, size=10)


READ_TWICE = [log, texts, grades, read_corpus, read_judgments, read_run, rules, inputs,
              check_vector_file, load_config, configuration]  # fmt: skip
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev")


@on_linux
@pytest.mark.parametrize("read", READ_TWICE)
def test_a_pipe_is_refused_before_it_is_opened(tmp_path, read):
    path = tmp_path / "input.tsv"
    os.mkfifo(path)  # without a writer, `open` waits forever
    with pytest.raises(
        UserError, match=r"input\.tsv is a pipe; expected a file, .* to a file first"
    ):
        read(path)


@on_linux
@pytest.mark.parametrize("read", [*READ_TWICE, template])
def test_a_device_is_refused_before_it_is_opened(tmp_path, read):
    path = tmp_path / "input.tsv"
    path.symlink_to("/dev/zero")  # never ends
    with pytest.raises(UserError, match=r"input\.tsv is a device; expected a file\. "):
        read(path)


@on_linux
def test_a_socket_is_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(UserError, match=r"s is a socket; expected a file\. "):
            load_config(tmp_path / "s")


@pytest.mark.parametrize("read", [log, texts, read_corpus, read_run, rules, inputs, template])
def test_a_link_to_a_missing_file_is_refused(tmp_path, read):
    (tmp_path / "input.tsv").symlink_to("missing")
    message = r"input\.tsv (cannot be read: No such file|is a link to missing, which does not)"
    with pytest.raises(UserError, match=message):
        read(tmp_path / "input.tsv")


@on_linux
def test_the_template_of_a_search_is_read_from_a_pipe():
    reader, writer = os.pipe()
    try:
        os.write(writer, b'{"query": "{{query}}"}')
        os.close(writer)
        template(Path(f"/dev/fd/{reader}"))
    finally:
        os.close(reader)
