"""The base class of baselines: parameters, fitted state, tuning on a fitted model, files."""

import inspect
import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, ValidationError
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Floats, SearchSpace
from dssm_tf.baselines.bm25 import BM25
from dssm_tf.baselines.terms import Terms
from dssm_tf.common.checksums import write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.field_types import PositiveInt
from dssm_tf.evaluation.ranker import CACHED_TITLE_LISTS
from tests.script import python


@dataclass(frozen=True, eq=False)
class Corpus:
    """A field of `LengthStatistics` that is itself a dataclass."""

    titles: tuple[str, ...]
    counts: sparse.csr_matrix


@dataclass(frozen=True, eq=False)
class LengthStatistics:
    """The learned values of `Lengths`: one field of each type that can be saved."""

    longest: int
    mean: float
    lengths: Floats
    terms: Terms
    corpus: Corpus
    matrices: tuple[Floats, ...]
    tables: dict[str, NDArray[np.int64]]
    history: list[float]


class Lengths(Baseline[LengthStatistics]):
    """Scores a title by its length, relative to the longest title of the corpus."""

    name = "lengths"
    learned_type = LengthStatistics
    search_space: ClassVar[SearchSpace] = {"factor": (1.0, 2.0), "power": (1, 2)}
    refit_search_space: ClassVar[SearchSpace] = {"topics": (5, 6)}
    cache_key_params = ("power",)

    factor: PositiveFloat = Field(default=1.0, description="Factor of the score.")
    power: PositiveInt = Field(default=1, description="Power of the length.")
    topics: PositiveInt = Field(default=5, description="Number of topics.")
    color: str | None = Field(default=None, description="A color.")

    _encode_calls: int = 0

    def _fit(self, clicks, titles):
        lengths = np.array([float(len(title)) for title in titles])
        terms = Terms.from_corpus(titles, self.name)
        return LengthStatistics(
            longest=max(map(len, titles)),
            mean=2.5,
            lengths=lengths,
            terms=terms,
            corpus=Corpus(tuple(titles), terms.count(titles)),
            matrices=(np.eye(2), np.ones((1, 3))),
            tables={"a": np.arange(3), "b": np.arange(2)},
            history=[0.5, 0.25],
        )

    def _encode_titles(self, titles):
        self._encode_calls += 1
        return np.array([len(title) ** self.power for title in titles])

    def _score(self, queries, encoded):
        return np.array([self.factor * encoded / self.learned.longest] * len(queries))


class Round(Lengths):
    """Has another default and one more parameter."""

    name = "round"
    factor: PositiveFloat = Field(default=3.0, description="Factor of the score.")
    shape: str = Field(default="round", description="A shape.")


def test_the_signature_shows_every_parameter_with_its_default():
    defaults = {name: p.default for name, p in inspect.signature(BM25).parameters.items()}
    assert defaults == {"k1": 1.5, "b": 0.75}
    defaults = {name: p.default for name, p in inspect.signature(Round).parameters.items()}
    assert defaults == {"factor": 3, "power": 1, "topics": 5, "color": None, "shape": "round"}
    assert Round(shape="flat").parameters() == {**defaults, "shape": "flat"}
    assert isinstance(Lengths(factor=2).factor, float)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"k1": -1}, "bm25: k1 is -1; it should be greater than or equal to 0."),
        ({"k1": "1"}, "bm25: k1 is '1'; it should be a valid number."),
        ({"k1": float("inf")}, "bm25: k1 is inf; it should be a finite number."),
        ({"b": 1.5}, "bm25: b is 1.5; it should be less than or equal to 1."),
        ({"k2": 1}, "bm25 has no parameter 'k2'; it has k1, b."),
        ({"k": 1}, "bm25 has no parameter 'k'; it has k1, b. Did you mean 'k1'?"),
    ],
)
def test_a_wrong_parameter_is_a_one_line_error(values, message):
    with pytest.raises(ValueError, match="bm25") as error:
        BM25(**values)
    assert str(error.value) == message


def test_parameters_cannot_be_assigned():
    with pytest.raises(ValidationError, match="frozen"):
        BM25().k1 = 2.0


