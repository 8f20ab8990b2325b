"""Every block of Python in docs/api.md runs, in order. README.md has a separate test."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from types import SimpleNamespace
from typing import Annotated, get_args, get_origin, get_type_hints
from urllib.request import Request, urlopen

import numpy as np
import pytest

import dssm_tf
from dssm_tf.commands import COMMANDS, load_command
from dssm_tf.server.models import open_models
from dssm_tf.server.server import Server
from tests.clicks import click_log
from tests.datasets.test_ir_dataset import Dataset

PAGE = "docs/api.md"
BLOCK = re.compile(r"^```([^\n]+)\n(.*?)^```$", re.S | re.M)
JUDGMENTS = """\
query_id	query	doc_id	title	grade
1	red foxs	1	red fox	1
2	owl	2	the green owl story	2
"""
CORPUS = "doc_id\ttitle\n1\tred fox\n2\tthe green owl story\n3\tblack bear\n"


@pytest.fixture
def page(checkout) -> str:
    return (checkout / PAGE).read_text("utf-8")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with the files of the page; libraries that need a network are imitated."""
    log = "".join(f"{click.query}\t{click.title}\t{click.clicks}\n" for click in click_log(30))
    (tmp_path / "clicks.tsv").write_text(f"query\ttitle\tclicks\n{log}", "utf-8")
    (tmp_path / "judgments.tsv").write_text(JUDGMENTS, "utf-8")
    (tmp_path / "corpus.tsv").write_text(CORPUS, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ir_datasets", SimpleNamespace(load=lambda name: Dataset()))
    if importlib.util.find_spec("ranx") is None:
        fake = SimpleNamespace(
            Qrels=dict, Run=lambda run, name: run, compare=lambda qrels, runs, metrics: len(runs)
        )
        monkeypatch.setitem(sys.modules, "ranx", fake)
    return tmp_path


@pytest.mark.long
def test_every_block_runs_in_order(page, files, capsys):
    blocks = BLOCK.findall(page)
    assert {language for language, _ in blocks} == {"python", "{eval-rst}"}
    namespace = {"__name__": "page"}
    outputs = []
    for language, code in blocks:
        if language == "python":
            exec(code, namespace)
            outputs.append(capsys.readouterr().out)
    first, evaluation = outputs[0], next(text for text in outputs if "Evaluation on" in text)
    assert "<dssm_tf.Model 'dssm'" in first
    assert "(2, 2)" in first
    assert "bm25" in evaluation
    assert (files / "means.png").stat().st_size
    assert list((files / "BOARD" / "fit" / "train").glob("events.*"))
    assert_served(files / "EXPORT", dssm_tf.load("OWN"))
    with pytest.raises(dssm_tf.UserError, match="has a custom tower, and a compact model"):
        dssm_tf.export_model(model="OWN", out="COMPACT", format="compact")


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


def test_the_names_on_the_page_exist_and_all_names_are_there(page):
    names = set(re.findall(r"\bdssm_tf\.(\w+)\b", page)) - {"towers", "losses", "training"}
    names -= {"evaluation", "analysis", "datasets", "server"}  # packages
    assert names <= set(dssm_tf.__all__)
    described = {*dssm_tf.__all__} - {"__version__"}
    assert described - names <= {"demo", "embed", "interleave", "report", "serve", "teach", "tune"}


def test_the_rule_of_flags_and_arguments_is_true(page):
    """The flags whose argument has another name are those of the page's table."""
    differing = {}
    for name in COMMANDS:
        command = load_command(name)
        for function in command.values() if isinstance(command, dict) else [command]:
            hints = get_type_hints(function, include_extras=True)
            for parameter in inspect.signature(function).parameters:
                hint = hints.get(parameter)
                for extra in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
                    flag = (getattr(extra, "name", None) or [""])[0]
                    if flag and flag != "*":
                        differing.setdefault(flag, set()).add(parameter)
    assert differing == {"--set": {"overrides", "settings"}, "--from": {"start"}}
    for flag, parameters in differing.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{flag}`"))
        assert all(f"`{parameter}`" in row for parameter in parameters)
