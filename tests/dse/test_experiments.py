"""The DSE paper's experiments on a small scale: tables, figures, protocol, and what is refused."""

from __future__ import annotations

import json
from io import StringIO

import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console
from scipy import sparse

from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.dse.bag_of_words import BagOfWords
from dssm_tf.dse.dse_tfidf import WEIGHTS
from dssm_tf.dse.experiments import cora as dse_cora
from dssm_tf.dse.experiments import systems
from dssm_tf.dse.experiments import wikispeedia as dse_wikispeedia
from dssm_tf.dse.experiments.report import markdown_table
from dssm_tf.dse.experiments.systems import fit_system, nearest_words
from dssm_tf.dse.fine_tuning import LinkTask
from dssm_tf.dse.networks import DSEPair, DSETower
from dssm_tf.dse.pretraining import pretrain
from dssm_tf.dse.relevance import linked, same_class
from dssm_tf.dse.settings import FineTuning, Pretraining
from tests.reference import dse as reference

TINY = FineTuning(4, 0.5, batch_size=32)
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


def measured_by_hand(model, task, relevant, left_out) -> float:
    """W14 sec. 4.2-4.3: other relevant links than those, against all that is irrelevant."""
    pages = task.queries.toarray()
    scores = np.array(model.query_vectors(pages)) @ np.array(model.title_vectors(pages)).T
    irrelevant = ~relevant.toarray() & ~np.eye(len(pages), dtype=bool)
    return reference.rank_loss(scores, (relevant > left_out).toarray(), irrelevant)