def test_a_model_that_is_not_fitted_raises_an_error(tmp_path):
    model = Lengths()
    for use in (lambda: model.learned, lambda: model.score("q", ["a"]), lambda: model.save("x")):
        with pytest.raises(
            RuntimeError, match=r"lengths is not fitted\. Call fit\(.*Lengths\.load"
        ):
            use()


def test_titles_are_encoded_again_only_for_parameters_that_matter():
    model = Lengths().fit([], ["abcd"])
    titles = ["ab", "a"]
    assert model.score("q", titles).tolist() == [0.5, 0.25]
    assert model.score("p", titles).tolist() == [0.5, 0.25]
    doubled = model.with_parameters(factor=2.0)
    assert doubled.score("q", titles).tolist() == [1.0, 0.5]
    assert (model._encode_calls, doubled._encode_calls) == (1, 1)
    squared = model.with_parameters(power=2)
    assert squared.score("q", titles).tolist() == [1.0, 0.25]
    assert squared._encode_calls == 2
    assert model.score("q", titles).tolist() == [0.5, 0.25]
    assert squared.learned is model.learned


def test_only_parameters_of_the_search_space_change_without_a_fit():
    model = Lengths().fit([], ["abcd"])
    for name in ("topics", "height"):
        with pytest.raises(ValueError, match=rf"cannot change '{name}' .* change factor, power\.$"):
            model.with_parameters(**{name: 1})
    with pytest.raises(ValueError, match=r"factor is -1; it should be greater than 0\.$"):
        model.with_parameters(factor=-1)


def test_every_kind_of_field_is_saved_and_loaded(tmp_path):
    model = Lengths(factor=2.0, color="red").fit([], ["ab c", "d"])
    model.save(tmp_path)
    loaded = Lengths.load(tmp_path)
    assert loaded.parameters() == model.parameters()
    saved, restored = model.learned, loaded.learned
    for name in ("longest", "mean", "history"):
        assert getattr(restored, name) == getattr(saved, name)
    assert restored.corpus.titles == saved.corpus.titles
    assert restored.terms.words == saved.terms.words
    assert (restored.lengths == saved.lengths).all()
    assert (restored.corpus.counts != saved.corpus.counts).nnz == 0
    assert [m.tolist() for m in restored.matrices] == [m.tolist() for m in saved.matrices]
    assert {key: t.tolist() for key, t in restored.tables.items()} == {"a": [0, 1, 2], "b": [0, 1]}


def contents(parameters, **learned):
    text = json.dumps({"parameters": parameters, "learned": learned})
    return {"json": np.frombuffer(text.encode(), np.uint8)}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(2)}, "is not a saved lengths model: 'json'.* Fit and save it again"),
        (
            contents({"height": 2}),
            "is not a saved lengths model: lengths has no parameter 'height'",
        ),
        (contents({}), "is not a saved lengths model: 'longest'"),
    ],
)
def test_a_file_with_other_contents_is_rejected(tmp_path, arrays, message):
    np.savez(tmp_path / "lengths.npz", **arrays)
    write_checksums(tmp_path, ["lengths.npz"], "lengths.sha256")
    with pytest.raises(UserError, match=message):
        Lengths.load(tmp_path)


def test_the_registry_loads_no_library_that_takes_seconds():
    code = """
import sys
from dssm_tf.systems import BASELINES
slow = {"tensorflow", "keras", "gensim", "tomotopy", "sklearn", "scipy.stats", "polars"}
print(sorted(slow & set(sys.modules)))
assert all(BASELINES[name].name == name for name in BASELINES)
"""
    assert python(code).strip() == "[]"


def test_a_list_of_titles_is_encoded_once_and_only_the_last_lists_are_kept(monkeypatch):
    encoded, encode_titles = [], BM25._encode_titles

    def encode(model, titles):
        encoded.append(titles)
        return encode_titles(model, titles)

    monkeypatch.setattr(BM25, "_encode_titles", encode)
    model = BM25().fit([], ["red hat"])
    lists = [[f"hat {number}"] for number in range(CACHED_TITLE_LISTS + 1)]
    for titles in [lists[0], *lists]:
        model.score("hat", titles)
    assert len(encoded) == len(lists)  # the first list was encoded once
    model.score("hat", lists[-1])
    assert len(encoded) == len(lists)
    model.score("hat", lists[0])  # the oldest list is no longer kept
    assert len(encoded) == len(lists) + 1
