"""The contract that every baseline fulfills."""

import dataclasses
import functools
import inspect
import re
import sys

import numpy as np
import pytest

from dssm_tf.analysis.contributions import sampled_shapley
from dssm_tf.analysis.explanation import explain
from dssm_tf.common import progress
from dssm_tf.common.checksums import write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.systems import BASELINES
from tests.baselines.cases import CLICKS, OTHERS, QUERIES, TITLES
from tests.progress import write_last_line

# The papers' settings of doc2vec leave out common words: here every word is common.
SETTINGS = {"doc2vec": {"sample": 0.0, "epochs": 100}}
NAMES = sorted(BASELINES)
ALL = [*TITLES, *OTHERS]


def new(name, **values):
    return BASELINES[name](**SETTINGS.get(name, {}), **values)


@functools.cache
def fitted_once(name):
    """A fitted baseline, shared by the tests that do not change it; fitting may take seconds."""
    return new(name).fit(CLICKS, TITLES)


@pytest.fixture(params=NAMES)
def fitted(request):
    return fitted_once(request.param)


def tuned(fitted):
    """A copy with other parameters: the last value of each search space that differs."""
    values = {
        name: [value for value in space if value != getattr(fitted, name)][-1]
        for name, space in fitted.search_space.items()
    }
    return values, fitted.with_parameters(**values)


def test_scores_are_finite_and_do_not_depend_on_the_other_queries(fitted):
    assert isinstance(fitted, Ranker)
    assert BASELINES[fitted.name] is type(fitted)
    scores = fitted.score_matrix(QUERIES, ALL)
    assert scores.shape == (len(QUERIES), len(ALL))
    assert np.isfinite(scores).all()
    for query, row in zip(QUERIES, scores, strict=True):
        assert (fitted.score(query, ALL) == row).all()
    assert fitted.score_matrix([], TITLES).shape == (0, len(TITLES))
    assert fitted.score_matrix(QUERIES, []).shape == (len(QUERIES), 0)


def test_contributions_sum_to_the_score_and_sampled_contributions_are_close(fitted):
    query, title = "mario wii halo 3", "Mario Kart Wii"
    explanation = explain(fitted, query, title)
    for side in (explanation.query, explanation.title):
        assert side.base_value + side.contributions.sum() == pytest.approx(
            explanation.score - explanation.base_score, abs=1e-6
        )
    assert explanation.score == pytest.approx(fitted.score(query, [title])[0], abs=1e-6)
    sampled, errors = sampled_shapley(
        lambda texts: np.subtract(*fitted.score_matrix(texts, (title, "")).T), query.split()
    )
    assert (np.abs(sampled - explanation.query.contributions) <= 5 * errors + 1e-6).all()


def test_scores_do_not_depend_on_order_or_on_other_texts_and_equal_titles_tie(fitted):
    scores = fitted.score_matrix(QUERIES, ALL)
    random = np.random.default_rng(0)
    rows, columns = random.permutation(len(QUERIES)), random.permutation([0, *range(len(ALL))])
    shuffled = fitted.score_matrix([QUERIES[r] for r in rows], [ALL[c] for c in columns])
    assert (shuffled == scores[rows][:, columns]).all()
    assert (scores[:, ALL.index("Halo: Reach")] == scores[:, ALL.index("halo: REACH")]).all()
    scores = fitted.score("mario halo wii", TITLES)
    assert (fitted.score("mario halo wii", TITLES[3:5]) == scores[3:5]).all()
    assert (fitted.score("mario halo wii", [OTHERS[0], TITLES[0]])[1:] == scores[:1]).all()


def test_an_unknown_word_of_a_query_is_ignored(fitted):
    for model in (fitted, tuned(fitted)[1]):
        assert (model.score_matrix(["", " ", "?!", "zzyzx", "zzyzx zzyzx"], TITLES) == 0).all()
        without, with_unknown = model.score_matrix(["halo", "halo zzyzx"], ALL)
        # Skip-thought reads unknown words, and doc2vec seeds its inference with the full text.
        assert (without == with_unknown).all() == (fitted.name not in ("doc2vec", "skip_thought"))


def test_a_query_with_the_words_of_a_title_ranks_it_first(fitted):
    for query, title in (("halo reach", "Halo: Reach"), ("wii fit", "Wii Fit Plus")):
        assert TITLES[int(np.argmax(fitted.score(query, TITLES)))] == title


def test_accents_do_not_matter(fitted):
    accented = [title.replace("a", "å").replace("o", "ø") for title in TITLES]
    queries = ["hälo réach", "wıı fiť", "sûpèr mariø"]
    plain = ["halo reach", "wii fit", "super mario"]
    assert (fitted.score_matrix(queries, accented) == fitted.score_matrix(plain, TITLES)).all()


def test_tuned_parameters_change_on_a_copy_of_the_fitted_model(fitted):
    before = fitted.score_matrix(QUERIES, ALL)
    for parameter, values in fitted.search_space.items():
        for value in values:
            changed = fitted.with_parameters(**{parameter: value})
            assert getattr(changed, parameter) == value
            scores = changed.score_matrix(QUERIES, ALL)
            assert np.isfinite(scores).all()
            assert (scores[QUERIES.index("")] == 0).all()
    assert (fitted.score_matrix(QUERIES, ALL) == before).all()
    with pytest.raises(ValueError, match="cannot change 'color' without a new fit"):
        fitted.with_parameters(color="red")


