"""The base class of all baselines: parameters, fitting, scoring, saving and loading."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from dssm_tf.baselines.state import check_arrays, read_state, restore, write_state
from dssm_tf.common.checksums import check_files, write_checksums
from dssm_tf.common.errors import UserError, similar_name_hint
from dssm_tf.evaluation.ranker import CACHED_TITLE_LISTS

if TYPE_CHECKING:
    from typing_extensions import Self

Click = tuple[str, str, float]
"""Query, title, and the number of clicks on the title for the query."""

Floats = NDArray[np.float64]

SearchSpace = Mapping[str, Sequence[Any]]
"""Values to try, by parameter."""

LearnedShapes = Mapping[str, Sequence[str]]
"""The names of each array's dimensions: the argument `shapes` of `state.check_arrays`."""

LearnedT = TypeVar("LearnedT")

_REFIT_HINT = "Fit and save it again."


class Baseline(BaseModel, abc.ABC, Generic[LearnedT]):
    """A ranker that is fitted to a click log and a corpus; it can rank other titles too.

    Parameters are pydantic fields: each has a type with bounds, a default and a description, and
    the constructor takes it by name. `fit` sets `learned`, one dataclass with all learned values. A
    subclass `class Mine(Baseline[MineStatistics])` sets `name` and `learned_type = MineStatistics`,
    adds its fields, and implements `_fit`, `_encode_titles` and `_score`. docs/baselines.md has an
    example.

    A baseline is a `dssm_tf.evaluation.ranker.Ranker`: `score` and `score_matrix` agree, equal
    titles tie, a query without a known word scores 0 everywhere, and the order of the titles does
    not matter. `tests/baselines/test_contract.py` checks this for all of
    `dssm_tf.systems.BASELINES`.

    Raises:
        ValueError: in the constructor, a parameter does not exist or its value is out of bounds.

    Attributes:
        name: name of the baseline in tables, and of the saved file without its suffix.
        learned_type: the dataclass that `_fit` returns; `load` builds it. Its fields may be arrays,
            sparse matrices, `Terms`, other dataclasses, and values that JSON can represent.
        search_space: for each parameter that can change without a new fit, the values that
            cross-validation tries.
        refit_search_space: the same for parameters that need a new fit for each value.
        cache_key_params: the parameters of `search_space` that `_encode_titles` reads. If one of
            them changes, cached encodings of titles are not used again.
        learned_shapes: the dimensions of the arrays in `learned`; `load` checks them, see
            `state.check_arrays`.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    name: ClassVar[str]
    learned_type: ClassVar[type[Any]]
    search_space: ClassVar[SearchSpace] = {}
    refit_search_space: ClassVar[SearchSpace] = {}
    cache_key_params: ClassVar[Sequence[str]] = ()
    learned_shapes: ClassVar[LearnedShapes] = {}

    _learned: LearnedT | None = PrivateAttr(None)
    _encodings: dict[tuple[str, ...], Any] = PrivateAttr(default_factory=dict)
    _show_progress: bool = PrivateAttr(False)

    def __init__(self, **parameters: Any) -> None:
        try:
            super().__init__(**parameters)
        except ValidationError as error:
            raise ValueError(self._explain(error)) from None

    @property
    def learned(self) -> LearnedT:
        """The values that `fit` learned, an instance of `learned_type`.

        Raises:
            RuntimeError: the model is not fitted.
        """
        if self._learned is None:
            raise RuntimeError(
                f"{self.name} is not fitted. Call fit(clicks, titles), or load a saved model with "
                f"{type(self).__name__}.load(directory)."
            )
        return self._learned

    def fit(
        self, clicks: Iterable[Click], titles: Iterable[str], *, progress: bool = False
    ) -> Self:
        """Learns from a click log and the titles of a corpus.

        Args:
            clicks: `(query, title, clicks)`; may be empty for models that read titles only.
            titles: the corpus.
            progress: whether to show a progress bar on standard error if fitting takes seconds.

        Returns:
            This model, now fitted.

        Raises:
            UserError: the log or the corpus has no usable text.
        """
        self._show_progress = progress
        return self._set_learned(self._fit(list(clicks), list(titles)))

    def score_matrix(
        self, queries: Sequence[str], titles: Sequence[str]
    ) -> NDArray[np.floating[Any]]:
        """Scores every title for every query: `(len(queries), len(titles))`.

        The titles need not be in the corpus that the model was fitted to.

        Raises:
            RuntimeError: the model is not fitted.
        """
        _ = self.learned  # raises an error if the model is not fitted
        return self._score(queries, self._encoded(tuple(titles)))

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.floating[Any]]:
        """Scores titles for one query: `(len(titles),)`."""
        return self.score_matrix([query], titles)[0]

    def parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def with_parameters(self, **values: Any) -> Self:
        """A copy of the fitted model with other values of parameters in `search_space`.

        This model does not change. The copy shares its `learned`.

        Raises:
            ValueError: a name is not in `search_space`, or a value is out of bounds.
        """
        for name in values.keys() - self.search_space.keys():
            names = ", ".join(self.search_space) or "none"
            raise ValueError(
                f"{self.name} cannot change {name!r} without a new fit; it can change {names}."
            )
        checked = type(self)(**{**self.parameters(), **values})
        other = self.model_copy(update=checked.parameters())
        if not values.keys().isdisjoint(self.cache_key_params):
            other._encodings = {}
        return other

    def save(self, directory: Path | str) -> None:
        """Writes the parameters and `learned` to `NAME.npz` in a directory, created if missing.

        `NAME.sha256` in the same directory has the file's checksum.

        Raises:
            RuntimeError: the model is not fitted.
        """
        path = Path(directory) / f"{self.name}.npz"
        write_state(path, self.parameters(), self.learned)
        write_checksums(path.parent, [path.name], f"{self.name}.sha256")

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Reads a model that `save` wrote. It scores as the saved model did.

        Raises:
            UserError: the directory has no such model, or the file is damaged.
        """
        path = Path(directory) / f"{cls.name}.npz"
        check_files(path.parent, [path.name], _REFIT_HINT, f"{cls.name}.sha256")
        try:
            parameters, values = read_state(path, _REFIT_HINT)
            model, learned = cls(**parameters), restore(cls.learned_type, values)
            sizes = {name: value for name, value in parameters.items() if type(value) is int}
            check_arrays(learned, cls.learned_shapes, sizes)
            # Scoring fails if the arrays do not fit each other.
            words = " ".join(texts[0] for texts in _texts_of(learned) if texts) or "a"
            with np.errstate(all="ignore"):  # the error below is enough
                model._set_learned(learned)
                scores = np.asarray(model.score_matrix([words], (words, "")))
            if scores.shape != (1, 2) or np.isnan(scores).any():
                raise ValueError(f"its scores are {scores.tolist()!r:.60}")
            return model
        except (MemoryError, UserError):
            raise
        except Exception as error:  # arrays that do not fit can raise almost any exception
            reason = " ".join(str(error).split())[:200].rstrip(".")
            raise UserError(
                f"{path} is not a saved {cls.name} model: {reason}. {_REFIT_HINT}"
            ) from error

    @abc.abstractmethod
    def _fit(self, clicks: list[Click], titles: list[str]) -> LearnedT:
        """Learns from the log and the corpus, and returns an instance of `learned_type`."""

    def _build_index(self) -> None:
        """Computes the values that scoring needs and `save` does not write, from `learned`."""

    @abc.abstractmethod
    def _encode_titles(self, titles: tuple[str, ...]) -> Any:
        """Computes the part of the scores that depends only on the titles.

        The results for the last few lists of titles are cached.
        """

    @abc.abstractmethod
    def _score(self, queries: Sequence[str], encoded: Any) -> NDArray[np.floating[Any]]:
        """Scores `(queries, titles)`.

        Args:
            queries: raw texts.
            encoded: the result of `_encode_titles`.
        """

    def _encoded(self, titles: tuple[str, ...]) -> Any:
        """The result of `_encode_titles`, cached for the last few lists of titles."""
        # `lru_cache` would keep the model alive by a cycle, and thus 0.1 GB for a million titles.
        encoded = self._encodings.get(titles)
        if encoded is None:
            encoded = self._encode_titles(titles)
            while len(self._encodings) >= CACHED_TITLE_LISTS:
                self._encodings.pop(next(iter(self._encodings)))
            self._encodings[titles] = encoded
        return encoded

    def _set_learned(self, learned: LearnedT) -> Self:
        """Sets `learned` and the values that depend on it; returns this model."""
        self._learned = learned
        self._build_index()
        self._encodings = {}
        return self

    @classmethod
    def _explain(cls, error: ValidationError) -> str:
        """The first problem in one line: the parameter, its value, and the expected value."""
        first = error.errors()[0]
        parameter, names = ".".join(map(str, first["loc"])), list(cls.model_fields)
        if first["type"] == "extra_forbidden":
            return (
                f"{cls.name} has no parameter {parameter!r}; it has "
                f"{', '.join(names) or 'none'}.{similar_name_hint(parameter, names)}"
            )
        expected = first["msg"].removeprefix("Input ")
        return f"{cls.name}: {parameter} is {first['input']!r:.60}; it {expected}."


def _texts_of(learned: Any) -> Iterator[Sequence[str]]:
    """The lists of words or texts in a dataclass."""
    for field in fields(learned):
        value = getattr(learned, field.name)
        value = getattr(value, "words", value)
        if isinstance(value, tuple) and all(isinstance(text, str) for text in value):
            yield value
