"""The runtime without TensorFlow gives the vectors and scores of the trained model."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.export.compact import export_compact
from dssm_tf.export.verify import ADVERSARIAL
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.runtime import RankedTitle, Ranker
from dssm_tf.runtime.word_vectors import WordVectors
from tests.clicks import Click, write_data
from tests.components import TOWER_CONFIGS, changed_values, small_sizes
from tests.runs import finished_run
from tests.runtime.conftest import LOG, RULES, WEIGHT

# Float32 sums of these small towers, added in another order, differ by some 1e-7.
SAME = 1e-5
TEXTS = [*ADVERSARIAL, "red fox", "RED fox!", "a b c d e f g h", "fox fox fox"]


def agree(compact: Ranker, trained: SemanticRanker, texts: list[str]) -> None:
    assert compact.encode_queries(texts) == approx(trained.encode_queries(texts), abs=SAME)
    for prior in (False, True):
        found = compact.encode_titles(texts, prior=prior)
        assert found == approx(trained.encode_titles(texts, prior=prior), abs=SAME)
    found = compact.score_matrix(texts, texts)
    assert found == approx(trained.score_matrix(texts, texts), abs=SAME)


# --------------------------------------------------------------------------- the same numbers


@pytest.mark.parametrize("sizes", [small_sizes, changed_values])
@pytest.mark.parametrize("name", TOWER_CONFIGS)
def test_every_tower_is_the_trained_one(make_run, tmp_path, name, sizes):
    """With the arguments of its defaults, in small, and with every argument another."""
    tower = {"name": name, **sizes(TOWER_CONFIGS[name])}
    run = make_run(tower, shared=sizes is small_sizes)
    agree(Ranker.load(export_compact(run, tmp_path)), SemanticRanker.load(run), TEXTS)


@settings(max_examples=60)
@given(texts=st.lists(st.text(max_size=25), min_size=1, max_size=8))
def test_any_text_has_the_trained_models_vectors(directory, trained, texts):
    agree(Ranker.load(directory), trained, texts)


@pytest.fixture
def both(tmp_path):
    """The trained model and the compact one of a log read by other rules."""

    def make(log=LOG, whole_words: bool = False, **rules) -> tuple[SemanticRanker, Ranker]:
        data = write_data(
            tmp_path / "data", log, validation=(), negatives=1, rules=replace(RULES, **rules)
        )
        config = {"tower": {"name": "dssm"}, "whole_words": whole_words}
        run = finished_run(tmp_path / "run", data, config, WEIGHT)
        return SemanticRanker.load(run), Ranker.load(export_compact(run, tmp_path / "compact"))

    return make


def test_kept_accents_are_the_trained_models(both):
    trained, found = both(keep_accents=True)
    titles = ["tíger \U0001f405 / 虎", "tiger \U0001f405 / 虎", "Réd Fox", "Red Fox", "RED fox"]
    agree(found, trained, ["tíger", "tiger", "fox", *titles])
    for system in (trained, found):
        scores = system.score_matrix(["tíger", "fox"], titles)
        assert (scores[:, 3] == scores[:, 4]).all()
        assert scores[0, 0] != scores[0, 1]
        assert scores[1, 2] != scores[1, 3]


def of_two_fields(second: str | None = None) -> list[Click]:
    """The log, its titles of two fields: the second is the query, or another text."""
    return [one._replace(title=f"{one.title}␟{second or one.query}") for one in LOG]


def test_fields_with_rows_of_their_own_are_the_trained_models(both):
    trained, found = both(of_two_fields(), own_fields=2)
    assert any(len(ngram) == 4 for ngram in trained.vocabulary.ngrams)
    titles = ["red␟fox", "red fox", "fox␟red", "Red ␟ FOX ␟", "Red Fox␟fox", "␟", "a␟b␟c"]
    agree(found, trained, titles)
    for system in (trained, found):
        scores = system.score_matrix(["fox"], titles)[0]
        assert scores[0] == scores[3]
        assert len({*scores[:3].tolist()}) == 3


def test_whole_words_are_the_trained_models(both):
    trained, found = both(of_two_fields("fox"), whole_words=True, own_fields=2)
    assert {"#fox#", "1#fox#"} <= {*trained.vocabulary.whole_words}
    agree(found, trained, ["red␟fox", "red foxes", "fox␟red", "Red Fox␟fox", "a␟b␟c"])


def test_texts_of_many_lengths_stand_in_the_order_they_came_in(ranker):
    """More than are encoded at once, of 0 to 6 words, the longest anywhere."""
    words = ["red", "green", "black", "fox", "owl", "bear"]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, rng.integers(0, 7))) for _ in range(500)]
    together = ranker.encode_titles(texts)
    alone = np.concatenate([ranker.encode_titles([text]) for text in texts])
    assert together == approx(alone, abs=SAME)


# --------------------------------------------------------------------------- ranking


def test_the_prior_is_the_weighted_log_share_of_clicks(ranker):
    # 9 clicks and one more for each of the 4 titles and for all unseen ones: 14.
    titles = ["red fox", "RED fox!", "pony", "green owl"]
    column = ranker.encode_titles(titles, prior=True)[:, -1]
    assert column == approx(WEIGHT * np.log(np.array([6, 6, 1, 3]) / 14), abs=1e-6)
    # What is equal to the model ties, in the order given.
    first, second = (one for one in ranker.rank("a fox", titles) if one.position < 2)
    assert first == RankedTitle("red fox", second.score, 0)


# --------------------------------------------------------------------------- the table of words


def small(ranker: Ranker, size: int) -> WordVectors:
    """The table of the ranker's titles, empty, with room for so many words."""
    table = ranker._sides["title"]._words
    return WordVectors(table._vocabulary, table._kernel, table._constant, size)


