"""The DSE paper's experiments on small data: their protocol, tables and figures."""

from __future__ import annotations

import json
from itertools import islice, product
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from dssm_tf.dse.settings import FineTuning, Pretraining
from dssm_tf.dse.tuple_batches import TupleBatches
from examples import dse_cora, dse_wikispeedia
from examples.dse_cora import same_class
from examples.dse_protocol import FixedTuples, Protocol, nearest_words, split_links
from examples.dse_wikispeedia import link_matrix
from tests.reference import dse as reference

TINY = FineTuning(4, 0.5, batch_size=32)
PAGES = [f"p{page}" for page in range(40)]
LINKS = [(PAGES[i], PAGES[(i + 4 * step) % 40]) for i in range(40) for step in (1, 2, 3)]


class Fits(list):
    """The recorded calls of `Protocol.fit`, and the trained systems in `fitted`."""

    def __init__(self):
        super().__init__()
        self.fitted = []


@pytest.fixture
def fits(monkeypatch):
    """Records every fit: system, features, links, tuples, and the scores of all pages."""
    records, fit = Fits(), Protocol.fit

    def recording_fit(self, system, features, dimension, links, pretraining, fitting, tuples=None):
        fitted = fit(self, system, features, dimension, links, pretraining, fitting, tuples)
        scores = fitted.scores()(np.arange(len(self.texts)))
        records.append((system, features, links, tuples, scores))
        records.fitted.append(fitted)
        return fitted

    monkeypatch.setattr(Protocol, "fit", recording_fit)
    tf.config.run_functions_eagerly(True)  # compiling takes longer than a few steps
    yield records
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def pages(tmp_path):
    """Writes forty pages of four topics with links within each topic; returns their flags."""
    random = np.random.default_rng(0)
    words = [[f"{topic}{i}" for i in range(6)] for topic in "abcd"]
    rows = [
        f"{page}\t{' '.join(random.choice(words[i % 4], 4))} a1" for i, page in enumerate(PAGES)
    ]
    docs, links = tmp_path / "docs.tsv", tmp_path / "links.tsv"
    docs.write_text("\n".join(["doc_id\ttext", *rows]))
    links.write_text("\n".join(map("\t".join, [("source", "target"), *LINKS])))
    return ["--docs", str(docs), "--links", str(links)]


def expected_rank_loss(scores, relevant, left_out) -> float:
    """Rank loss of the relevant links that are not left out (Wu et al. 2014, sec. 4.2-4.3)."""
    irrelevant = ~relevant.toarray() & ~np.eye(relevant.shape[0], dtype=bool)
    return reference.rank_loss(scores, (relevant > left_out).toarray(), irrelevant)


@pytest.mark.slow
def test_cora_measures_rank_loss_on_links_outside_the_training_set(tmp_path, monkeypatch, fits):
    plan = dse_cora.Plan(20, Pretraining(steps=2), {"dse": TINY, "ssi": TINY})
    monkeypatch.setattr(dse_cora, "PLANS", (plan,))
    towers = []

    def record_tower(words, tower):
        towers.append(tower)
        return nearest_words(words, tower)

    monkeypatch.setattr(dse_cora, "nearest_words", record_tower)
    out = tmp_path / "out"
    dse_cora.main(["--per-class", "10", "--quick", "--out", str(out)])
    results = json.loads((out / "results.json").read_text())
    relevant = same_class(np.repeat(list("abcdefg"), 10))
    for fit, (dimension, fraction, system) in zip(
        fits, product(("C=2", "C=10"), ("40%", "5%"), ("dse", "ssi")), strict=True
    ):
        name, _, links, _, scores = fit
        assert name == system
        pairs = round(int(fraction[:-1]) / 100 * relevant.nnz / 2)
        assert links.train.nnz == 2 * pairs
        assert not (links.train > relevant).nnz
        loss = results["rank_loss"]["20"][system][fraction][dimension]
        assert loss == pytest.approx(expected_rank_loss(scores, relevant, links.train), abs=0.05)
    assert {path.name for path in out.glob("*.png")} == {
        "figure1_embedding.png",
        "table1_rank_loss.png",
    }
    tables = (out / "tables.md").read_text()
    assert "| DSE | C=2 | C=10 |\n| --- | --- | --- |\n| 40% | " in tables
    assert "**Table 1: rank loss (%), SSI, 20 words**" in tables
    # Table 2 is of the first trained system, not of its pretrained tower.
    assert towers == [fits.fitted[0].model.query_tower]
    assert all(len(words) == 5 for words in results["nearest_words"].values())


