"""A finished command given again says so; other words or other inputs are refused as before."""

from __future__ import annotations

import json
import os

import pytest

from dssm_tf.cli import main
from dssm_tf.common.again import REQUEST, done_before, remember, request

LOG = "query\ttitle\ttimestamp\n" + "".join(
    f"query {i}\ttitle {i % 7} of some\t{1_700_000_000 + 60 * i}\n" for i in range(40)
)
DONE = "written before by the same command, nothing left to do"


@pytest.fixture
def split(tmp_path, capsys):
    (tmp_path / "clicks.tsv").write_text(LOG)

    def run(*flags):
        given = ["--clicks", str(tmp_path / "clicks.tsv"), "--out", str(tmp_path / "out"), *flags]
        return main(["data", "split", *given]), "".join(capsys.readouterr())

    return run


def test_a_finished_command_given_again_says_so_and_exits_with_0(split, tmp_path):
    assert split("--judge-later", "0.2")[0] == 0
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    code, said = split("--judge-later", "0.2")
    assert code == 0
    assert said == f"{tmp_path / 'out'}: {DONE}\n"
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert after == before


def test_other_words_or_another_input_are_no_repetition(split, tmp_path):
    assert split("--judge-later", "0.2")[0] == 0
    code, said = split("--judge-later", "0.3")
    assert code == 1
    assert said.count("\n") == 1
    (tmp_path / "clicks.tsv").write_text(LOG + "one more\trow of\t1800000000\n")
    assert split("--judge-later", "0.2")[0] == 1


def test_preprocess_given_again_says_so(tmp_path, capsys):
    (tmp_path / "clicks.tsv").write_text(LOG)
    words = ["preprocess", "--input", str(tmp_path / "clicks.tsv"), "--output",
             str(tmp_path / "data")]  # fmt: skip
    assert main(words) == 0
    capsys.readouterr()
    assert main(words) == 0
    assert DONE in "".join(capsys.readouterr()).replace("\n", " ")
    assert main([*words, "--negatives", "2"]) == 1
    assert main([*words, "--negatives", "2", "--overwrite"]) == 0


def test_a_request_knows_files_in_directories_and_after_a_name(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "weights").write_text("1")
    given = {"model": [f"mine={tmp_path / 'run'}"], "seed": 3, "long": "x" * 10_000, "null": "\0"}
    asked = request("evaluate", given)
    assert request("evaluate", given) == json.loads(json.dumps(asked)) == asked
    assert request("report", given) != asked
    os.utime(tmp_path / "run" / "weights", ns=(1, 1))
    assert request("evaluate", given) != asked


def test_a_damaged_note_of_what_was_asked_is_none(tmp_path):
    asked = request("report", {"words": ""})
    remember(tmp_path, asked)
    assert done_before(tmp_path, asked)
    (tmp_path / REQUEST).write_text("{")
    assert not done_before(tmp_path, asked)
