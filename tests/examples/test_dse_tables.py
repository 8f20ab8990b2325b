"""The DSE paper's experiments on a small scale: their protocol, tables and figures."""

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
from examples.dse_protocol import FixedTuples, Protocol, split_links
from examples.dse_wikispeedia import linked
from tests.reference import dse as reference

TINY = FineTuning(4, 0.5, batch_size=32)
PAGES = [f"p{page}" for page in range(40)]
LINKS = [(PAGES[at], PAGES[(at + 4 * step) % 40]) for at in range(40) for step in (1, 2, 3)]


@pytest.fixture
def fits(monkeypatch):
    """Every fit: its system, its features, its links, and the scores of all pages for all pages.

    A few steps a model are quicker done than compiled.
    """
    seen, fit = [], Protocol.fit

    def spied(self, system, features, dimension, links, *rest):
        fitted = fit(self, system, features, dimension, links, *rest)
        scores = fitted.scores()(np.arange(len(self.texts)))
        seen.append((system, features, links, rest[2] if len(rest) > 2 else None, scores))
        return fitted

    monkeypatch.setattr(Protocol, "fit", spied)
    tf.config.run_functions_eagerly(True)
    yield seen
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def pages(tmp_path):
    """Forty pages of four topics, linked within their topic; the options that name them."""
    random = np.random.default_rng(0)
    words = [[f"{topic}{i}" for i in range(6)] for topic in "abcd"]
    rows = [
        f"{page}\t{' '.join(random.choice(words[at % 4], 4))} a1" for at, page in enumerate(PAGES)
    ]
    docs, links = tmp_path / "docs.tsv", tmp_path / "links.tsv"
    docs.write_text("\n".join(["doc_id\ttext", *rows]))
    links.write_text("\n".join(map("\t".join, [("source", "target"), *LINKS])))
    return ["--docs", str(docs), "--links", str(links)]


def by_hand(scores, relevant, left_out) -> float:
    """W14 sec. 4.2-4.3: other relevant links than those, against all that is irrelevant."""
    irrelevant = ~relevant.toarray() & ~np.eye(relevant.shape[0], dtype=bool)
    return reference.rank_loss(scores, (relevant > left_out).toarray(), irrelevant)


@pytest.mark.slow
def test_cora_measures_on_links_that_were_not_learned(tmp_path, monkeypatch, fits):
    few = dse_cora.Plan(20, Pretraining(steps=2), {"dse": TINY, "ssi": TINY})
    monkeypatch.setattr(dse_cora, "PLANS", (few,))
    out = tmp_path / "out"
    dse_cora.main(["--per-class", "10", "--quick", "--out", str(out)])
    found = json.loads((out / "results.json").read_text())
    relevant = same_class(np.repeat(list("abcdefg"), 10))
    for fit, (dimension, share, system) in zip(
        fits, product(("C=2", "C=10"), ("40%", "5%"), ("dse", "ssi")), strict=True
    ):
        name, _, links, _, scores = fit
        assert name == system
        pairs = round(int(share[:-1]) / 100 * relevant.nnz / 2)
        assert links.learned.nnz == 2 * pairs
        assert not (links.learned > relevant).nnz
        loss = found["rank_loss"]["20"][system][share][dimension]
        assert loss == pytest.approx(by_hand(scores, relevant, links.learned), abs=0.05)
    assert {path.name for path in out.glob("*.png")} == {
        "figure1_embedding.png",
        "table1_rank_loss.png",
    }
    tables = (out / "tables.md").read_text()
    assert "| DSE | C=2 | C=10 |\n| --- | --- | --- |\n| 40% | " in tables
    assert "**Table 1: rank loss (%), SSI, 20 words**" in tables
    assert all(len(near) == 5 for near in found["nearest_words"].values())


@pytest.mark.slow
def test_wikispeedia_chooses_and_measures_on_different_links(pages, tmp_path, monkeypatch, fits):
    for name, value in (
        ("SIZES", (10, 20)), ("TUPLES", (50,)), ("TUPLES_SIZE", 20), ("DIMENSION", 5),
        ("PRETRAINING", Pretraining(steps=2)),
        ("FITTINGS", {"good": FineTuning(4, 0.5), "bad": FineTuning(4, 1e30, clip_norm=None)}),
    ):  # fmt: skip
        monkeypatch.setattr(dse_wikispeedia, name, value)
    out = tmp_path / "out"
    dse_wikispeedia.main([*pages, "--out", str(out)])
    found = json.loads((out / "results.json").read_text())
    # Each of 40 pages links three onwards, each link once both ways: 120.
    links = round(240 * 0.7 * 0.95)  # all in one batch
    assert set(found["rank_loss_by_tuples"]["dse"]) == {"50", str(4 * links * (links - 1))}
    relevant = linked(PAGES, LINKS)
    chosen = {
        system: min(tried, key=lambda features: tried[features]["good"])
        for system, tried in found["choices"].items()
    }
    assert set(chosen) == {"dse", "ssi", "psi"}
    for tried in found["choices"].values():
        assert all(losses["bad"] is None for losses in tried.values())
    for system, (words, weighting, _), links, tuples, scores in fits:
        left_out = links.learned + links.validation
        # 120 links: 30 % are measured, and 5 % of the others kept for choosing.
        assert (left_out.nnz / 2, links.validation.nnz / 2) == (84, 4)
        if words == 20 and weighting == chosen[system]:
            losses = found["rank_loss_by_tuples" if tuples else "rank_loss_by_words"][system]
            expected = by_hand(scores, relevant, left_out)
            # Two of some 680 pairs may be so near that float32 orders them otherwise.
            assert losses[str(tuples or words)] == pytest.approx(expected, abs=0.3)
    tables = (out / "tables.md").read_text()
    assert "| system | 10 | 20 |" in tables
    assert "| dse+tfidf | " in tables
    assert {path.name for path in out.glob("*.png")} == {"table3_words.png", "figure2_tuples.png"}


