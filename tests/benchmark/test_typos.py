"""`dssm benchmark --typos`: the judged queries with a typing error, in tables of their own."""

from __future__ import annotations

import json
import random

import pytest

from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.text.typos import with_typo
from tests.benchmark.colours import run_command

THINGS = ("jacket", "kettle", "blanket", "hat", "toaster")
TITLES = [f"{color} {thing}" for color in ("crimson", "ivory", "black") for thing in THINGS]
SYSTEMS = ("--systems", "bm25,trigram_tfidf", "--hybrid", "bm25+trigram_tfidf", "--jobs", "1")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The folder, and what the same benchmark finds with and without typing errors."""
    folder = tmp_path_factory.mktemp("typos")
    draw = random.Random(0)
    clicks, judged = ["query\ttitle\tclicks"], ["query_id\tquery\tdoc_id\ttitle\tgrade"]
    for place, title in enumerate(TITLES):
        color, thing = title.split()
        clicks += [f"{thing} {color}\t{title}\t2", f"{thing}\t{title}\t1"]
        for query in (f"{thing} {color}", f"nice {thing}"):
            judged.append(f"q{len(judged)}\t{query}\td{place}\t{title}\t{draw.choice([1, 2])}")
    corpus = ["doc_id\ttitle", *(f"d{place}\t{title}" for place, title in enumerate(TITLES))]
    flags = []
    for name, lines in (("clicks", clicks), ("judgments", judged), ("corpus", corpus)):
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
        flags += [f"--{name}", str(folder / f"{name}.tsv")]
    for out, further in (("plain", ()), ("both", ("--typos",))):
        run_command(*flags, *SYSTEMS, *further, "--out", str(folder / out))
    return folder


def systems(out) -> dict:
    return json.loads((out / "metrics.json").read_text("utf-8"))["systems"]


def quality(out) -> dict:
    costs = ("training_seconds", "microseconds_per_query")
    found = systems(out)
    for row in found.values():
        row["parts"].pop("typos", None)
        for one in (row, *row["about"]):
            for cost in costs:
                one.pop(cost)
    return found


def test_the_table_of_the_queries_as_they_are_is_the_same(tables):
    # Nothing is chosen by a query with a typing error, no other mean holds one.
    assert quality(tables / "both") == quality(tables / "plain")


def test_typing_errors_are_measured_on_the_edited_queries(tables):
    found = systems(tables / "both")
    ranker = BASELINES["trigram_tfidf"]()
    ranker.fit([], TITLES)
    edited = [
        one._replace(query=with_typo(one.query)) for one in read_judgments(tables / "judgments.tsv")
    ]
    expected = evaluate(
        {"trigram_tfidf": ranker}, edited, corpus=read_corpus(tables / "corpus.tsv")
    )
    part = found["trigram_tfidf"]["parts"]["typos"]
    for metric in ("ndcg@1", "ndcg@3", "ndcg@10"):
        assert part[metric] == pytest.approx(expected.mean("trigram_tfidf", metric))
    assert part["queries"] == found["bm25"]["queries"] == len(edited)
    assert found["bm25"]["parts"]["typos"]["ndcg@1"] < found["bm25"]["ndcg@1"]
    assert "## Queries with a typing error" in (tables / "both" / "report.md").read_text("utf-8")
