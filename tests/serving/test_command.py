"""`python -m serving.client`: what is printed, the exit codes, and what is not imported."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from serving.client import main

# Letters by letters, words by words, and 1: 9 * 9 + 2 * 2 + 1, and 9 * 7 + 2 * 2 + 1.
BEST_FIRST = "1\t86.0000\tshoes red\n2\t68.0000\tred hat\n"
ASK = ["--model", "tiny", "--query", "red shoes", "red hat", "shoes\tred"]


def test_titles_are_printed_best_first(capsys, grpc_address):
    assert main(["--host", grpc_address, *ASK]) == 0
    assert capsys.readouterr().out == BEST_FIRST


def test_titles_come_from_standard_input(capsys, grpc_address, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("hat\n\nred\n"))
    assert main(["--host", grpc_address, "--model", "tiny", "--query", "red"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split("\t")[2] for line in lines} == {"red", "hat"}


def test_the_status_is_printed(capsys, grpc_address):
    assert main(["--host", grpc_address, "--model", "tiny"]) == 0
    assert capsys.readouterr().out == "3\tAVAILABLE\n"


def test_a_title_no_terminal_can_show_is_still_ranked(capsys, grpc_address):
    arguments = ["--host", grpc_address, "--model", "tiny", "--query", "a", "\udcff"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.endswith("\t?\n")


def test_a_failure_is_one_line_and_exit_code_1(capsys, grpc_address):
    assert main(["--host", grpc_address, "--model", "big", "--query", "a", "b"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("serving.client: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--query", "a", "b"],  # of which model?
        ["--model", "a", "b"],
        ["--model", "a", "--query", "a", "b", "--timeout", "0"],
        ["--model", "a", "--query", "a", "b", "--host", "server"],
        ["--model", "a", "--colour"],
    ],
)
def test_wrong_usage_is_exit_code_2(capsys, arguments):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: python -m serving.client" in capsys.readouterr().err


def test_help_shows_every_option_and_an_example(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    for words in ("--host", "127.0.0.1:8500", "--query", "TITLE", "example:"):
        assert words in text


def run_python(checkout, code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=checkout, capture_output=True, text=True
    )


def test_asking_imports_no_tensorflow(checkout, grpc_address):
    code = (
        "import sys; from serving.client import main; code = main(sys.argv[1:]);"
        "heavy = {'tensorflow', 'keras', 'dssm_tf', 'tensorflow_serving'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    done = run_python(checkout, code, "--host", grpc_address, *ASK)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1\t86.0000\tshoes red\n")