@pytest.mark.long
def test_tuned_refitted_and_loaded_models_have_the_same_scores(fitted, tmp_path):
    values, model = tuned(fitted)
    scores = model.score_matrix(QUERIES, ALL)
    again = new(model.name, **values).fit(iter(CLICKS), iter(TITLES))
    # More topics of a decomposition are the same ones up to rounding.
    assert again.score_matrix(QUERIES, ALL) == pytest.approx(scores, abs=1e-12)
    model.save(tmp_path)
    loaded = type(model).load(tmp_path)
    assert (loaded.score_matrix(QUERIES, ALL) == scores).all()
    assert loaded.parameters() == model.parameters()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{model.name}.{end}" for end in ("npz", "sha256")
    ]


def test_a_missing_or_truncated_file_is_a_one_line_error(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    path = tmp_path / "model" / f"{fitted.name}.npz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for folder in (path.parent, tmp_path / "none"):
        with pytest.raises(UserError) as error:
            fitted.load(folder)
        assert str(folder) in str(error.value)
        assert "\n" not in str(error.value)


def test_arrays_of_another_shape_or_with_nan_are_one_line_errors(fitted, tmp_path):
    fitted.save(tmp_path)
    path = tmp_path / f"{fitted.name}.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    for name, array in arrays.items():
        if name == "json":
            continue
        changed = [array[:-1], np.concatenate([array, array[-1:]]), array[..., None]]
        if array.dtype.kind == "f":
            changed.append(np.full_like(array, np.nan))
        for other in changed:
            np.savez(path, **{**arrays, name: other})
            write_checksums(tmp_path, [path.name], f"{fitted.name}.sha256")
            try:
                fitted.load(tmp_path)
            except UserError as error:
                message = str(error)
            else:
                pytest.fail(f"{name} {array.shape} was read as {other.shape}")
            assert f"is not a saved {fitted.name} model" in message
            assert "\n" not in message


def test_values_out_of_bounds_or_of_another_type_are_rejected(fitted):
    kind = type(fitted)
    bounds = {"minimum": -1, "exclusiveMinimum": 0, "maximum": 1, "exclusiveMaximum": 0}
    for parameter, schema in kind.model_json_schema()["properties"].items():
        wrong = [schema[bound] + step for bound, step in bounds.items() if bound in schema]
        wrong += [True if schema.get("type") != "boolean" else 2, float("nan")]
        wrong += [] if "{'type': 'string'}" in str(schema) else ["red"]
        for value in wrong:
            with pytest.raises(
                ValueError, match=f"^{re.escape(kind.name)}: {parameter} is {value!r}; "
            ) as error:
                kind(**{parameter: value})
            assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="has no parameter 'color'"):
        kind(color="red")


@pytest.mark.parametrize("kind", BASELINES.values(), ids=BASELINES)
def test_every_parameter_is_in_the_signature_with_its_default_and_has_a_description(kind):
    parameters = inspect.signature(kind).parameters
    assert list(parameters) == list(kind.model_fields)
    for name, field in kind.model_fields.items():
        assert parameters[name].default == field.default == getattr(kind(), name)
        assert field.description, name
        assert field.description.endswith(".")


@pytest.mark.parametrize("kind", BASELINES.values(), ids=BASELINES)
def test_search_spaces_name_parameters_and_contain_their_defaults(kind):
    spaces = {**kind.search_space, **kind.refit_search_space}
    assert len(spaces) == len(kind.search_space) + len(kind.refit_search_space)
    assert {*kind.cache_key_params} <= {*kind.search_space}
    for name, values in spaces.items():
        default = kind.model_fields[name].default
        for value in values:
            assert getattr(kind(**{name: value}), name) == value
        if isinstance(default, float):  # the default may be between two values
            assert min(values) <= default <= max(values)
        elif default is not None:  # None: `fit` chooses the value
            assert default in values


def test_fit_learns_an_instance_of_the_declared_dataclass(fitted):
    assert dataclasses.is_dataclass(fitted.learned_type)
    assert type(fitted.learned) is fitted.learned_type


SEEDED = {name for name in NAMES if "seed" in BASELINES[name].model_fields}


# Without `skip_thought` and those that are fitted like `dse`: Keras takes seconds.
@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SEEDED - {"skip_thought", "dse+tfidf", "ssi", "psi"}))
def test_another_seed_gives_other_scores(name):
    scores = fitted_once(name).score_matrix(QUERIES, ALL)
    other = new(name, seed=1).fit(CLICKS, TITLES).score_matrix(QUERIES, ALL)
    assert (other == scores).all() == (name == "lsa")  # small matrices are decomposed exactly


def test_fitting_without_any_word_is_an_error(fitted):
    with pytest.raises(UserError, match="learn"):
        new(fitted.name).fit([("", "?!", 1.0)], ["", "--"])


@pytest.mark.parametrize("name", ["wtm", "ptm", "lda", "plsa", "bltm", "doc2vec"])
def test_progress_goes_to_the_error_stream(name, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_write_lines", write_last_line)
    model = new(name)
    model.fit(CLICKS, TITLES)
    assert capsys.readouterr() == ("", "")
    model.fit(CLICKS, TITLES, progress=True)
    output = capsys.readouterr()
    assert output.out == ""
    assert name in output.err


@pytest.mark.parametrize(("name", "library"), [("lda", "tomotopy"), ("doc2vec", "gensim.models")])
def test_the_error_for_a_missing_library_has_the_install_command(name, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UserError, match=r"-m pip install .*\[baselines\]'"):
        new(name).fit(CLICKS, TITLES)
