"""The Python of docs/api.md runs as it stands there; README.md has its own test."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.clicks import click_log, write_data

BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
JUDGMENTS = """\
query_id	query	doc_id	title	grade
1	red foxs	1	red fox	1
2	owl	2	the green owl story	2
"""
CORPUS = "doc_id\ttitle\n1\tred fox\n2\tthe green owl story\n3\tblack bear\n"


def blocks(page) -> list[str]:
    """The page's Python that uses this package."""
    return [code for code in BLOCK.findall(page.read_text("utf-8")) if "import dssm_tf" in code]


def test_every_block_runs(checkout, tmp_path, monkeypatch, capsys):
    write_data(tmp_path / "DATA", click_log())
    (tmp_path / "judgments.tsv").write_text(JUDGMENTS, "utf-8")
    (tmp_path / "corpus.tsv").write_text(CORPUS, "utf-8")
    monkeypatch.chdir(tmp_path)
    shown = {}
    for name, code in zip(
        ("training", "measuring"), blocks(checkout / "docs" / "api.md"), strict=True
    ):
        exec(compile(code, name, "exec"), {"__name__": name})
        shown[name] = capsys.readouterr().out
        shutil.copytree("MINE", "RUN", dirs_exist_ok=True)
    assert [line.split()[0] for line in shown["measuring"].splitlines()] == ["before", "after"]


@pytest.mark.parametrize("page", ["docs/api.md"])
def test_the_names_on_the_page_exist(checkout, page):
    import dssm_tf

    named = set(re.findall(r"\bdssm_tf\.(\w+)\(", (checkout / page).read_text("utf-8")))
    assert named
    assert named <= set(dssm_tf.__all__)
