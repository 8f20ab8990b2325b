"""The Python of docs/api.md runs as it stands there; README.md has its own test."""

from __future__ import annotations

import re
import shutil

import dssm_tf
from tests.clicks import click_log, write_data

PAGE = "docs/api.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
JUDGMENTS = """\
query_id	query	doc_id	title	grade
1	red foxs	1	red fox	1
2	owl	2	the green owl story	2
"""
CORPUS = "doc_id\ttitle\n1\tred fox\n2\tthe green owl story\n3\tblack bear\n"


def test_every_block_runs(checkout, tmp_path, monkeypatch, capsys):
    write_data(tmp_path / "DATA", click_log())
    (tmp_path / "judgments.tsv").write_text(JUDGMENTS, "utf-8")
    (tmp_path / "corpus.tsv").write_text(CORPUS, "utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((checkout / PAGE).read_text("utf-8"))
    training, measuring = (code for code in blocks if "import dssm_tf" in code)
    exec(training, {"__name__": "training"})
    shutil.copytree("MINE", "RUN")
    capsys.readouterr()
    exec(measuring, {"__name__": "measuring"})
    shown = capsys.readouterr().out
    named = dict.fromkeys(re.findall("before|after", shown))
    assert [*named] == ["before", "after"]
    assert "ndcg@10" in shown


def test_the_names_on_the_page_exist(checkout):
    named = set(re.findall(r"\bdssm_tf\.(\w+)\(", (checkout / PAGE).read_text("utf-8")))
    assert named
    assert named <= set(dssm_tf.__all__)
