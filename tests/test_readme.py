"""The code blocks of README.md run, in order, in one folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.clicks import click_log

BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.S | re.M)
LIBRARY_MESSAGE = re.compile(r"tensorflow/|\.cc:|Warning|WARNING|oneDNN|\x1b")
MAX_LINES = 150


@pytest.mark.long
@pytest.mark.parametrize(
    "left_out",
    [["dssm benchmark", "WITHOUT_CLICKS"], pytest.param([], marks=pytest.mark.slow)],
    ids=["all but two long blocks", "all blocks"],
)
def test_the_blocks_of_the_readme_run_in_order_in_one_folder(checkout, tmp_path, left_out):
    blocks = BLOCK.findall((checkout / "README.md").read_text("utf-8"))
    for name in left_out:
        (block,) = (block for block in blocks if name in block[1])
        blocks.remove(block)
    log = click_log(240)
    rows = "".join(
        f"{click.query}\t{click.title}\t{1706702400 + n}\n" for n, click in enumerate(log)
    )
    (tmp_path / "clicks.tsv").write_text(f"query\ttitle\ttimestamp\n{rows}", "utf-8")
    titles = "".join(f"{i}\t{t}\n" for i, t in enumerate(sorted({click.title for click in log})))
    (tmp_path / "corpus.tsv").write_text(f"doc_id\ttitle\n{titles}", "utf-8")
    program = tmp_path / "bin" / "dssm"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dssm_tf.cli "$@"\n', "utf-8")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TF_CPP")}
    env = environment | {"PATH": path, "PYTHONPATH": str(checkout)}
    outputs = {}
    blocks.remove(("bash", "make demo\n"))  # has a separate test
    for language, code in blocks:
        command = ["bash", "-e", "-c"] if language == "bash" else [sys.executable, "-c"]
        process = subprocess.run(
            [*command, code], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert process.returncode == 0, f"{code}\n{process.stdout}\n{process.stderr}"
        outputs[code] = process.stdout
        assert not LIBRARY_MESSAGE.findall(process.stdout + process.stderr)
        expected_output = [line[2:] for line in code.splitlines() if line.startswith("# ")]
        assert expected_output == (process.stdout.splitlines() if language == "python" else [])
    (search,) = (out for code, out in outputs.items() if "dssm search" in code)
    assert "red fox" in search
    assert left_out or (tmp_path / "BENCH" / "report.html").exists()


def test_the_readme_has_the_two_commands_that_set_everything_up(checkout):
    text = (checkout / "README.md").read_text("utf-8")
    targets = re.findall(r"^([\w-]+):", (checkout / "Makefile").read_text("utf-8"), re.M)
    for target in ("demo", "test"):
        assert f"make {target}" in text
        assert target in targets


def test_the_readme_is_short_and_every_file_it_names_exists(checkout):
    text = (checkout / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)}
    assert not [name for name in links if not (checkout / name).exists()]
