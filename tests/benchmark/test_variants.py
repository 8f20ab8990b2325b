"""One fit for each value that needs one, none for the others."""

from __future__ import annotations

import pytest

from dssm_tf.benchmark.variants import Variants
from dssm_tf.systems import BASELINES

CLICKS = [
    ("halo game", "Halo: Reach", 3.0),
    ("portal", "Portal 2", 2.0),
    ("cod", "Call of Duty", 1),
]
TITLES = ["Halo: Reach", "Portal 2", "Call of Duty", "Halo Wars"]


def fit(variants):
    told, steps = [], []
    variants.fit(CLICKS, TITLES, told.append, steps.append)
    return told, steps


def test_there_is_one_fit_for_each_number_of_topics_and_every_combination_of_the_rest(tmp_path):
    variants = Variants(BASELINES["plsa"], {"seed": 1}, tmp_path)
    told, steps = fit(variants)
    assert told == ["fitting topics 50", "fitting topics 100", "fitting topics 200"]
    assert any(step.startswith("fitting topics 200, step ") for step in steps)
    free = BASELINES["plsa"].free
    assert len(variants.settings) == 3 * len(free["mu"]) * len(free["weight"])
    assert variants.free == 3
    for setting in variants.settings:
        ranker = variants.with_setting(setting)
        assert {name: getattr(ranker, name) for name in setting} == setting
        assert ranker.query_words.shape[1] == setting["topics"]
        assert variants.seconds(setting) > 0


def test_a_variant_scores_as_the_baseline_fitted_with_its_values(tmp_path):
    variants = Variants(BASELINES["plsa"], {"seed": 1}, tmp_path)
    fit(variants)
    for topics in (50, 200, 50):
        setting = {"topics": topics, "mu": 3.0, "weight": 0.4}
        alone = BASELINES["plsa"](seed=1, **setting).fit(CLICKS, TITLES)
        same = variants.with_setting(setting).score_matrix(["halo game"], TITLES)
        assert (same == alone.score_matrix(["halo game"], TITLES)).all()


@pytest.mark.parametrize("name", [name for name in BASELINES if BASELINES[name].fitted_free])
def test_no_setting_is_the_constructor_s_own(name, tmp_path):
    variants = Variants(BASELINES[name], {}, tmp_path)
    fit(variants)
    assert variants.with_setting({}).topics == BASELINES[name]().topics


def test_no_setting_is_the_first_fit_where_the_constructor_s_own_is_not_tried(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(BASELINES["plsa"], "fitted_free", {"topics": (2, 3)})
    variants = Variants(BASELINES["plsa"], {}, tmp_path)
    fit(variants)
    assert variants.with_setting({}).topics == 2


@pytest.mark.parametrize(("name", "given"), [("plsa", {"topics": 7}), ("bm25", {"k1": 0.7})])
def test_what_is_given_is_not_chosen(name, given, tmp_path):
    variants = Variants(BASELINES[name], given, tmp_path)
    told, _ = fit(variants)
    assert told == ["fitting"]
    ((key, value),) = given.items()
    assert all(key not in setting for setting in variants.settings)
    assert getattr(variants.with_setting(variants.settings[0]), key) == value
    assert not list(tmp_path.iterdir())  # one fit stays in memory
