"""Flags as a person types them."""

from __future__ import annotations

import pytest

from dssm_tf.common.command_line import Parser


@pytest.fixture
def parser() -> Parser:
    parser = Parser(prog="sum")
    parser.add_argument("--min-clicks", type=int, required=True, metavar="N")
    parser.add_argument("--out_file")
    parser.add_argument("--mode", choices=("fast", "exact"))
    parser.add_argument("texts", nargs="*")
    return parser


def refused(parser: Parser, capsys, *words: str) -> list[str]:
    with pytest.raises(SystemExit) as stop:
        parser.parse_args(words)
    assert stop.value.code == 2
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    "words",
    [
        ["--min-clicks", "3", "--out-file", "a_b"],
        ["--min_clicks", "3", "--out_file", "a_b"],
        ["--min_clicks=3", "--out-file=a_b"],
    ],
)
def test_both_spellings_of_a_flag_are_one(parser, words):
    found = parser.parse_args(words)
    assert (found.min_clicks, found.out_file) == (3, "a_b")


def test_a_typo_gets_the_usage_in_one_line_and_what_was_meant(parser, capsys):
    assert refused(parser, capsys, "--min-clik", "3", "--bogus") == [
        "usage: sum --min-clicks N ...",
        "sum: there is no --min-clik. Did you mean '--min-clicks'? (`sum --help` shows all flags.)",
    ]


def test_a_flag_cut_short_is_no_flag_but_is_understood_in_the_message(parser, capsys):
    assert "Did you mean '--min-clicks'?" in refused(parser, capsys, "--min", "3")[1]


def test_a_wrong_choice_gets_the_right_one(parser, capsys):
    line = refused(parser, capsys, "--min-clicks", "3", "--mode", "exakt")[1]
    assert "'exakt' is none of fast, exact. Did you mean 'exact'?" in line


def test_what_is_no_flag_stays_as_it_was_typed(parser):
    words = ["--min-clicks", "3", "a_b", "--", "--min_clik"]
    assert parser.parse_args(words).texts == ["a_b", "--min_clik"]
