"""A new model gives four methods; what the base class makes of them."""

import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest

from dssm_tf.baselines.base import Baseline
from dssm_tf.common.errors import UserError


class Lengths(Baseline):
    """Scores a title by its letters beside a length that it learned."""

    name = "lengths"
    free: ClassVar = {"factor": (1.0, 2.0)}

    def __init__(self, factor=1.0, *, power=1, progress=False):
        if not 0 < factor < 10**power:
            raise ValueError(f"factor is {factor}; expected a number above 0, below 10^{power}.")
        self.factor = float(factor)
        self.power = power
        self.progress = progress

    def fit(self, clicks, titles):
        self.best = np.array([max(map(len, titles))])
        return self

    def score_matrix(self, queries, titles):
        row = [self.factor * len(title) ** self.power / self.best[0] for title in titles]
        return np.array([row] * len(queries))

    def _learned(self):
        return {}, {"best": self.best}

    def _restore(self, settings, arrays):
        self.best = arrays["best"]


class Named(Lengths):
    """Hands on what it does not know."""

    name = "named"

    def __init__(self, colour="red", **options):
        super().__init__(**options)
        self.colour = colour


class Squared(Lengths):
    """Takes nothing, and hands on something else."""

    name = "squared"

    def __init__(self):
        super().__init__(power=2)


def test_one_row_of_the_matrix_is_a_score():
    assert Lengths().fit([], ["abcd"]).score("q", ["ab", "a"]).tolist() == [0.5, 0.25]


def test_arguments_come_back_as_they_were_those_handed_on_too(tmp_path):
    Named("blue", factor=3, power=2, progress=True).fit([], ["abcd"]).save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["named.npz", "named.sha256"]
    loaded = Named.load(tmp_path)
    assert (loaded.colour, loaded.factor, loaded.power, loaded.progress) == ("blue", 3.0, 2, False)
    assert loaded.score("q", ["ab"]) == [3.0 * 2**2 / 4]
    Squared().fit([], ["abcd"]).save(tmp_path)
    assert Squared.load(tmp_path).power == 2


def test_free_parameters_are_taken_as_the_constructor_takes_them():
    model = Lengths(power=2).fit([], ["abcd"])
    tuned = model.with_parameters(factor=20)  # which goes with the model's power alone
    assert (tuned.factor, tuned.power, tuned.best) == (20.0, 2, [4])
    assert isinstance(tuned.factor, float)
    assert model.factor == 1.0
    with pytest.raises(ValueError, match="factor is -1"):
        model.with_parameters(factor=-1)


def test_a_parameter_that_a_file_lacks_has_its_default_and_one_too_many_is_refused(tmp_path):
    model = Named(power=3).fit([], ["abcd"])
    for parameters in ({"colour": "blue"}, {"height": 2}):
        model._parameters = lambda given=parameters: given
        model.save(tmp_path)
        if "colour" in parameters:
            assert Named.load(tmp_path).power == 1
        else:
            with pytest.raises(UserError, match=r"named\.npz holds no saved named model: .*height"):
                Named.load(tmp_path)


def test_a_baseline_is_imported_when_it_is_first_named():
    code = """
import sys
from dssm_tf.systems import BASELINES
assert BASELINES["ulm"].name == "ulm"
assert not {"bm25s", "dssm_tf.baselines.lda", "dssm_tf.dse"} & set(sys.modules)
assert all(BASELINES[name].name == name for name in BASELINES)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
