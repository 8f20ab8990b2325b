"""A log is refused if its malformed rows have too many clicks."""

from __future__ import annotations

import json

import polars as pl
import pytest

NO_VALIDATION = ("--validation-fraction", "0")
GOOD = [(f"query {n}", f"Title {n}", "5") for n in range(95)]
BAD = {
    "clicks, 8,270": ("query", "Title", "8,270"),
    "clicks 8.270": ("query", "Title", "8.270"),
    "clicks 8 270": ("query", "Title", "8\N{NO-BREAK SPACE}270"),
    "clicks 8'270": ("query", "Title", "8'270"),
    "clicks 8.27k": ("query", "Title", "8.27k"),
    "clicks 8269.5": ("query", "Title", "8269.5"),  # rounded up
    "no title": ("query", "", "8270"),
    "clicks in quotes": ("query", "Title", "'8270'"),
}


def tsv(rows):
    return "query\ttitle\tclicks\n" + "".join("\t".join(row) + "\n" for row in rows)


FORMATS = ["tsv", "csv", "jsonl", "parquet"]


# Each kind of row in one format; each format has two kinds.
@pytest.mark.long
@pytest.mark.parametrize(("bad", "format"), [*zip(BAD, FORMATS * 2, strict=True)])
def test_the_clicks_of_a_malformed_row_count_as_lost(error_of_run, write, tmp_path, format, bad):
    names, rows = ("query", "title", "clicks"), [*[BAD[bad]] * 5, *GOOD]
    frame = pl.DataFrame(rows, names, orient="row")
    path = tmp_path / f"log.{format}"
    if format == "parquet":
        frame.write_parquet(path)
    elif format == "jsonl":
        objects = (dict(zip(names, row, strict=True)) for row in rows)
        write(path.name, "".join(f"{json.dumps(value)}\n" for value in objects))
    else:
        quotes = "never" if format == "tsv" else "necessary"
        frame.write_csv(path, separator={"tsv": "\t", "csv": ","}[format], quote_style=quotes)
    # 5 * 8,270 of 5 * 8,270 + 95 * 5 clicks.
    message = error_of_run("--input", str(path), *NO_VALIDATION)
    assert (
        "5 of 100 rows are malformed, with 41,350 of 41,825 clicks; the limit is 10.0%" in message
    )
    assert "98.9% of the clicks" in message


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"caf\xe9\tTitle\t8270", "bad UTF-8"),
        (b"query\tTitle\t8270\t", "wrong column count"),
        (b"query\tTi\ttle\t8270", "wrong column count"),
        (b"query Title\t8270", "wrong column count"),
        (b"query\tTitle\t8270\t1\t2", "wrong column count"),
    ],
)
def test_the_clicks_of_a_line_with_bad_utf_8_or_a_wrong_number_of_cells_count_as_lost(
    error_of_run, write, line, reason
):
    path = write("log.tsv", tsv(GOOD).encode() + (line + b"\n") * 5)
    message = error_of_run("--input", str(path), *NO_VALIDATION)
    assert f"with 41,350 of 41,825 clicks; the limit is 10.0%. rejected: 5 {reason}" in message


def test_unquoted_thousands_separators_in_csv_count_as_lost_clicks(error_of_run, write):
    rows = [*map(",".join, GOOD), *["query,Title,8,270"] * 5]
    path = write("log.csv", "\n".join(["query,title,clicks", *rows]))
    assert "with 41,350 of 41,825 clicks" in error_of_run("--input", str(path), *NO_VALIDATION)


@pytest.mark.parametrize("end", ['"clicks": 8270', '"clicks": 8270, "x": }', '"Clicks":"8270"'])
def test_the_clicks_of_broken_json_count_as_lost(error_of_run, write, end):
    lines = [json.dumps({"query": q, "title": t, "clicks": int(n)}) for q, t, n in GOOD]
    broken = f'{{"query": "query", "title": "Title", {end}'
    path = write("log.jsonl", "\n".join([*lines, *[broken] * 5]))
    assert "with 41,350 of 41,825 clicks" in error_of_run("--input", str(path), *NO_VALIDATION)


def test_the_clicks_of_lines_after_an_open_quote_count_as_lost(error_of_run, write):
    rows = [",".join(row) for row in GOOD]
    # They replace the last five good rows: 5 * 8,270 of 5 * 8,270 + 90 * 5 clicks.
    rows[90:] = ['"query,Title,8270', *["query,Title,8270"] * 4]
    path = write("log.csv", "\n".join(["query,title,clicks", *rows]))
    assert "with 41,350 of 41,800 clicks" in error_of_run("--input", str(path), *NO_VALIDATION)


def test_a_row_with_unreadable_clicks_counts_as_the_largest_row(run, error_of_run, write):
    log = tsv([*GOOD, ("head", "Head", "300")]) + "a\tb\n" * 3
    data = run(*NO_VALIDATION, "--max_reject_fraction", "0.6", log=log)
    _, _, _, clicks, *_ = data.rejects[0]
    assert clicks == "unknown"
    # 3 * 300 of 95 * 5 + 300 + 3 * 300 clicks are 53.7 %.
    message = error_of_run(*NO_VALIDATION, log=log)
    assert "3 of 99 rows are malformed, with 900 of 1,675 clicks" in message
    assert "3 of them have no readable number of clicks and count as 300 each" in message
    # All readable rows have 5 clicks.
    data = run(*NO_VALIDATION, log=tsv(GOOD) + "a\tb\n" * 3)
    assert data.report["rows"]["rejected_clicks"] == 15


@pytest.mark.long
def test_every_rejected_row_keeps_its_line_and_reason_in_every_format(run, write, tmp_path):
    lines = [b"q%d\tt%d\t1" % (n, n) for n in range(90)]
    lines[10], lines[20] = b"\xff\tt\t1", b"too few"
    lines[30], lines[40] = b"q\t \t1", b"q\tt\t1,000"
    lines[50], lines[60] = b"", b"q\tt\t1\t2"
    expected = {
        "12": "bad UTF-8", "22": "wrong column count", "32": "empty title",
        "42": "clicks with a thousands separator", "62": "wrong column count",
    }  # fmt: skip
    flags = (*NO_VALIDATION, "--max_reject_fraction", "1")
    head = b"query\ttitle\tclicks"
    for end in (b"\n", b"\r\n", b"\r"):
        path = write("log.tsv", end.join([head, *lines]) + end)
        data = run("--input", str(path), *flags)
        assert {line: reason for _, line, reason, *_ in data.rejects} == expected, end
    # A cell with a comma would be two cells of CSV, so its comma becomes a semicolon.
    unquoted = [line.replace(b",", b";").replace(b"\t", b",") for line in [head, *lines]]
    quoted = [b'"' + line.replace(b",", b'","') + b'"' if line else line for line in unquoted]
    for rows in (unquoted, quoted):
        path = write("log.csv", b"\n".join(rows) + b"\n")
        data = run("--input", str(path), *flags)
        reasons = {line: reason for _, line, reason, *_ in data.rejects}
        assert reasons == expected | {"42": "clicks is not a number"}
