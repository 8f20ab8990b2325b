"""`python -m serving.client`: what is printed, the exit codes, and what is not imported."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from serving.client import main

ASK = ["--model", "tiny", "--query", "red shoes", "--title", "red hat", "--title", "shoes\tred"]


def test_titles_are_printed_best_first(capsys, grpc_address):
    assert main(["--host", grpc_address, *ASK]) == 0
    assert capsys.readouterr().out == "1\t1.0000\tshoes red\n2\t0.5000\tred hat\n"


def test_rest_prints_the_same(capsys, rest_address):
    assert main(["--rest", "--host", rest_address, *ASK]) == 0
    assert capsys.readouterr().out == "1\t1.0000\tshoes red\n2\t0.5000\tred hat\n"


def test_titles_come_from_a_file_or_standard_input(capsys, grpc_address, tmp_path, monkeypatch):
    ask = ["--host", grpc_address, "--model", "tiny", "--query", "red"]
    (tmp_path / "titles").write_text("hat\n\nred\n", "utf-8")
    assert main([*ask, "--titles_file", str(tmp_path / "titles")]) == 0
    from_file = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO("hat\n\nred\n"))
    assert main([*ask, "--titles_file", "-"]) == 0
    assert capsys.readouterr().out == from_file == "1\t1.0000\tred\n2\t0.0000\that\n"


def test_the_status_is_printed(capsys, grpc_address):
    assert main(["--host", grpc_address, "--model", "tiny", "--status"]) == 0
    assert capsys.readouterr().out == "3\tAVAILABLE\n"


def test_a_title_no_terminal_can_show_is_still_ranked(capsys, grpc_address):
    arguments = ["--host", grpc_address, "--model", "tiny", "--query", "a", "--title", "\udcff"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "1\t0.0000\t?\n"


@pytest.mark.parametrize(
    "arguments",
    [["--model", "big", "--query", "a", "--title", "b"], ["--query", "a", "--titles_file", "gone"]],
    ids=["wrong model", "no such file"],
)
def test_a_failure_is_one_line_and_exit_code_1(capsys, grpc_address, arguments):
    assert main(["--host", grpc_address, *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("serving.client: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--query", "a"],
        ["--query", "a", "--title", "b", "--status"],
        ["--query", "a", "--title", "b", "--timeout", "0"],
        ["--query", "a", "--title", "b", "--host", "http://server:8500"],
        ["--colour"],
    ],
)
def test_wrong_usage_is_exit_code_2(capsys, arguments):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: python -m serving.client" in capsys.readouterr().err


def test_a_typo_gets_the_usage_in_one_line_and_the_flag_that_was_meant(capsys):
    with pytest.raises(SystemExit):
        main(["--titels_file", "x", "--query", "a"])
    usage, line = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: python -m serving.client (--query Q ")
    assert line.endswith("there is no --titels_file. Did you mean '--titles-file'?")


def test_help_shows_every_option_and_an_example(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    for words in ("--host", "127.0.0.1:8500", "--rest", "--query", "--titles-file", "example:"):
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
    assert done.stdout.startswith("1\t1.0000\tshoes red\n")


def test_rest_works_where_grpc_and_protobuf_are_missing(checkout, rest_address):
    code = (
        "import sys; sys.modules['grpc'] = sys.modules['google.protobuf'] = None;"
        "from serving.client import main; sys.exit(main(sys.argv[1:]))"
    )
    done = run_python(checkout, code, "--rest", "--host", rest_address, *ASK)
    assert (done.returncode, done.stderr) == (0, "")
    done = run_python(checkout, code, "--host", rest_address, *ASK)
    assert done.returncode == 1
    assert "pip install grpcio protobuf" in done.stderr
    assert done.stderr.count("\n") == 1