def test_wikispeedias_mixture_is_chosen_on_validation_links_and_its_scores_scaled(monkeypatch):
    # The standard deviation of DSE's scores is 10.
    semantic = np.array([[10, -10, 10, -10], [10, 10, -10, -10], [10, -10, 10, -10], [10, -10] * 2])
    lexical = np.array([[0, 1.2, 0, 0], [0, 0, 1.2, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]])
    systems = dse_wikispeedia.Wikispeedia(["a", "b", "c", "d"], same_class([*"aabb"]), True, 0)
    validation, measured = np.zeros((2, 4, 4), bool)
    validation[0, 1] = True  # against page 2
    measured[[1, 2], 0] = True  # against page 2, against page 1
    ignored = validation | measured | np.eye(4, dtype=bool)
    ignored[:, 3] = True
    systems.links = systems.links._replace(
        measured=sparse.csr_matrix(measured),
        ignored=sparse.csr_matrix(ignored),
        validation=sparse.csr_matrix(validation),
    )
    fitted = SimpleNamespace(scores=lambda: semantic.__getitem__)
    monkeypatch.setattr(systems, "fit_chosen", lambda *_: fitted)
    monkeypatch.setattr(systems, "cosines", lambda _: lexical.__getitem__)
    losses = systems.losses(3, ["dse", "tfidf", "dse+tfidf"])
    # On the validation link, DSE is wrong by 20 / 10 and TF-IDF right by 1.2: the mixture is right
    # if 1.2 w > 2 (1 - w), first at 0.65. The measured links would choose DSE alone.
    assert systems.weights == {"3": 0.65}
    # There the measured links come to .35 * 2 - .65 * 1.2 < 0 and .35 * 2 - .65 * .5 > 0.
    assert losses == {"dse": 0.0, "tfidf": 100.0, "dse+tfidf": 50.0}


def test_a_pair_of_pages_is_in_one_part_of_a_split_both_ways_round():
    relevant = same_class(["a"] * 6 + ["b"] * 5)
    train, test = split_links(relevant, 0.4, seed=1)
    # 15 + 10 pairs, of which 40 % are 10.
    assert (train.nnz, test.nnz) == (20, 30)
    assert not train.multiply(test).nnz
    assert ((train + test) != relevant).nnz == 0
    assert (train != train.T).nnz == 0
    smaller, _ = split_links(relevant, 0.2, seed=1)
    assert smaller.multiply(train).nnz == smaller.nnz == 10


@pytest.mark.parametrize("tuples", [7, 30, 75])
def test_a_training_set_of_tuples_is_as_large_as_asked_and_stays_the_same(tuples):
    relevant = same_class(["a"] * 5 + ["b"] * 5)  # 40 links, up to 9 rivals a batch
    batches = FixedTuples(tuples, TupleBatches(relevant, relevant, batch_size=10, seed=3))
    blocks = -(-min(40, tuples) // 10)

    def seen(rounds) -> set[tuple[int, int, int]]:
        return {
            (int(batch.queries[i]), int(batch.titles[i]), int(batch.titles[j]))
            for batch in islice(batches, blocks * rounds)
            for i, j in zip(*np.nonzero(batch.counted), strict=True)
        }

    once = seen(1)
    assert seen(3) == once
    # A query whose rivals in the batch are few has fewer tuples; equal tuples count once.
    assert 0.5 * tuples <= len(once) <= tuples + blocks


def test_what_cannot_be_is_one_line(pages, tmp_path):
    out = ["--out", str(tmp_path / "new")]
    with pytest.raises(SystemExit, match="--per-class is 9; expected 10 to 180"):
        dse_cora.main(["--per-class", "9", *out])
    (tmp_path / "links.tsv").write_text("source\ttarget\np1\tp99\n")
    with pytest.raises(SystemExit, match="names the page 'p99', which has no text"):
        dse_wikispeedia.main([*pages, "--out", str(tmp_path / "unknown")])
