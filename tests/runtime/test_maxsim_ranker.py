"""A maxsim model as a ranker of raw strings, from memory and from the files of a compact model."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from pytest import approx

import dssm_tf
from dssm_tf.benchmark.external import cosine_scorer, load_teacher
from dssm_tf.cli import main
from dssm_tf.common.checksums import files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.export.load import load_vector_ranker
from dssm_tf.export.verify import ADVERSARIAL
from dssm_tf.runtime import CompactRanker, MaxSimRanker, RankedTitle, load
from dssm_tf.runtime.hashed_priors import HashedPriors
from dssm_tf.server.limits import Limits, Refusal
from dssm_tf.server.models import open_models
from dssm_tf.server.predict import compute
from tests.runtime.maxsim_models import (
    SETTINGS,
    TITLES,
    oracle,
    random_model,
    write_compact_model,
)

CLICKS = {"red shoe red box": -0.5, "shoe box": -1.5}
QUERIES = ["red shoe", "Shoe BOX!", "", "blue lid", "xq"]
TEXTS = [*TITLES, "RED shoe red: box", *ADVERSARIAL]
NO_VECTORS = "is a maxsim model, which has no vector per text"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A compact model. Tests must not change it."""
    folder = tmp_path_factory.mktemp("maxsim") / "shop" / "1"
    return write_compact_model(random_model(), folder, CLICKS)


@pytest.fixture
def ranker(directory) -> MaxSimRanker:
    ranker = load(directory)
    assert isinstance(ranker, MaxSimRanker)
    return ranker


# --------------------------------------------------------------------------- scores


def expected_scores(queries, titles):
    """The formula plus .25 times the log-prior; titles are compared by their keys."""
    model = random_model()
    words, key = model.vocabulary.words, model.vocabulary.rules.key
    formula = oracle(model, map(words, [*queries, *titles]))
    return [
        [
            formula.score(words(query), words(title)) + 0.25 * CLICKS.get(key(title), -7)
            for title in titles
        ]
        for query in queries
    ]


def test_scores_are_the_formula_plus_the_weighted_prior(ranker):
    expected = approx(np.array(expected_scores(QUERIES, TEXTS)), abs=1e-5)
    scores = ranker.score_matrix(QUERIES, TEXTS)
    assert scores.dtype == np.float32
    assert scores == expected
    assert np.stack([ranker.score(query, TEXTS) for query in QUERIES]) == expected
    assert ranker.similarity_matrix(QUERIES, TEXTS) + ranker.weighted_prior(TEXTS) == expected
    assert cosine_scorer(ranker)(QUERIES, TEXTS) + ranker.weighted_prior(TEXTS) == expected


def test_pairs_have_the_scores_of_the_matrix(ranker):
    matrix = ranker.score_matrix(QUERIES, TITLES[:5])
    assert ranker.score_pairs(QUERIES, TITLES[:5]) == approx(matrix.diagonal(), abs=1e-6)
    assert ranker.score_pairs(QUERIES[:1], TITLES[:5]) == approx(matrix[0], abs=1e-6)
    repeated = ranker.score_pairs([QUERIES[1]] * 5, TITLES[:5])
    assert repeated == approx(matrix[1], abs=1e-6)
    assert ranker.score_pairs([], []).shape == (0,)
    with pytest.raises(ValueError, match="broadcast"):
        ranker.score_pairs(QUERIES[:2], TITLES[:5])


def test_equal_titles_tie_in_the_order_of_the_input(ranker):
    titles = ["red shoe", "blue box", "RED shoe!", "red  shoe"]
    ranking = ranker.rank("red box", titles)
    scores = ranker.score("red box", titles)
    assert scores[0] == scores[2] == scores[3]
    assert [hit.position for hit in ranking if hit.position != 1] == [0, 2, 3]
    assert ranking[0] == RankedTitle(titles[ranking[0].position], float(scores.max()), 0)


