"""A log is refused for the clicks that are lost as well as for the rows."""

from __future__ import annotations

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import read_logs
from dssm_tf.tables.layout import Layout, parse_columns
from dssm_tf.tables.tally import Tally

HEAD = "query\ttitle\tclicks\n"
GOOD = "".join(f"q{n}\tt{n}\t10\n" for n in range(95))


@pytest.mark.parametrize(
    ("sign", "cell"), [(",", "67,998"), (".", "67.998"), ("'", "67’998"), (" ", "67\u202f998")]
)
def test_the_largest_clicks_are_not_lost_to_the_signs_between_thousands(write, sign, cell):
    path = write("log.tsv", HEAD + GOOD + f"best\tseller\t{cell}\n")
    with pytest.raises(UserError) as caught:
        read_logs([path])
    message = str(caught.value)
    # 1 of 96 rows is 1.04 %; 67,998 of 67,998 + 950 clicks are 98.6 %.
    assert "1 of 96 rows are malformed (1.0% of the rows and 98.6% of the clicks;" in message
    assert f"Give --thousands {sign!r}" in message
    assert f"log.tsv:97: best seller {cell}" in message
    rows, tally = read_logs([path], Layout(thousands=sign))
    assert (rows[-1].clicks, tally.lines()) == (67998, [])


def test_what_was_rejected_is_said_when_it_is_allowed(write):
    path = write("log.tsv", HEAD + GOOD + "a\t\t1\nb\tc\t1,234\nd\te\n")
    _, tally = read_logs([path], max_rejected=0.9)
    reasons, largest, flag = tally.lines()
    assert reasons.startswith(
        "rejected: 1 clicks with ',' between thousands, 1 empty title, 1 wrong column count (3.1%"
    )
    assert largest.startswith(f"the largest: {path}:98: b c 1,234; {path}:97: a  1;")
    assert flag == "to read them, give --thousands ','"
    assert Tally.of(tally.described()) == tally


def test_a_row_whose_other_cells_are_bad_loses_the_clicks_that_it_counts(write):
    path = write("log.tsv", HEAD + GOOD + "\tseller\t5000\n")
    with pytest.raises(UserError, match=r"84\.0% of the clicks"):  # 5000 / 5950
        read_logs([path])


def test_a_log_of_mostly_malformed_rows_is_refused(write):
    path = write("log.tsv", "query\ttitle\n" + "a\tb\n" + "c\n" * 9)
    with pytest.raises(UserError, match=r"9 of 10 rows are malformed \(90.0% of the rows; allowed"):
        read_logs([path])


def test_an_unknown_sign_or_encoding_is_refused():
    with pytest.raises(UserError, match="--thousands is ';'; expected one of"):
        Layout(thousands=";")
    for name in ("utf-9", "hex", "", "\0"):
        with pytest.raises(UserError, match="no encoding of text"):
            Layout(name)


@pytest.mark.parametrize(
    "pairs", ["query", "query=", "qury=a", "query=a,query=b", "query=a,title=a"]
)
def test_columns_that_cannot_be_meant_are_refused(pairs):
    with pytest.raises(
        UserError, match=r"--columns is .*; expected pairs such as query=search_term"
    ):
        parse_columns(pairs)