def test_cora_measures_on_links_that_were_not_learned(tmp_path, monkeypatch, eager):
    few = dse_cora.Plan(20, Pretraining(steps=2), {"dse": TINY, "ssi": TINY})
    monkeypatch.setattr(dse_cora, "PLANS", (few, few._replace(words=None)))
    fits = []

    def fit(name, task, dimension, settings, **options):
        model = fit_system(name, task, dimension, settings, **options)
        fits.append((name, model, task, options["tower"]))
        return model

    monkeypatch.setattr(dse_cora, "fit_system", fit)
    console = Console(record=True, width=120, file=StringIO())
    found = dse_cora.cora(tmp_path / "out", per_class=10, quick=True, console=console)
    relevant = same_class(np.repeat(list("abcdefg"), 10))
    for words in ("20",):
        for dimension in ("2", "10"):
            for share in ("0.4", "0.05"):
                for system in ("dse", "ssi"):
                    name, model, task, _ = fits.pop(0)
                    assert name == system
                    assert task.learned.nnz == 2 * round(float(share) * relevant.nnz / 2)
                    assert not (task.learned > relevant).nnz
                    loss = found["rank_loss"][words][system][share][dimension]
                    expected = measured_by_hand(model, task, relevant, task.learned)
                    assert loss == pytest.approx(expected, abs=0.05)
    assert not fits
    assert found == json.loads((tmp_path / "out" / "results.json").read_text())
    for name in ("figure1_embedding.png", "table1_rank_loss.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(PNG)
    assert np.load(tmp_path / "out" / "embedding_dse.npy").shape == (70, 2)
    tables = (tmp_path / "out" / "tables.md").read_text()
    assert "| DSE | C=2 | C=10 |" in tables
    assert "| 40% train |" in tables
    assert all(0 <= share <= 1 for share in found["nearest_neighbour_of_the_same_class"].values())
    words = found["nearest_words"]
    assert words
    assert all(len(near) == 5 and word not in near for word, near in words.items())
    assert "Table 1: rank loss (%), SSI, 20 words" in console.export_text()


def test_wikispeedia_compares_five_systems_by_words_and_by_tuples(pages, monkeypatch, eager):
    for name, value in (
        ("SIZES", (10, 20)), ("TUPLES", (50,)), ("TUPLES_SIZE", 20), ("DIMENSION", 5),
        ("PRETRAINING", Pretraining(steps=2)),
        ("FITTINGS", {"good": FineTuning(4, 0.5), "bad": FineTuning(4, 1e30, clip_norm=None)}),
    ):  # fmt: skip
        monkeypatch.setattr(dse_wikispeedia, name, value)
    last = {}

    def fit(name, task, dimension, settings, *, tuples, **options):
        model = fit_system(name, task, dimension, settings, tuples=tuples, **options)
        last[name, task.queries.shape[1], tuples] = model, task
        return model

    monkeypatch.setattr(dse_wikispeedia, "fit_system", fit)
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
    relevant = dse_wikispeedia.read_articles(pages / "docs.tsv", pages / "links.tsv").relevant
    for (system, words, tuples), (model, task) in last.items():
        left_out = task.learned + task.validation
        # 120 links: 30 % are measured, and 5 % of the others kept for choosing.
        assert (left_out.nnz / 2, task.validation.nnz / 2) == (84, 4)
        if words == 20:
            losses = found["rank_loss_by_tuples" if tuples else "rank_loss_by_words"][system]
            expected = measured_by_hand(model, task, relevant, left_out)
            # Two of some 680 pairs may be so near that float32 orders them otherwise.
            assert losses[str(tuples or words)] == pytest.approx(expected, abs=0.3)
    assert "| psi | tfidf |" in (pages / "out" / "tables.md").read_text()
    for name in ("table3_words.png", "figure2_tuples.png"):
        assert (pages / "out" / name).read_bytes().startswith(PNG)
    assert "| system | 10 | 20 |" in (pages / "out" / "tables.md").read_text()


def test_the_weight_of_tf_idf_is_chosen_on_links_that_are_not_measured(pages, monkeypatch):
    articles = dse_wikispeedia.read_articles(pages / "docs.tsv", pages / "links.tsv")
    fitted = dse_wikispeedia._Systems(articles, quick=True, seed=1, run=None)
    model, bags = DSEPair(20, 5, seed=0), BagOfWords(20).fit(articles.texts)
    bags = bags.transform(articles.texts)
    monkeypatch.setattr(fitted, "_chosen", lambda *_: (model, bags))
    fitted.losses(20, ["dse", "dse+tfidf"])
    inputs = bags.toarray()
    semantic = np.array(model.query_vectors(inputs)) @ np.array(model.title_vectors(inputs)).T
    irrelevant = ~articles.relevant.toarray() & ~np.eye(40, dtype=bool)

    def best(links):
        losses = {}
        for share in WEIGHTS:
            scores = (1 - share) * semantic / semantic.std() + share * inputs @ inputs.T
            losses[share] = reference.rank_loss(scores, links.toarray(), irrelevant)
        return min(losses, key=losses.get)

    assert fitted.weights == {"20": best(fitted._validation)}
    assert best(fitted._validation) != best(fitted._test)  # else any links would do


@pytest.mark.parametrize("experiment", ["cora", "wikispeedia"])
def test_dse_starts_from_rbms_that_were_taught(experiment, pages, monkeypatch, eager):
    """The weights before the first tuple are those of the paper's pretraining, of every fit."""
    settings = Pretraining(steps=20)
    plan = dse_cora.Plan(20, settings, {"dse": TINY, "ssi": TINY})
    monkeypatch.setattr(dse_cora, "PLANS", (plan,))
    for name, value in (
        ("SIZES", (20,)), ("TUPLES", (50,)), ("TUPLES_SIZE", 20), ("DIMENSION", 5),
        ("PRETRAINING", settings), ("FITTINGS", {"only": TINY}),
    ):  # fmt: skip
        monkeypatch.setattr(dse_wikispeedia, name, value)
    started = []

    def remember(model, task, settings, **options):
        if isinstance(model, DSEPair):
            started.append((model.query_tower.get_weights(), task.queries))
        return []

    monkeypatch.setattr(systems, "fine_tune", remember)
    if experiment == "cora":
        dse_cora.cora(pages / "out", per_class=10, quick=True, seed=1)
    else:
        files = pages / "docs.tsv", pages / "links.tsv"
        dse_wikispeedia.wikispeedia(*files, pages / "out", seed=1)
    assert len(started) == {"cora": 4, "wikispeedia": 3}[experiment]
    for weights, bags in started:
        dimension = len(weights[-2])
        tower = DSETower(20, dimension, seed=1)
        pretrain(tower, bags, settings, seed=1)
        for found, expected in zip(weights, tower.get_weights(), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-5)


def test_links_that_are_not_measured_are_left_out_of_the_loss():
    relevant = linked(list("wxyz"), [("w", "x"), ("w", "y")])
    test = linked(list("wxyz"), [("w", "x")])
    itself = sparse.identity(4, dtype=bool).tocsr()
    bags = sparse.csr_matrix(np.zeros((4, 2), np.float32))
    task = LinkTask(bags, bags, relevant, relevant, relevant + itself)
    # w: x against z, y being a learned link: in order. x: w against y and z: one of two.
    scores = np.array([[9, 3, 9, 1], [2, 9, 3, 1], [0] * 4, [0] * 4], float)
    assert task.loss(scores.__getitem__, test) == pytest.approx(100 / 3)


def test_a_dimension_above_the_words_is_one_line():
    relevant = same_class(["a", "a", "b", "b"])
    bags = sparse.identity(4).tocsr()
    for system in ("dse", "ssi"):
        with pytest.raises(UserError, match="dimension 5 was asked for texts over 4 words"):
            fit_system(system, LinkTask(bags, bags, relevant, relevant), 5, TINY)


def test_purity_is_the_share_of_points_beside_one_of_their_class():
    points = np.array([[0.0, 0], [1, 0], [5, 0], [5.5, 0]])
    # 0 and 1 are nearest to each other and alike; 5 and 5.5 are nearest and differ.
    assert dse_cora.class_purity(points, ("a", "a", "a", "b")) == 0.5


def test_nearest_words_are_those_with_the_most_alike_activities():
    tower = DSETower(4, 2, widths=(3,))
    rows = np.array([[3, 0, -3], [0, 3, 0], [2, 0, -2], [-3, 0, 3]], np.float32)
    tower.machines[0].kernel.assign(rows)
    near = nearest_words(tower, ["cat", "sun", "dog", "sea"])
    assert near["cat"][0] == "dog"
    assert near["dog"][0] == "cat"
    assert near["sea"][-1] in ("cat", "dog")
    assert all(word not in others for word, others in near.items())


def test_a_table_is_markdown():
    table = markdown_table("T", ("system", "1"), [("dse", "0.50")])
    assert table == "**T**\n\n| system | 1 |\n|---|---|\n| dse | 0.50 |\n"


def failure(capsys, *arguments) -> str:
    assert main(["experiment", *map(str, arguments)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_wrong_files_and_settings_are_one_line(pages, capsys):
    out = ["--out", pages / "new"]
    files = ["--docs", pages / "docs.tsv", "--links", pages / "links.tsv"]
    for number in (1, 9, 181):  # one rule for all that cannot be
        line = failure(capsys, "cora", "--per-class", number, *out)
        assert f"--per-class is {number}; expected 10, " in line
        assert "to 180, which the smallest class has" in line
    with (pages / "links.tsv").open("a") as file:
        file.write("p1\tp99\n")
    line = failure(capsys, "wikispeedia", *files, *out)
    assert "names a page that is not among the 40 pages: 'p99'" in line
    (pages / "links.tsv").write_text("from\tto\n")
    assert "expected 'source', 'target' (missing: source, target)" in failure(
        capsys, "wikispeedia", *files, *out
    )
    (pages / "docs.tsv").write_text("doc_id\ttext\np1\n")
    assert "docs.tsv:2: 1 columns" in failure(capsys, "wikispeedia", *files, *out)
    (pages / "docs.tsv").unlink()
    assert "docs.tsv cannot be read" in failure(capsys, "wikispeedia", *files, *out)
    assert not (pages / "new").exists()


def test_the_bundled_papers_carry_their_attribution(checkout):
    attribution = (checkout / "dssm_tf/datasets/cora/ATTRIBUTION.md").read_text("utf-8")
    assert "MIT licence" in attribution
    assert "Planetoid" in attribution
    papers = dse_cora.read_papers()
    assert (len(papers.texts), len(set(papers.labels))) == (2708, 7)