def test_lists_may_be_arrays_and_generators_and_be_empty(ranker):
    expected = approx(ranker.score("red fox", TITLES))
    assert ranker.score("red fox", np.array(TITLES)) == expected
    assert ranker.score("red fox", (title for title in TITLES)) == expected
    assert ranker.rank("red fox", []) == []
    assert ranker.score_matrix([], TITLES).shape == (0, len(TITLES))
    assert ranker.score_matrix(["red"], []).shape == (1, 0)
    for method, arguments in (
        ("score", ("a", "b")),
        ("score", ("a", ("b", None))),
        ("score_pairs", (["a"], [1])),
    ):
        with pytest.raises(TypeError, match=r"titles"):
            getattr(ranker, method)(*arguments)


def test_the_index_of_a_list_of_titles_is_built_once(ranker, monkeypatch):
    built = []
    words = ranker.vocabulary.words
    monkeypatch.setattr(ranker.vocabulary, "words", lambda text: built.append(text) or words(text))
    titles = tuple(TITLES)
    ranker.score("red", titles)
    assert built.count("blue box with a lid") == 1
    ranker.score_matrix(["shoe", "box"], titles)
    ranker.similarity_matrix(["shoe", "box"], titles)
    assert built.count("blue box with a lid") == 1


def test_a_prior_of_weight_zero_is_zero_without_a_sign():
    files = SimpleNamespace(
        prior={"titles": np.array([7]), "log_priors": np.array([-1.5], np.float32)},
        settings={"unseen": -3.0, "prior_weight": 0.0},
    )
    priors = HashedPriors(files)(["red shoe"])
    assert priors == 0
    assert not np.signbit(priors)


def test_word_matches_add_up_to_the_score_without_the_prior(ranker):
    matches = ranker.word_matches("red shoe", "Red shoe, red box")
    assert matches.score == approx(
        float(ranker.similarity_matrix(["red shoe"], ["Red shoe, red box"])[0, 0]), abs=1e-5
    )
    assert [match.word for match in matches.title] == ["red", "shoe", "box"]


# --------------------------------------------------------------------------- files


def test_a_compact_model_has_its_settings_and_the_same_scores_in_each_form(directory, tmp_path):
    model = random_model()
    for kernel, tolerance in (("float32", 0), ("float16", 0.02), ("int8", 0.1)):
        path = write_compact_model(model, tmp_path / kernel, CLICKS, kernel)
        loaded = load(path)
        scores = loaded.score_matrix(QUERIES, TEXTS)
        assert scores == approx(load(directory).score_matrix(QUERIES, TEXTS), abs=tolerance)
        assert {name: getattr(loaded, name) for name in SETTINGS} == SETTINGS


def test_any_level_of_the_directory_is_loaded(directory):
    for path in (directory, directory.parent):
        assert load(path).score("red", ["red"]) == load(str(directory)).score("red", ["red"])
    assert dssm_tf.load(directory).score("red", ["red"]).shape == (1,)


PROGRAM = """
import json, sys
before = set(sys.modules)
from dssm_tf.runtime import load
scores = load(sys.argv[1]).score("red shoe", ["red box", "blue lid"])
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps([sorted(loaded - set(sys.stdlib_module_names)), scores.tolist()]))
"""


def test_the_runtime_imports_numpy_only(directory, ranker):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, directory], capture_output=True, text=True, check=True
    )
    loaded, scores = json.loads(done.stdout)
    assert loaded == ["dssm_tf", "numpy"]
    assert scores == approx(ranker.score("red shoe", ["red box", "blue lid"]))


def changed_settings(directory, **changes):
    """Writes compact.json with other values; None removes a value."""
    path = directory / "compact.json"
    settings = json.loads(path.read_text("utf-8")) | changes
    kept = {name: value for name, value in settings.items() if value is not None}
    path.write_text(json.dumps(kept), "utf-8")


