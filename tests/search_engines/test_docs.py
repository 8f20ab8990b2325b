"""The programs of docs/search_engines.md, and the commands and program of the export's README."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dssm_tf.common.errors import UserError
from tests.search_engines.conftest import INDEX
from tests.search_engines.nodes import NodeError


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.fixture
def run_program(node, shop):
    """Returns a function that runs a program, with the node's address and the export's path."""

    def run(program: str, names: dict) -> None:
        program = program.replace("http://localhost:9200", node.url)
        exec(program.replace('"ENGINE"', repr(str(shop.export))), names)

    return run


def test_the_programs_of_the_docs_work(checkout, node, shop, run_program, capsys):
    page = (checkout / "docs" / "search_engines.md").read_text("utf-8")
    search, facets, boosted, good_match, rescore, synonyms = blocks(page, "python")
    names: dict = {}
    query = shop.queries[1]
    run_program(search.replace('"stainles steel fridge"', repr(query)), names)
    assert len(names["best"]) == 10
    run_program(facets, names)
    assert {*names["colors"]} == {"red"}
    assert all(hit["_source"]["color"] == "red" for hit in names["hits"])
    assert all(hit["_source"]["price"] <= 50 for hit in names["hits"])
    run_program(boosted, names)
    plain = {hit["_id"]: hit["_score"] for hit in node.ask(
        "POST", f"/{INDEX}/_search", {"query": shop.client.query(query, prior=False), "size": 3000}
    )["hits"]["hits"]}  # fmt: skip
    for hit, parts in zip(names["hits"], names["parts"], strict=True):
        added = 0.02 * math.log(1 + hit["_source"]["sales"])
        assert parts["boost_sales"] == pytest.approx(added)
        assert sum(parts.values()) == pytest.approx(hit["_score"])
        assert parts["words_and_pairs"] == pytest.approx(plain[hit["_id"]], abs=1e-5)
        assert parts["text_cosine"] == hit["text_cosine"] != 0
    for cutoff, output in ((-1.0, ""), (9.0, "No good match was found.\n")):
        names["client"].ranker.cutoff = cutoff
        capsys.readouterr()
        run_program(good_match, names)
        assert capsys.readouterr().out == output
    run_program(rescore, names)
    first = names["found"]["hits"]["hits"][0]
    best = node.ask("POST", f"/{INDEX}/_search", {"query": shop.client.query(query), "size": 100})
    scores = {hit["_id"]: hit["_score"] for hit in best["hits"]["hits"]}
    assert first["_score"] == pytest.approx(scores[first["_id"]], rel=1e-5)
    assert {hit["_id"] for hit in names["hits"]} == {
        hit["_id"] for hit in names["found"]["hits"]["hits"]
    }
    if node.engine == "elasticsearch8":
        return  # its Maven artifacts have no synonym filter
    shutil.copy(shop.export / "synonyms.txt", node.home / "config" / "synonyms.txt")
    run_program(synonyms, names)
    node.ask("DELETE", "/plain")


def test_the_commands_of_the_exports_readme_work(
    node, shop, run_program, tmp_path, monkeypatch, capsys
):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    folder = tmp_path / "export"
    shutil.copytree(shop.export, folder)
    monkeypatch.chdir(folder)
    with Path("products.jsonl").open("w", encoding="utf-8") as file:
        for number, title in enumerate(shop.titles[:50]):
            file.write(json.dumps({"sku": f"s{number}", "title": title}) + "\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "dssm").write_text(f'#!/bin/sh\nexec {sys.executable} -m dssm_tf.cli "$@"\n')
    (programs / "dssm").chmod(0o755)
    readme = Path("README.md").read_text("utf-8").replace("shop", "readme")  # its own index
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        for commands in blocks(readme, "sh"):
            commands = commands.replace("http://localhost:9200", node.url)
            process = subprocess.run(
                ["bash", "-euc", commands], capture_output=True, text=True,
                env=os.environ | environment,
            )  # fmt: skip
            assert process.returncode == 0, process.stderr
        names: dict = {}
        (program,) = blocks(readme, "python")
        run_program(program.replace("stainles steel fridge", shop.titles[7]), names)
        assert names["answer"]["hits"]["hits"][0]["_id"] == "s7"
        assert capsys.readouterr().out.splitlines()[0].endswith(" s7")
        assert names["answer"]["hits"]["total"]["value"] > 1
    finally:
        node.ask("DELETE", "/readme")


def test_a_client_refuses_an_index_of_another_model(node, shop):
    body = json.loads((shop.export / "settings_and_mapping.json").read_bytes())
    body["mappings"]["_meta"]["dssm"]["version"] = "0123456789abcdef"
    node.ask("PUT", "/other", body)
    try:
        with pytest.raises(UserError, match="other has the fields of version 0123456789abcdef"):
            shop.client.check_index(node.ask("GET", "/other/_mapping"))
        with pytest.raises(NodeError, match="index_not_found"):
            node.ask("GET", "/none/_mapping")
    finally:
        node.ask("DELETE", "/other")
