"""What every baseline owes, whatever it computes."""

import functools

import numpy as np
import pytest

from dssm_tf.analysis.contributions import sampled_shapley
from dssm_tf.analysis.explanation import explain
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.systems import BASELINES
from tests.baselines.cases import CLICKS, OTHERS, QUERIES, TITLES

# The papers' settings of doc2vec leave out common words: here every word is common.
SETTINGS = {"doc2vec": {"sample": 0.0, "epochs": 100}}

pytestmark = pytest.mark.parametrize("name", sorted(BASELINES))


def new(name):
    return BASELINES[name](**SETTINGS.get(name, {}))


@functools.cache
def fitted_once(name):
    """Fitted for all tests, which only ask it: some take seconds."""
    return new(name).fit(CLICKS, TITLES)


@pytest.fixture
def fitted(name):
    return fitted_once(name)


def test_it_is_a_ranker_under_its_own_name(name, fitted):
    assert isinstance(fitted, Ranker)
    assert fitted.name == name


def test_scores_are_finite_and_one_a_title(fitted):
    scores = fitted.score_matrix(QUERIES, [*TITLES, *OTHERS])
    assert scores.shape == (len(QUERIES), len(TITLES) + len(OTHERS))
    assert np.isfinite(scores).all()


def test_a_matrix_holds_the_scores_of_its_queries(fitted):
    scores = fitted.score_matrix(QUERIES, [*TITLES, *OTHERS])
    for query, row in zip(QUERIES, scores, strict=True):
        assert (fitted.score(query, [*TITLES, *OTHERS]) == row).all()


def test_what_words_add_sums_to_the_score_and_sampled_values_are_near_exact_ones(fitted):
    query, title = "mario wii halo 3", "Mario Kart Wii"
    found = explain(fitted, query, title)
    for side in (found.query, found.title):
        assert side.start + side.contributions.sum() == pytest.approx(found.score, abs=1e-6)
    assert found.score == pytest.approx(fitted.score(query, [title])[0], abs=1e-6)
    sampled, errors = sampled_shapley(
        lambda texts: fitted.score_matrix(texts, (title,))[:, 0], query.split()
    )
    assert (np.abs(sampled - found.query.contributions) <= 5 * errors + 1e-6).all()


def test_the_order_of_titles_and_queries_does_not_matter(fitted):
    titles = [*TITLES, *OTHERS]
    scores = fitted.score_matrix(QUERIES, titles)
    random = np.random.default_rng(0)
    rows, columns = random.permutation(len(QUERIES)), random.permutation(len(titles))
    shuffled = fitted.score_matrix([QUERIES[r] for r in rows], [titles[c] for c in columns])
    assert (shuffled == scores[rows][:, columns]).all()


def test_a_title_scores_the_same_in_any_list(fitted):
    whole = fitted.score("mario halo wii", TITLES)
    assert (fitted.score("mario halo wii", TITLES[3:5]) == whole[3:5]).all()
    assert (fitted.score("mario halo wii", [OTHERS[0], TITLES[0]])[1:] == whole[:1]).all()


def test_equal_titles_tie(fitted):
    scores = fitted.score_matrix(QUERIES, ["Halo: Reach", "x", "Halo: Reach", "halo REACH"])
    assert (scores[:, 0] == scores[:, 2]).all()
    assert (scores[:, 0] == scores[:, 3]).all()


def test_a_query_without_a_word_scores_zero_everywhere(fitted):
    assert (fitted.score_matrix(["", " ", "?!"], TITLES) == 0).all()


def test_no_queries_and_no_titles_are_defined(fitted):
    assert fitted.score_matrix([], TITLES).shape == (0, len(TITLES))
    assert fitted.score_matrix(QUERIES, []).shape == (len(QUERIES), 0)
    assert fitted.score("halo", []).shape == (0,)


def test_it_finds_the_title_that_the_query_names(fitted):
    for query, title in (("halo reach", "Halo: Reach"), ("wii fit", "Wii Fit Plus")):
        assert TITLES[int(np.argmax(fitted.score(query, TITLES)))] == title


def test_accents_do_not_matter(fitted):
    accented = [title.replace("a", "å").replace("o", "ø") for title in TITLES]
    asked = ["hälo réach", "wıı fiť", "sûpèr mariø"]
    plain = ["halo reach", "wii fit", "super mario"]
    assert (fitted.score_matrix(asked, accented) == fitted.score_matrix(plain, TITLES)).all()


def test_saved_and_loaded_it_scores_the_same(name, fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = BASELINES[name].load(tmp_path / "model")
    titles = [*TITLES, *OTHERS]
    assert (loaded.score_matrix(QUERIES, titles) == fitted.score_matrix(QUERIES, titles)).all()


def test_arrays_cut_off_are_an_error_of_one_line(name, fitted, tmp_path):
    fitted.save(tmp_path)
    for file in tmp_path.glob("*.np[yz]"):
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(UserError) as error:
            BASELINES[name].load(tmp_path)
        assert str(tmp_path) in str(error.value)
        assert "\n" not in str(error.value)
        file.write_bytes(whole)


def test_fitted_twice_it_scores_the_same(name, fitted):
    again = new(name).fit(iter(CLICKS), iter(TITLES))
    assert (again.score_matrix(QUERIES, TITLES) == fitted.score_matrix(QUERIES, TITLES)).all()


def test_its_parameters_are_the_constructors_arguments(name):
    made, defaults = BASELINES[name](), BASELINES[name]._defaults()
    parameters = made._parameters()
    assert parameters.keys() == defaults.keys()
    for key, default in defaults.items():
        assert default is None or parameters[key] == default  # None: chosen in fit


def test_loading_from_an_empty_directory_says_so(name, tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        BASELINES[name].load(tmp_path)


def test_free_parameters_change_on_a_copy_of_the_fitted_model(fitted):
    titles = [*TITLES, *OTHERS]
    before = fitted.score_matrix(QUERIES, titles)
    for parameter, values in fitted.free.items():
        for value in values:
            tuned = fitted.with_parameters(**{parameter: value})
            assert getattr(tuned, parameter) == value
            scores = tuned.score_matrix(QUERIES, titles)
            assert np.isfinite(scores).all()
            assert (scores[QUERIES.index("")] == 0).all()
    assert (fitted.score_matrix(QUERIES, titles) == before).all()


def test_a_parameter_that_is_not_free_is_refused(fitted):
    with pytest.raises(ValueError, match="no free parameter 'colour'"):
        fitted.with_parameters(colour="red")


def test_a_tuned_model_is_saved_as_it_is(name, fitted, tmp_path):
    tuned = fitted.with_parameters(**{key: values[0] for key, values in fitted.free.items()})
    tuned.save(tmp_path / "model")
    loaded = BASELINES[name].load(tmp_path / "model")
    titles = [*TITLES, *OTHERS]
    assert (loaded.score_matrix(QUERIES, titles) == tuned.score_matrix(QUERIES, titles)).all()
