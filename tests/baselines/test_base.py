"""A baseline declares what it is made of; what the base class makes of that."""

import json
from typing import Annotated

import numpy as np
import pytest
from scipy import sparse

from dssm_tf.baselines.base import AboveZero, Baseline, Count, Floats, Grid, Refit
from dssm_tf.baselines.terms import Terms
from dssm_tf.common.checksums import write_checksums
from dssm_tf.common.errors import UserError
from tests.script import python


class Lengths(Baseline):
    """Scores a title by its letters beside a length that it learned."""

    name = "lengths"
    prepared_with = ("power",)
    factor: Annotated[AboveZero, Grid((1.0, 2.0))] = 1.0
    power: Annotated[Count, Grid((1, 2))] = 1
    topics: Annotated[Count, Refit((5, 6))] = 5
    colour: str | None = None

    best: Floats
    mean: float
    terms: Terms
    table: sparse.csr_matrix
    titles: tuple[str, ...]

    def _learn(self, clicks, titles):
        self.best = np.array([max(map(len, titles))])
        self.mean = 2.5
        self.titles = tuple(titles)
        self.terms = Terms.of_corpus(titles, self.name)
        self.table = self.terms.count(titles)

    def _prepare(self, titles):
        self.prepared = titles
        return np.array([len(title) ** self.power for title in titles])

    def _score(self, queries, prepared):
        return np.array([self.factor * prepared / self.best[0]] * len(queries))


class Named(Lengths):
    """Has another default and a parameter of its own."""

    name = "named"
    factor = 3.0
    shape: str = "round"


def test_parameters_grids_and_what_is_learned_are_read_from_the_annotations():
    assert Named.arguments() == ["factor", "power", "topics", "colour", "shape"]
    assert Named(shape="flat").parameters() == {
        "factor": 3.0, "power": 1, "topics": 5, "colour": None, "shape": "flat",
    }  # fmt: skip
    assert (Named.free, Named.fitted_free) == (
        {"factor": (1, 2), "power": (1, 2)},
        {"topics": (5, 6)},
    )
    assert isinstance(Lengths(factor=2).factor, float)


def test_titles_are_prepared_again_only_for_parameters_that_matter():
    model = Lengths().fit([], ["abcd"])
    titles = ["ab", "a"]
    assert model.score("q", titles).tolist() == [0.5, 0.25]
    model.prepared = None
    other = model.with_parameters(factor=2.0)
    assert other.score("q", titles).tolist() == [1.0, 0.5]
    assert other.prepared is None
    assert model.with_parameters(power=2).score("q", titles).tolist() == [1.0, 0.25]
    assert model.score("q", titles).tolist() == [0.5, 0.25]
    for wrong, right in ((-1, "greater than 0"), (np.inf, "a finite number")):
        with pytest.raises(ValueError, match=rf"factor is {wrong}: input should be {right}\.$"):
            model.with_parameters(factor=wrong)


def settings(**values):
    return {"settings": np.frombuffer(json.dumps(values).encode(), np.uint8)}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(2)}, "holds no saved lengths model: 'settings'.* Fit and save it again"),
        (settings(parameters={"height": 2}), "holds no saved lengths model: height is 2"),
        (settings(parameters={}), "holds no saved lengths model: 'best'"),
    ],
)
def test_a_file_that_holds_something_else_says_what(tmp_path, arrays, message):
    np.savez(tmp_path / "lengths.npz", **arrays)
    write_checksums(tmp_path, ["lengths.npz"], "lengths.sha256")
    with pytest.raises(UserError, match=message):
        Lengths.load(tmp_path)


def test_a_baseline_is_imported_when_it_is_first_named():
    code = """
import sys
from dssm_tf.systems import BASELINES
assert BASELINES["ulm"].name == "ulm"
assert not {"gensim", "dssm_tf.baselines.lda", "dssm_tf.dse"} & set(sys.modules)
assert all(BASELINES[name].name == name for name in BASELINES)
"""
    assert python(code) == ""
