"""The Python of README.md and docs/api.md runs as it stands there."""

from __future__ import annotations

import re

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
    (readme,) = blocks(checkout / "README.md")
    training, measuring = blocks(checkout / "docs" / "api.md")
    # The model of the README's question knows no letter of it: this log is about animals.
    readme = readme.replace("wizard of oz", "red fox").replace("The Wizard of Oz (1939)", "Red Fox")
    shown = {}
    for name, code in (("readme", readme), ("training", training), ("measuring", measuring)):
        exec(compile(code, name, "exec"), {"__name__": name})
        shown[name] = capsys.readouterr().out
    ranked, sentences, ndcg = shown["readme"].splitlines()[-3:]
    assert ranked.startswith("[RankedTitle(title='Red Fox', score=")
    assert "'fox' stands in the title" in sentences
    assert 0 <= float(ndcg) <= 1
    assert [line.split()[0] for line in shown["measuring"].splitlines()] == ["before", "after"]
    assert len(readme.strip().splitlines()) <= 20


@pytest.mark.parametrize("page", ["README.md", "docs/api.md"])
def test_the_names_on_the_page_exist(checkout, page):
    import dssm_tf

    named = set(re.findall(r"\bdssm_tf\.(\w+)\(", (checkout / page).read_text("utf-8")))
    assert named
    assert named <= set(dssm_tf.__all__)
