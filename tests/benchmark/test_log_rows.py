import gzip
import json

import pytest

from dssm_tf.benchmark.log_rows import (
    TimedRow,
    held_out,
    read_rows,
    split_by_time,
    write_rows,
)
from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import LogRow

ROWS = [("hat", "Red Hat", "2", "30"), ("tie", "Tie", "1", "4"), ("box", "Box", "1", "200")]
EXPECTED = [TimedRow(LogRow(q, t, int(c)), time) for q, t, c, time in ROWS]
HEADER = ("query", "title", "clicks", "timestamp")


def written(folder, name):
    path = folder / name
    if name.startswith("log.parquet"):
        import pyarrow
        from pyarrow import parquet

        columns = [list(column) for column in zip(*ROWS, strict=True)]
        columns[2] = [int(count) for count in columns[2]]
        parquet.write_table(pyarrow.table(dict(zip(HEADER, columns, strict=True))), path)
        return path
    if ".jsonl" in name:
        rows = [dict(zip(HEADER, row, strict=True)) for row in ROWS]
        text = "".join(json.dumps(row) + "\n" for row in rows) + "no json\n[]\n{}\n"
    else:
        separator = "," if ".csv" in name else "\t"
        text = "".join(separator.join(row) + "\n" for row in (HEADER, *ROWS)) + "too few\n"
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize(
    "name", ["log.tsv", "log.csv", "log.jsonl", "log.tsv.gz", "log.jsonl.gz", "log.parquet"]
)
def test_good_rows_of_every_format_come_with_their_time(tmp_path, name):
    assert read_rows([written(tmp_path, name)]) == EXPECTED


def test_the_latest_rows_are_split_off_by_number_or_by_date():
    earlier, later = split_by_time(EXPECTED, 1 / 3)
    # 4 < 30 < 200 as numbers; as text "200" would come before "30".
    assert [row.query for row in earlier] == ["tie", "hat"]
    assert [row.query for row in later] == ["box"]
    dates = [one._replace(time=f"2024-0{n}-01") for n, one in zip((3, 1, 2), EXPECTED, strict=True)]
    earlier, later = split_by_time(dates, 0.5)
    assert [row.query for row in [*earlier, *later]] == ["tie", "box", "hat"]


def test_a_log_without_times_or_too_small_a_share_is_refused():
    with pytest.raises(UserError, match="1 of 3 rows have no timestamp"):
        split_by_time([*EXPECTED[:2], EXPECTED[2]._replace(time="")], 0.5)
    with pytest.raises(UserError, match="3 are left to learn from and 0 to judge by"):
        split_by_time(EXPECTED, 0.01)


def test_held_out_queries_are_the_same_however_they_are_written():
    assert held_out("Red  HAT!", 0.5) == held_out("red hat", 0.5)
    held = sum(held_out(f"query {number}", 0.25) for number in range(2000))
    assert 400 < held < 600  # 500 are expected; the standard deviation is below 20
    assert all(held_out(f"query {number}", 1.0) for number in range(50))


def test_rows_written_are_a_log_again(tmp_path):
    rows = [LogRow("hat", "Red Hat", 2, 5, "a\tb"), LogRow("tie", "Tie")]
    write_rows(tmp_path / "log.tsv", rows)
    read = [one.row for one in read_rows([tmp_path / "log.tsv"])]
    assert read == [LogRow("hat", "Red Hat", 2, 5, "a b"), LogRow("tie", "Tie")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("log.tsv", "query\ttitle\n", "no usable rows below the header"),
        ("log.tsv", "", "needs 'query' and 'title'"),
        ("log.tsv", "query\tdoc\nhat\td1\n", r"missing: title"),
        ("log.txt", "hat\n", "no known format"),
    ],
)
def test_a_log_that_cannot_be_used_is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        read_rows([tmp_path / name])