def test_a_full_table_is_emptied(ranker):
    table = small(ranker, 8)
    first = table(["red", "green", "blue"])
    table(["one", "two", "three", "four", "red"])
    assert len(table._row_of) == 7
    table(["five", "six"])  # nine words: there is no room
    assert list(table._row_of) == ["five", "six"]
    # What was forgotten is computed again, to the same numbers, in a row that was another's.
    assert np.array_equal(table(["red", "green", "blue"]), first)


@settings(max_examples=30)
@given(st.lists(st.lists(st.sampled_from("abcdefghijklmnop"), min_size=1, max_size=6), max_size=40))
def test_however_full_the_table_is_the_vectors_are_the_same(directory, texts):
    ranker = Ranker.load(directory)
    little, enough = small(ranker, 6), ranker._sides["title"]._words
    for words in texts:
        assert np.array_equal(little(words), enough(words))
    assert len(little._row_of) <= 6


def test_threads_may_share_a_ranker(directory):
    shared, own = Ranker.load(directory), Ranker.load(directory)
    shared._sides["title"]._words = small(shared, 80)
    words = [f"word{i}" for i in range(100)]
    rng = np.random.default_rng(0)
    texts = [[" ".join(rng.choice(words, 4)) for _ in range(20)] for _ in range(60)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(shared.encode_titles, texts))
    for one, vectors in zip(texts, found, strict=True):
        assert vectors == approx(own.encode_titles(one), abs=1e-6)


# --------------------------------------------------------------------------- what it needs

ALONE = """
import json, sys
before = set(sys.modules)
from dssm_tf.runtime import Ranker
ranker = Ranker.load(sys.argv[1])
scores = ranker.score("fox", ["red fox", "green owl"])
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps([sorted(loaded - set(sys.stdlib_module_names)), scores.tolist()]))
"""


def test_a_process_with_the_runtime_loads_numpy_and_nothing_else(directory, trained):
    done = subprocess.run(
        [sys.executable, "-c", ALONE, directory], capture_output=True, text=True, check=True
    )
    loaded, scores = json.loads(done.stdout)
    assert loaded == ["dssm_tf", "numpy"]
    assert scores == approx(trained.score("fox", ["red fox", "green owl"]), abs=SAME)
