"""The Python code in docs/api.md runs. README.md has a separate test."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest

import dssm_tf
from dssm_tf.server.models import open_models
from dssm_tf.server.server import Server
from tests.clicks import click_log, write_data

PAGE = "docs/api.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
JUDGMENTS = """\
query_id	query	doc_id	title	grade
1	red foxs	1	red fox	1
2	owl	2	the green owl story	2
"""
CORPUS = "doc_id\ttitle\n1\tred fox\n2\tthe green owl story\n3\tblack bear\n"


def test_every_code_block_runs(checkout, tmp_path, monkeypatch, capsys):
    write_data(tmp_path / "DATA", click_log())
    (tmp_path / "judgments.tsv").write_text(JUDGMENTS, "utf-8")
    (tmp_path / "corpus.tsv").write_text(CORPUS, "utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((checkout / PAGE).read_text("utf-8"))
    *training_codes, evaluation_code = (code for code in blocks if "import dssm_tf" in code)
    for code in training_codes:
        exec(code, {"__name__": "training"})
    shutil.copytree("MINE", "RUN")
    assert list((tmp_path / "BOARD" / "fit" / "train").glob("events.*"))
    capsys.readouterr()
    exec(evaluation_code, {"__name__": "evaluation"})
    output = capsys.readouterr().out
    names = dict.fromkeys(re.findall("before|after", output))
    assert [*names] == ["before", "after"]
    assert "ndcg@10" in output
    assert_served(tmp_path / "EXPORT", dssm_tf.load("OWN"))
    with pytest.raises(dssm_tf.UserError, match="has a custom tower, and a compact model"):
        dssm_tf.export_model(model=Path("OWN"), out=tmp_path / "COMPACT", format="compact")


def assert_served(export, model):
    """Asserts that a server of the SavedModel returns the scores of the run."""
    titles = ["a red fox", "the owl"]
    body = json.dumps(
        {"signature_name": "score", "inputs": {"queries": ["red fox"], "titles": titles}}
    )
    (name,) = (path.name for path in export.iterdir())
    with Server(open_models(export), port=0, rest_port=0) as server:
        url = f"http://{server.rest_address}/v1/models/{name}:predict"
        with urlopen(Request(url, body.encode(), {"Content-Type": "application/json"})) as answer:
            outputs = json.load(answer)["outputs"]
    np.testing.assert_allclose(np.ravel(outputs), model.score("red fox", titles), atol=1e-5)


def test_the_names_on_the_page_exist(checkout):
    names = set(re.findall(r"\bdssm_tf\.(\w+)\(", (checkout / PAGE).read_text("utf-8")))
    assert names
    assert names <= set(dssm_tf.__all__)