@pytest.mark.slow
def test_wikispeedia_uses_different_links_for_validation_and_test(
    pages, tmp_path, monkeypatch, fits
):
    for name, value in (
        ("SIZES", (10, 20)), ("TUPLES", (50,)), ("TUPLES_SIZE", 20), ("DIMENSION", 5),
        ("PRETRAINING", Pretraining(steps=2)),
        ("FITTINGS", {"good": FineTuning(4, 0.5), "bad": FineTuning(4, 1e30, clip_norm=None)}),
    ):  # fmt: skip
        monkeypatch.setattr(dse_wikispeedia, name, value)
    out = tmp_path / "out"
    dse_wikispeedia.main([*pages, "--out", str(out)])
    results = json.loads((out / "results.json").read_text())
    # Each of 40 pages has three links: 120 links, 240 in both directions.
    links = round(240 * 0.7 * 0.95)  # training links, all in one batch
    assert set(results["rank_loss_by_tuples"]["dse"]) == {"50", str(4 * links * (links - 1))}
    relevant = link_matrix(PAGES, LINKS)
    chosen = {
        system: min(choices, key=lambda features: choices[features]["good"])
        for system, choices in results["choices"].items()
    }
    assert set(chosen) == {"dse", "ssi", "psi"}
    for choices in results["choices"].values():
        assert all(losses["bad"] is None for losses in choices.values())
    for system, (words, weighting, _), links, tuples, scores in fits:
        left_out = links.train + links.validation
        # Of 120 links, 30 % are for the test and 5 % of the others for validation.
        assert (left_out.nnz / 2, links.validation.nnz / 2) == (84, 4)
        if words == 20 and weighting == chosen[system]:
            losses = results["rank_loss_by_tuples" if tuples else "rank_loss_by_words"][system]
            expected = expected_rank_loss(scores, relevant, left_out)
            # Two of about 680 pairs may be so close that float32 orders them differently.
            assert losses[str(tuples or words)] == pytest.approx(expected, abs=0.3)
    tables = (out / "tables.md").read_text()
    assert "| system | 10 | 20 |" in tables
    assert "| dse+tfidf | " in tables
    assert {path.name for path in out.glob("*.png")} == {"table3_words.png", "figure2_tuples.png"}


def test_wikispeedia_chooses_the_weight_of_scaled_scores_by_validation_links(monkeypatch):
    # The standard deviation of DSE's scores is 10.
    semantic = np.array([[10, -10, 10, -10], [10, 10, -10, -10], [10, -10, 10, -10], [10, -10] * 2])
    lexical = np.array([[0, 1.2, 0, 0], [0, 0, 1.2, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]])
    systems = dse_wikispeedia.Wikispeedia(["a", "b", "c", "d"], same_class([*"aabb"]), True, 0)
    validation, test = np.zeros((2, 4, 4), bool)
    validation[0, 1] = True  # page 0 must rank page 1 above page 2
    test[[1, 2], 0] = True  # page 1 must rank page 0 above page 2, page 2 above page 1
    ignored = validation | test | np.eye(4, dtype=bool)
    ignored[:, 3] = True
    systems.links = systems.links._replace(
        test=sparse.csr_matrix(test),
        ignored=sparse.csr_matrix(ignored),
        validation=sparse.csr_matrix(validation),
    )
    fitted = SimpleNamespace(scores=lambda: semantic.__getitem__)
    monkeypatch.setattr(systems, "fit_chosen", lambda *_: fitted)
    monkeypatch.setattr(systems, "cosines", lambda _: lexical.__getitem__)
    losses = systems.losses(3, ["dse", "tfidf", "dse+tfidf"])
    # On the validation link, DSE is wrong by 20 / 10 and TF-IDF right by 1.2: the mixture is right
    # if 1.2 w > 2 (1 - w), first at 0.65. The test links would choose weight 0.
    assert systems.weights == {"3": 0.65}
    # With this weight, the mixture orders one test link wrongly, as .35 * 2 - .65 * 1.2 < 0, and
    # the other correctly, as .35 * 2 - .65 * .5 > 0.
    assert losses == {"dse": 0.0, "tfidf": 100.0, "dse+tfidf": 50.0}


def test_a_split_keeps_both_directions_of_a_pair_together():
    relevant = same_class(["a"] * 6 + ["b"] * 5)
    train, test = split_links(relevant, 0.4, seed=1)
    # 40 % of 15 + 10 pairs are 10.
    assert (train.nnz, test.nnz) == (20, 30)
    assert not train.multiply(test).nnz
    assert ((train + test) != relevant).nnz == 0
    assert (train != train.T).nnz == 0
    smaller, _ = split_links(relevant, 0.2, seed=1)
    assert smaller.multiply(train).nnz == smaller.nnz == 10


@pytest.mark.parametrize("tuples", [7, 30, 75])
def test_a_fixed_set_of_tuples_has_about_the_requested_size_and_does_not_change(tuples):
    relevant = same_class(["a"] * 5 + ["b"] * 5)  # 40 links, up to 9 negatives per link
    batches = FixedTuples(tuples, TupleBatches(relevant, relevant, batch_size=10, seed=3))
    blocks = -(-min(40, tuples) // 10)

    def tuples_of(rounds) -> set[tuple[int, int, int]]:
        return {
            (int(batch.queries[i]), int(batch.titles[i]), int(batch.titles[j]))
            for batch in islice(batches, blocks * rounds)
            for i, j in zip(*np.nonzero(batch.is_irrelevant), strict=True)
        }

    first_round = tuples_of(1)
    assert tuples_of(3) == first_round
    # A link with few negatives in its batch has fewer tuples; equal tuples count once.
    assert 0.5 * tuples <= len(first_round) <= tuples + blocks


def test_invalid_arguments_are_an_error_of_one_line(pages, tmp_path):
    out = ["--out", str(tmp_path / "new")]
    with pytest.raises(SystemExit, match="--per-class is 9; expected 10 to 180"):
        dse_cora.main(["--per-class", "9", *out])
    (tmp_path / "links.tsv").write_text("source\ttarget\np1\tp99\n")
    with pytest.raises(SystemExit, match="names the page 'p99', which has no text"):
        dse_wikispeedia.main([*pages, "--out", str(tmp_path / "unknown")])
