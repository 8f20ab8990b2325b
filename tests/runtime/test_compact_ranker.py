"""A compact model has the vectors and scores of the trained Keras model."""

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
from dssm_tf.export.saved_model import export_saved_model, load_export
from dssm_tf.export.verify import ADVERSARIAL
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.runtime import CompactRanker, RankedTitle
from dssm_tf.runtime.word_vectors import WordVectors
from dssm_tf.text.rules import NGRAM_KINDS
from tests.clicks import Click, write_data
from tests.components import TOWER_CONFIGS, changed_values, small_sizes
from tests.runs import finished_run
from tests.runtime.conftest import LOG, RULES, WEIGHT, assign_random_weights

# The order of float32 sums changes results of these small towers by about 1e-7.
TOLERANCE = 1e-5
TEXTS = [*ADVERSARIAL, "red fox", "RED fox!", "a b c d e f g h", "fox fox fox"]


def assert_equal(compact: CompactRanker, trained: SemanticRanker, texts: list[str]) -> None:
    assert compact.encode_queries(texts) == approx(trained.encode_queries(texts), abs=TOLERANCE)
    for prior in (False, True):
        vectors = compact.encode_titles(texts, prior=prior)
        assert vectors == approx(trained.encode_titles(texts, prior=prior), abs=TOLERANCE)
    scores = compact.score_matrix(texts, texts)
    assert scores == approx(trained.score_matrix(texts, texts), abs=TOLERANCE)


# --------------------------------------------------------------------------- the same numbers


@pytest.mark.long
@pytest.mark.parametrize(
    "sizes", [pytest.param(small_sizes, marks=pytest.mark.slow), changed_values]
)
@pytest.mark.parametrize("name", TOWER_CONFIGS)
def test_every_tower_equals_the_trained_model(make_run, tmp_path, name, sizes):
    """Once with small sizes and default options, once with every option changed."""
    tower = {"name": name, **sizes(TOWER_CONFIGS[name])}
    run = make_run(tower, shared=sizes is small_sizes)
    assert_equal(CompactRanker.load(export_compact(run, tmp_path)), SemanticRanker.load(run), TEXTS)


@pytest.mark.long
@pytest.mark.parametrize("name", ["dssm", "bilstm"])
def test_texts_without_a_known_ngram_have_the_similarity_0_in_every_form(tmp_path, name):
    data = write_data(tmp_path / "data", LOG, validation=(), rules=replace(RULES, hash_buckets=0))
    config = {"tower": {"name": name, **small_sizes(TOWER_CONFIGS[name])}}
    run = finished_run(tmp_path / "run", data, config, WEIGHT)
    assign_random_weights(run, 1)
    forms = [SemanticRanker.load(run), CompactRanker.load(export_compact(run, tmp_path / "c"))]
    if name == "dssm":
        forms.append(load_export(export_saved_model(run, tmp_path / "s")))
    unknown, known = ["zzz", "qqqq zzz vvvv jjjj"], ["Red Fox", "zzz owl qqqq"]
    for ranker in forms:
        similarities = ranker.similarity_matrix([*unknown, *known], [*known, *unknown])
        assert (similarities[:2] == 0).all()
        assert (similarities[:, 2:] == 0).all()
        assert (similarities[2:, :2] != 0).all()


@settings(max_examples=60)
@given(texts=st.lists(st.text(max_size=25), min_size=1, max_size=8))
def test_any_text_has_the_vectors_of_the_trained_model(directory, trained, texts):
    assert_equal(CompactRanker.load(directory), trained, texts)


@pytest.fixture
def both(tmp_path):
    """Returns a function that trains on a log with given text rules; it returns both models."""

    def make(log=LOG, whole_words: bool = False, **rules) -> tuple[SemanticRanker, CompactRanker]:
        data = write_data(
            tmp_path / "data", log, validation=(), negatives=1, rules=replace(RULES, **rules)
        )
        config = {
            "tower": {"name": "dssm"},
            "whole_words": whole_words,
            "letter_ngrams": [*rules.get("letter_ngrams", RULES.letter_ngrams)],
        }
        run = finished_run(tmp_path / "run", data, config, WEIGHT)
        return SemanticRanker.load(run), CompactRanker.load(
            export_compact(run, tmp_path / "compact")
        )

    return make


def test_models_that_keep_accents_are_equal(both):
    trained, compact = both(keep_accents=True)
    titles = ["tíger \U0001f405 / 虎", "tiger \U0001f405 / 虎", "Réd Fox", "Red Fox", "RED fox"]
    assert_equal(compact, trained, ["tíger", "tiger", "fox", *titles])
    for system in (trained, compact):
        scores = system.score_matrix(["tíger", "fox"], titles)
        assert (scores[:, 3] == scores[:, 4]).all()
        assert scores[0, 0] != scores[0, 1]
        assert scores[1, 2] != scores[1, 3]


def of_two_fields(second: str | None = None) -> list[Click]:
    """The log with a second field in each title: the query, or another text."""
    return [click._replace(title=f"{click.title}␟{second or click.query}") for click in LOG]


