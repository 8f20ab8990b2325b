"""A log is refused if too many of its clicks or rows are malformed."""

from __future__ import annotations

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import read_logs
from dssm_tf.tables.layout import Layout, parse_columns

HEAD = "query\ttitle\tclicks\n"
GOOD = "".join(f"q{n}\tt{n}\t10\n" for n in range(95))


def test_rejected_rows_within_the_limit_are_reported(write):
    path = write("log.tsv", HEAD + GOOD + "a\t\t9\nb\tc\t1,234\nd\te\n")
    _, tally = read_logs([path], max_rejected=0.9)
    reasons, largest, unknown = tally.lines()
    # 3 of 98 rows; the last counts as the largest: 9 + 2 * 1234 of 950 + 9 + 2 * 1234 clicks.
    assert reasons == (
        "rejected: 1 empty title, 1 clicks with a thousands separator, 1 wrong column count "
        "(3.1% of the rows, 72.3% of the clicks)"
    )
    assert largest.startswith(f"the largest: {path}:99: d e; {path}:98: b c 1,234; {path}:97: a  9")
    assert unknown.startswith("1 of them have no readable number of clicks and count as 1,234")


def test_a_row_whose_other_cells_are_bad_loses_the_clicks_that_it_counts(write):
    path = write("log.tsv", HEAD + GOOD + "\tseller\t5000\n")
    with pytest.raises(UserError, match=r"84\.0% of the clicks"):  # 5000 / 5950
        read_logs([path])


def test_a_log_of_mostly_malformed_rows_is_refused(write):
    path = write("log.tsv", b"query\ttitle\n" + b"a\tb\n" + b"\xff\n" * 9)
    with pytest.raises(
        UserError, match=r"9 of 10 rows are malformed, .*; the limit is 10.0%"
    ) as caught:
        read_logs([path])
    assert "Fix the file, give its --encoding, such as cp1252" in str(caught.value)


def test_an_unknown_encoding_is_refused():
    for name in ("utf-9", "hex", "", "\0"):
        with pytest.raises(UserError, match="not a text encoding"):
            Layout(name)


@pytest.mark.parametrize("pairs", ["query", "query=", "qury=a", "query=a,title=a"])
def test_malformed_column_names_are_refused(pairs):
    with pytest.raises(
        UserError, match=r"--columns is .*; expected pairs such as query=search_term"
    ):
        parse_columns(pairs)
