"""Runs the recipes of docs/vector_engines.md, if their search engine is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.commands.embed import embed
from dssm_tf.export.compact import copy_compact
from tests.retrieval.conftest import TITLES

QUERY = "red hat"


@pytest.fixture
def recipe(checkout, run_with_prior, corpus_file, tmp_path, monkeypatch):
    """Returns a function that runs the page's first block and that of a heading."""
    embed(model=run_with_prior, input=corpus_file, out=tmp_path / "vectors.parquet")
    (tmp_path / "EXPORT").mkdir()
    copy_compact(run_with_prior, tmp_path / "EXPORT" / "dssm")
    monkeypatch.chdir(tmp_path)
    page = (checkout / "docs" / "vector_engines.md").read_text("utf-8")

    def run(heading: str, **names):
        blocks = {
            title: "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
            for title, text in re.findall(
                r"^#+ (.*?)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE
            )
        }
        exec(blocks["Write the vectors"] + blocks[heading], names)
        return names

    return run


def expected(ranker) -> list[str]:
    order = np.argsort(-ranker.score(QUERY, [entry.title for entry in TITLES]), kind="stable")
    return [TITLES[row].doc_id for row in order]


def test_reranking_orders_the_hits_of_the_engine_by_the_model(recipe, ranker):
    def ask(index: str, body: dict) -> dict:
        assert body == {"query": {"match": {"title": QUERY}}, "size": 100}
        hits = [("d4", "Red Box", 0.9), ("d1", "Red Hat", 1.9), ("d5", "Hats of Felt", 0.1)]
        return {"hits": {"hits": [
            {"_id": name, "_score": score, "_source": {"title": title}}
            for name, title, score in hits
        ]}}  # fmt: skip

    names = recipe("Rerank the best titles of Elasticsearch or OpenSearch", ask=ask)
    scores = ranker.score(QUERY, ["Red Box", "Red Hat", "Hats of Felt"])
    assert names["best"] == [("d4", "d1", "d5")[row] for row in np.argsort(-scores)]


@pytest.mark.slow
def test_qdrant_ranks_as_the_model_does(recipe, ranker):
    pytest.importorskip("qdrant_client", reason="pip install qdrant-client")
    assert recipe("Qdrant")["best"] == expected(ranker)


def test_a_vespa_feed_contains_every_title(recipe, ranker, tmp_path):
    request = recipe("Vespa")["request"]
    lines = [json.loads(line) for line in (tmp_path / "feed.jsonl").read_text().splitlines()]
    doc_ids = [line["put"].rpartition(":")[2] for line in lines]
    assert doc_ids == [entry.doc_id for entry in TITLES]
    vectors = np.array([line["fields"]["vector"]["values"] for line in lines])
    scores = vectors @ request["input.query(q)"]
    np.testing.assert_allclose(
        scores, ranker.score(QUERY, [entry.title for entry in TITLES]), atol=1e-6
    )


@contextmanager
def postgresql(folder: Path):
    """Starts a server on a socket; yields the environment variables for psql."""
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), Path("/usr/local/bin")]
    programs = next((path for path in folders if (path / "initdb").exists()), None)
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql, postgresql-15-pgvector)")
    shared = subprocess.run([programs / "pg_config", "--sharedir"], capture_output=True, text=True)
    if not (Path(shared.stdout.strip()) / "extension" / "vector.control").exists():
        pytest.skip("pgvector is not installed (Debian: postgresql-NN-pgvector)")
    as_user = []
    if os.getuid() == 0:
        if shutil.which("runuser") is None:
            pytest.skip("PostgreSQL does not run as root, and there is no runuser")
        as_user = ["runuser", "-u", "nobody", "--"]
        shutil.chown(folder, "nobody")
    data = folder / "data"
    options = f"-k {folder} -c listen_addresses=''"
    subprocess.run([*as_user, programs / "initdb", "-D", data, "-U", "me"], check=True)
    control = [*as_user, programs / "pg_ctl", "-D", data, "-w"]
    subprocess.run([*control, "-o", options, "-l", folder / "log", "start"], check=True)
    try:
        yield {"PGHOST": str(folder), "PGUSER": "me", "PGDATABASE": "postgres"}
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True)


@pytest.mark.slow
def test_postgresql_ranks_as_the_model_does(recipe, ranker, tmp_path_factory, monkeypatch):
    with postgresql(tmp_path_factory.mktemp("pg")) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert recipe("PostgreSQL with pgvector")["best"] == expected(ranker)


@pytest.mark.parametrize("engine", ["Vectors in OpenSearch", "Vectors in Elasticsearch"])
def test_recipes_that_need_a_server_compile(checkout, engine):
    page = (checkout / "docs" / "vector_engines.md").read_text("utf-8")
    block = page.partition(f"## {engine}\n")[2].partition("```python\n")[2].partition("```")[0]
    compile(block, engine, "exec")
    assert "inner" in block