def test_models_with_own_trigrams_for_fields_are_equal(both):
    trained, compact = both(of_two_fields(), own_fields=2)
    assert "1␟fox" in trained.vocabulary.ngrams
    titles = ["red␟fox", "red fox", "fox␟red", "Red ␟ FOX ␟", "Red Fox␟fox", "␟", "a␟b␟c"]
    assert_equal(compact, trained, titles)
    for system in (trained, compact):
        scores = system.score_matrix(["fox"], titles)[0]
        assert scores[0] == scores[3]
        assert len({*scores[:3].tolist()}) == 3


@pytest.mark.slow
def test_models_with_whole_words_are_equal(both):
    trained, compact = both(of_two_fields("fox"), whole_words=True, own_fields=2)
    assert {"#fox#", "1␟#fox#"} <= {*trained.vocabulary.whole_words}
    assert_equal(compact, trained, ["red␟fox", "red foxes", "fox␟red", "Red Fox␟fox", "a␟b␟c"])


@pytest.mark.parametrize("fields", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_models_with_every_kind_of_letter_ngrams_are_equal(both, fields):
    log = LOG if fields == 1 else of_two_fields()
    trained, compact = both(log, True, own_fields=fields, letter_ngrams=NGRAM_KINDS)
    assert {"ox", "fox", "~fox", "#fox#"} <= {*compact.vocabulary.ngrams}
    assert_equal(compact, trained, [*TEXTS, "red␟fox", "fxo", "fox␟red", "Red Fox␟fox", "a␟b␟c"])


def test_vectors_have_the_order_of_the_texts(ranker):
    """More texts than are encoded at once, of 0 to 6 words, in random order."""
    words = ["red", "green", "black", "fox", "owl", "bear"]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, rng.integers(0, 7))) for _ in range(500)]
    together = ranker.encode_titles(texts)
    one_by_one = np.concatenate([ranker.encode_titles([text]) for text in texts])
    assert together == approx(one_by_one, abs=TOLERANCE)


# --------------------------------------------------------------------------- ranking


def test_the_prior_is_the_weighted_log_of_the_fraction_of_clicks(ranker):
    # 9 clicks, plus 1 for each of the 4 titles and 1 for all unknown titles: 14.
    titles = ["red fox", "RED fox!", "pony", "green owl"]
    column = ranker.encode_titles(titles, prior=True)[:, -1]
    assert column == approx(WEIGHT * np.log(np.array([6, 6, 1, 3]) / 14), abs=1e-6)
    # Titles with the same words have equal scores and keep their order.
    first, second = (hit for hit in ranker.rank("a fox", titles) if hit.position < 2)
    assert first == RankedTitle("red fox", second.score, 0)


# --------------------------------------------------------------------------- cached word vectors


def small(ranker: CompactRanker, size: int) -> WordVectors:
    """An empty table for the words of the ranker's titles, with `size` rows."""
    table = ranker._encoders["title"]._word_vectors
    return WordVectors(table._vocabulary, table._kernel, table._constant, size)


def test_a_full_table_is_emptied(ranker):
    table = small(ranker, 8)
    first = table(["red", "green", "blue"])
    table(["one", "two", "three", "four", "red"])
    assert len(table._row_of) == 7
    table(["five", "six"])  # nine words do not fit
    assert list(table._row_of) == ["five", "six"]
    # Words that were removed are computed again, with the same result, in other rows.
    assert np.array_equal(table(["red", "green", "blue"]), first)


@settings(max_examples=30)
@given(st.lists(st.lists(st.sampled_from("abcdefghijklmnop"), min_size=1, max_size=6), max_size=40))
def test_the_size_of_the_table_does_not_change_the_vectors(directory, texts):
    ranker = CompactRanker.load(directory)
    small_table, large_table = small(ranker, 6), ranker._encoders["title"]._word_vectors
    for words in texts:
        assert np.array_equal(small_table(words), large_table(words))
    assert len(small_table._row_of) <= 6


def test_several_threads_can_use_one_ranker(directory):
    shared, reference = CompactRanker.load(directory), CompactRanker.load(directory)
    shared._encoders["title"]._word_vectors = small(shared, 80)
    words = [f"word{i}" for i in range(100)]
    rng = np.random.default_rng(0)
    texts = [[" ".join(rng.choice(words, 4)) for _ in range(20)] for _ in range(60)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(shared.encode_titles, texts))
    for batch, vectors in zip(texts, results, strict=True):
        assert vectors == approx(reference.encode_titles(batch), abs=1e-6)


# --------------------------------------------------------------------------- dependencies

PROGRAM = """
import json, sys
before = set(sys.modules)
from dssm_tf.runtime import CompactRanker
ranker = CompactRanker.load(sys.argv[1])
scores = ranker.score("fox", ["red fox", "green owl"])
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps([sorted(loaded - set(sys.stdlib_module_names)), scores.tolist()]))
"""


def test_the_runtime_imports_numpy_only(directory, trained):
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, directory], capture_output=True, text=True, check=True
    )
    loaded, scores = json.loads(process.stdout)
    assert loaded == ["dssm_tf", "numpy"]
    assert scores == approx(trained.score("fox", ["red fox", "green owl"]), abs=TOLERANCE)