def changed_arrays(directory, file, **changes):
    """Writes an archive with other arrays; None removes an array."""
    with np.load(directory / file) as arrays:
        content = {**arrays} | changes
    np.savez(directory / file, **{name: a for name, a in content.items() if a is not None})


ROWS = 1 + random_model().vocabulary.size
NAN = np.array([1, np.nan], np.float32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": None}, "name is None; expected text"),
        ({"prior_weight": float("nan")}, "prior_weight is nan; expected a number"),
        ({"cutoff": None}, "cutoff is None; expected a number"),
        ({"unseen": "x"}, "unseen is 'x'; expected a number"),
        ({"mean_prior": 10**400}, "mean_prior is 10+.*; expected a number from -1e.12 to 1e.12"),
        ({"prior_weight": 1e308}, r"prior_weight is 1e\+308; expected a number from 0 to 1e\+06"),
        ({"rules": None}, "rules is None; expected an object"),
        ({"rules": {"keep_accents": 1}}, "rules: keep_accents is 1; expected true or false"),
        ({"rules": {"keep": 1}}, "rules: .*unexpected keyword argument 'keep'"),
        ({"score": "maxsim"}, "score is 'maxsim'; expected an object with the name"),
        ({"score": {"name": "dot"}}, "expected an object with the name cosine or maxsim"),
        ({"score": {"name": "maxsim"}}, "threshold is None; expected a number from 0 to below 1"),
        ({"score": {"name": "maxsim", "threshold": 1}}, "threshold is 1; expected"),
        (
            {"score": {"name": "maxsim", "threshold": 0.2, "text_cosine": -1}},
            "score.text_cosine is -1; expected a number from 0",
        ),
        ({"score": {"name": "cosine"}}, "tower is None; expected one of dssm"),
        (
            {
                "score": {"name": "cosine"},
                "tower": {"name": "dssm"},
                "tower_names": ["title_tower"],
            },
            r"tower_names is \['title_tower'\]; expected query_tower, or",
        ),
        (
            {
                "score": {"name": "cosine"},
                "tower": {"name": "dssm"},
                "tower_names": ["query_tower"],
            },
            "tower.widths is None; expected whole numbers",
        ),
    ],
)
def test_impossible_settings_are_one_line_errors(tmp_path, changes, message):
    directory = write_compact_model(random_model(), tmp_path / "model", CLICKS)
    changed_settings(directory, **changes)
    write_checksums(directory, files_in(directory))
    with pytest.raises(UserError, match=message) as error:
        load(directory)
    assert str(directory) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        (
            "weights.npz",
            {"kernel": None},
            "importance, pair_bias, side_weights, text_.*; expected importance, kernel",
        ),
        ("weights.npz", {"text_kernel": None}, "it has the arrays .*; expected .*text_kernel"),
        (
            "weights.npz",
            {"text_kernel": np.zeros((ROWS, 3), "i1")},
            "text_kernel is int8; expected int8 with the array text_scale",
        ),
        (
            "weights.npz",
            {"text_importance": np.zeros((ROWS, 3), "f4")},
            rf"text_importance is .*; expected \({ROWS}, 2\)",
        ),
        ("weights.npz", {"more": NAN}, "it has the arrays .*more"),
        ("weights.npz", {"kernel": np.zeros((5, 3), "f4")}, r"kernel is float32 \(5, 3\); expe"),
        ("weights.npz", {"kernel": np.zeros(ROWS, "f4")}, rf"expected \({ROWS}, 1\)"),
        ("weights.npz", {"kernel": np.zeros((ROWS, 3), "i1")}, "kernel is int8; expected int8 wi"),
        ("weights.npz", {"scale": np.ones((ROWS, 1), "f4")}, "kernel is float32; expected int8"),
        ("weights.npz", {"importance": np.zeros((ROWS, 3))}, "importance is float64"),
        ("weights.npz", {"pair_bias": NAN}, "pair_bias has a number that is not finite"),
        (
            "weights.npz",
            {"side_weights": NAN[:1]},
            r"side_weights is float32 \(1,\); expected \(2,\)",
        ),
        ("prior.npz", {"titles": None}, "it has the arrays log_priors; expected log_priors, tit"),
        ("prior.npz", {"titles": np.array([2, 1])}, "titles is not sorted"),
        ("prior.npz", {"titles": np.array([1.0, 2])}, r"titles is float64 \(2,\) and log_priors"),
        ("weights.npz", {"pair_bias": np.full(2, 1e300)}, r"pair_bias has a number that is larger"),
        ("weights.npz", {"pair_bias": np.ones(2, bool)}, "pair_bias is bool; expected floats"),
        ("prior.npz", {"log_priors": np.full(2, -1e30)}, "log_priors has a number that is larger"),
        ("prior.npz", {"log_priors": NAN}, "log_priors has a number that is not finite"),
        ("prior.npz", {"log_priors": NAN[:1]}, r"log_priors float32 \(1,\); expected one"),
    ],
)
def test_impossible_arrays_are_one_line_errors(tmp_path, file, changes, message):
    directory = write_compact_model(random_model(), tmp_path / "model", CLICKS)
    changed_arrays(directory, file, **changes)
    write_checksums(directory, files_in(directory))
    with pytest.raises(UserError, match=message) as error:
        load(directory)
    assert str(directory / file) in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_changed_and_impossible_document_frequencies_are_errors(tmp_path):
    directory = write_compact_model(random_model(), tmp_path / "model", CLICKS)
    path = directory / "document_frequencies.json"
    content = path.read_text("utf-8")
    path.write_text(content.replace('"red"', '"rot"'), "utf-8")
    with pytest.raises(UserError, match="is damaged or was changed"):
        load(directory)
    path.write_text(content.replace('"titles": 10', '"titles": 0'), "utf-8")
    write_checksums(directory, files_in(directory))
    with pytest.raises(UserError, match="titles is 0; expected a number of titles"):
        load(directory)
    path.unlink()
    with pytest.raises(UserError, match=r"document_frequencies\.json does not exist"):
        load(directory)


