"""The DSE paper's experiments on a small scale: tables, figures, protocol, and what is refused."""

from __future__ import annotations

import json
import math
from io import StringIO

import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console
from scipy import sparse

from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.dse.experiments import cora as dse_cora
from dssm_tf.dse.experiments import wikispeedia as dse_wikispeedia
from dssm_tf.dse.experiments.report import ResultTable
from dssm_tf.dse.experiments.systems import (
    Effort,
    LinkTask,
    cosine_scores,
    fit_system,
    mixed_scores,
    nearest_words,
)
from dssm_tf.dse.margin_training import FineTuning, Pretraining
from dssm_tf.dse.networks.dse import DSE
from dssm_tf.dse.relevance import linked, same_class, split_links

TINY = Effort(FineTuning(4, 0.5), Pretraining(steps=2), batch_size=32)
PNG = b"\x89PNG"


@pytest.fixture
def eager():
    """A few steps a model are quicker done than compiled."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def pages(tmp_path):
    """Forty pages of four topics, linked within their topic."""
    random = np.random.default_rng(0)
    words = [[f"{topic}{i}" for i in range(6)] for topic in "abcd"]
    rows, links = ["doc_id\ttitle\ttext"], ["source\ttarget"]
    for page in range(40):
        own = [*random.choice(words[page % 4], 4).tolist(), str(random.choice(words[0]))]
        rows.append(f"p{page}\ttitle\t{' '.join(own)}")
        links += [f"p{page}\tp{(page + 4 * step) % 40}" for step in (1, 2, 3)]
    (tmp_path / "docs.tsv").write_text("\n".join(rows) + "\n")
    (tmp_path / "links.tsv").write_text("\n".join(links) + "\n")
    return tmp_path


@pytest.mark.slow
def test_cora_writes_the_paper_s_tables_and_figures(tmp_path, monkeypatch, eager):
    for name in ("EFFORTS", "EFFORTS_ALL"):
        monkeypatch.setattr(dse_cora, name, {"dse": TINY, "ssi": TINY})
    monkeypatch.setattr(dse_cora, "FEW_WORDS", 20)
    console = Console(record=True, width=120, file=StringIO())
    found = dse_cora.cora(tmp_path / "out", per_class=4, quick=True, console=console)
    assert found == json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(found["rank_loss"]) == {"20", "all"}
    for systems in found["rank_loss"].values():
        for system in ("dse", "ssi"):
            assert set(systems[system]) == {"0.4", "0.05"}
            for row in systems[system].values():
                assert set(row) == {"2", "10"}
                assert all(0 <= loss <= 100 for loss in row.values())
    for name in ("figure1_embedding.png", "table1_rank_loss.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(PNG)
    assert np.load(tmp_path / "out" / "embedding_dse.npy").shape == (28, 2)
    tables = (tmp_path / "out" / "tables.md").read_text()
    assert "| DSE | C=2 | C=10 |" in tables
    assert "| 40% train |" in tables
    assert all(0 <= share <= 1 for share in found["nearest_neighbour_of_the_same_class"].values())
    words = found["nearest_words"]
    assert words
    assert all(len(near) == 5 and word not in near for word, near in words.items())
    assert "Table 1: rank loss (%), SSI, all words" in console.export_text()


def test_wikispeedia_compares_five_systems_by_words_and_by_tuples(pages, monkeypatch, eager):
    for name, value in (
        ("SIZES", (10, 20)), ("TUPLES", (50,)), ("TUPLES_SIZE", 20), ("DIMENSION", 5),
        ("PRETRAINING", Pretraining(steps=2)),
        ("FITTINGS", {"good": FineTuning(4, 0.5), "bad": FineTuning(4, math.nan)}),
    ):  # fmt: skip
        monkeypatch.setattr(dse_wikispeedia, name, value)
    found = dse_wikispeedia.wikispeedia(pages / "docs.tsv", pages / "links.tsv", pages / "out")
    assert found["articles"] == 40
    # Each of 40 pages links three onwards, each link once both ways.
    assert found["links"] == 120
    assert set(found["rank_loss_by_words"]) == {"dse", "ssi", "psi", "tfidf", "dse+tfidf"}
    assert all(set(row) == {"10", "20"} for row in found["rank_loss_by_words"].values())
    links = round(240 * 0.7 * 0.95)  # all in one batch
    assert set(found["rank_loss_by_tuples"]["dse"]) == {"50", str(4 * links * (links - 1))}
    for system, tried in found["choices"].items():
        best = min(tried, key=lambda features: tried[features]["good"])
        assert found["chosen"][system] == (best, "good")
        for losses in tried.values():
            assert losses["bad"] is None
            assert 0 <= losses["good"] <= 100
    assert "| psi | tfidf |" in (pages / "out" / "tables.md").read_text()
    for name in ("table3_words.png", "figure2_tuples.png"):
        assert (pages / "out" / name).read_bytes().startswith(PNG)
    assert "| system | 10 | 20 |" in (pages / "out" / "tables.md").read_text()


def test_links_that_are_not_measured_are_left_out_of_the_loss():
    relevant = linked(list("wxyz"), [("w", "x"), ("w", "y")])
    test = linked(list("wxyz"), [("w", "x")])
    itself = sparse.identity(4, dtype=bool).tocsr()
    bags = sparse.csr_matrix(np.zeros((4, 2), np.float32))
    task = LinkTask(bags, relevant, test, relevant, relevant + itself)
    # w: x against z, y being a learned link: in order. x: w against y and z: one of two.
    scores = np.array([[9, 3, 9, 1], [2, 9, 3, 1], [0] * 4, [0] * 4], float)
    assert task.loss(scores.__getitem__) == pytest.approx(100 / 3)


def test_the_combination_takes_the_weight_that_validation_likes_best():
    relevant = same_class(["a", "a", "a", "b", "b", "b"])
    train, test = split_links(relevant, 0.5)
    itself = sparse.identity(6, dtype=bool).tocsr()
    bags = sparse.csr_matrix(np.eye(6, dtype=np.float32))
    task = LinkTask(bags, train, test, relevant, relevant + itself, test)
    truth = relevant.toarray().astype(float)
    wrong = 10 * (1 - truth)
    mixed, weight = mixed_scores(task, wrong.__getitem__, truth.__getitem__)
    assert weight > 0.5
    assert task.loss(mixed) == 0
    assert task.loss(cosine_scores(bags)) == 50  # nothing in common: every triple ties


def test_a_dimension_above_the_words_is_one_line():
    relevant = same_class(["a", "a", "b", "b"])
    task = LinkTask(sparse.identity(4).tocsr(), relevant, relevant, relevant, relevant)
    for system in ("dse", "ssi"):
        with pytest.raises(UserError, match="C = 5 with 4 words; an embedding needs 1 <= C <= D"):
            fit_system(system, task, 5, TINY)


def test_purity_is_the_share_of_points_beside_one_of_their_class():
    points = np.array([[0.0, 0], [1, 0], [5, 0], [5.5, 0]])
    # 0 and 1 are nearest to each other and alike; 5 and 5.5 are nearest and differ.
    assert dse_cora.class_purity(points, ("a", "a", "a", "b")) == 0.5


def test_nearest_words_are_those_with_the_most_alike_activities():
    tower = DSE(4, 2, widths=(3,))
    tower.build()
    rows = np.array([[3, 0, -3], [0, 3, 0], [2, 0, -2], [-3, 0, 3]], np.float32)
    tower.machines[0].kernel.assign(rows)
    near = nearest_words(tower, ["cat", "sun", "dog", "sea"])
    assert near["cat"][0] == "dog"
    assert near["dog"][0] == "cat"
    assert near["sea"][-1] in ("cat", "dog")
    assert all(word not in others for word, others in near.items())


def test_a_table_is_markdown():
    table = ResultTable("T", ("system", "1"), (("dse", "0.50"),))
    assert table.markdown() == "**T**\n\n| system | 1 |\n|---|---|\n| dse | 0.50 |\n"


def failure(capsys, *arguments) -> str:
    assert main(["experiment", *map(str, arguments)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_wrong_files_and_settings_are_one_line(pages, capsys):
    out = ["--out", pages / "new"]
    files = ["--docs", pages / "docs.tsv", "--links", pages / "links.tsv"]
    assert "a class would be empty or of one paper" in failure(
        capsys, "cora", "--per-class", 1, *out
    )
    assert "class 6 has 180 papers" in failure(capsys, "cora", "--per-class", 181, *out)
    with (pages / "links.tsv").open("a") as file:
        file.write("p1\tp99\n")
    line = failure(capsys, "wikispeedia", *files, *out)
    assert "names a page that is not among the 40 pages: 'p99'" in line
    (pages / "links.tsv").write_text("from\tto\n")
    assert "it needs source, target" in failure(capsys, "wikispeedia", *files, *out)
    (pages / "docs.tsv").write_text("doc_id\ttext\np1\n")
    assert "docs.tsv:2 has 1 columns" in failure(capsys, "wikispeedia", *files, *out)
    (pages / "docs.tsv").unlink()
    assert "docs.tsv cannot be read" in failure(capsys, "wikispeedia", *files, *out)
    assert not (pages / "new").exists()


def test_the_bundled_papers_carry_their_attribution(checkout):
    attribution = (checkout / "dssm_tf/datasets/cora/ATTRIBUTION.md").read_text("utf-8")
    assert "MIT licence" in attribution
    assert "Planetoid" in attribution
    papers = dse_cora.read_papers()
    assert (len(papers.texts), len(set(papers.labels))) == (2708, 7)