# --------------------------------------------------------------------------- other code


def test_code_that_needs_vectors_says_that_a_maxsim_model_has_none(directory, tmp_path, capsys):
    for function in (CompactRanker.load, load_vector_ranker, lambda path: load_teacher(str(path))):
        with pytest.raises(UserError, match=NO_VECTORS) as error:
            function(directory)
        assert str(error.value).startswith(str(directory))
    corpus, out = tmp_path / "corpus.tsv", tmp_path / "out.parquet"
    corpus.write_text("doc_id\ttitle\n1\tred shoe\n", "utf-8")
    files = ["--model", str(directory)]
    assert main(["embed", *files, "--input", str(corpus), "--out", str(out)]) == 1
    assert f"{directory} {NO_VECTORS}" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_a_server_answers_scores_and_refuses_vectors(directory):
    (model,) = open_models(directory)
    assert (model.name, model.version) == ("shop", 1)
    texts = {"queries": [b"red shoe"], "titles": [title.encode() for title in TITLES]}
    with pytest.raises(StopIteration) as end:  # computed in one block
        next(compute(model, "score", texts, Limits()))
    assert end.value.value == approx(model.ranker.score("red shoe", TITLES))
    with pytest.raises(Refusal, match=f"shop {NO_VECTORS}; use the signature score"):
        next(compute(model, "encode_query", {"queries": [b"red shoe"]}, Limits()))


def test_a_pair_is_explained_by_its_exact_parts(ranker):
    explanation = dssm_tf.explain(ranker, "red shoe", "red running shoe")
    assert explanation.matches == ranker.word_matches("red shoe", "red running shoe")
    assert explanation.score == approx(explanation.matches.score - 0.25 * 7)
