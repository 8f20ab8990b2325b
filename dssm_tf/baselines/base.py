"""What every baseline does: hold its parameters, learn, score, save and load what it learned."""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from dssm_tf.baselines.state import read_state, write_state
from dssm_tf.common.checksums import check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranker import LISTS

if TYPE_CHECKING:
    from typing_extensions import Self

Click = tuple[str, str, float]
"""Query, title and how often the title was clicked for the query."""

Floats = NDArray[np.float64]

AboveZero = Annotated[float, Field(gt=0)]
AtLeastZero = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, lt=1 << 31)]
Seed = Annotated[int, Field(ge=0, lt=1 << 31)]

_AGAIN = "Fit and save it again."


class Grid(tuple[Any, ...]):
    """Marks a parameter: the values that cross validation tries on the fitted model."""


class Refit(tuple[Any, ...]):
    """Marks a parameter: the values for each of which the model is fitted anew."""


class Baseline(abc.ABC):
    """A ranker that learns from a click log and the titles to rank in one call, `fit`.

    A baseline's annotated attributes are what it is made of: those with a default are its
    parameters, which the constructor takes by name and pydantic checks; those without one are
    what it learns, which `save` writes. It writes `_learn`, `_prepare` and `_score`.

    A baseline is a `dssm_tf.evaluation.ranker.Ranker`: `score` and `score_matrix` agree,
    equal titles tie, a query without a known word scores 0 everywhere, and the
    order of titles does not matter. `tests/baselines/test_contract.py` checks
    every entry of `dssm_tf.systems.BASELINES` for it.

    Args:
        parameters: values of parameters; the others have their defaults.

    Raises:
        ValueError: there is no such parameter, or the value is out of its range.

    Attributes:
        name: what tables call it.
        free: the parameters marked with a `Grid`, and their values.
        fitted_free: those marked with `Refit`.
        prepared_with: the free parameters that `_prepare` reads.
        progress: whether fitting shows a bar on the error stream if it takes seconds.
    """

    name: str
    free: ClassVar[Mapping[str, Sequence[Any]]] = {}
    fitted_free: ClassVar[Mapping[str, Sequence[Any]]] = {}
    prepared_with: ClassVar[Sequence[str]] = ()
    progress: bool
    _checked: ClassVar[type[BaseModel]]
    _learned: ClassVar[Mapping[str, Any]]

    def __init_subclass__(cls) -> None:
        hints = {
            name: hint
            for name, hint in get_type_hints(cls, include_extras=True).items()
            if name not in Baseline.__annotations__
        }
        fields: dict[str, Any] = {
            n: (h, getattr(cls, n)) for n, h in hints.items() if hasattr(cls, n)
        }
        config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
        cls._checked = create_model(cls.__name__, __config__=config, **fields)
        cls._learned = {name: hint for name, hint in hints.items() if name not in fields}
        cls.free, cls.fitted_free = (
            {
                name: mark
                for name, field in cls._checked.model_fields.items()
                for mark in field.metadata
                if type(mark) is kind
            }
            for kind in (Grid, Refit)
        )

    def __init__(self, **parameters: Any) -> None:
        self.progress = False
        self._set(parameters)

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Learns from a click log and the titles to rank.

        Args:
            clicks: `(query, title, clicks)`; empty for models that use titles only.
            titles: the corpus; what statistics of titles are taken from.

        Returns:
            Itself.

        Raises:
            UserError: what the model learns from is empty.
        """
        self._learn(list(clicks), list(titles))
        return self._ready()

    def score_matrix(
        self, queries: Sequence[str], titles: Sequence[str]
    ) -> NDArray[np.floating[Any]]:
        """Scores every title, of the corpus or not: `(len(queries), len(titles))`."""
        return self._score(queries, self._prepared(tuple(titles)))

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.floating[Any]]:
        """Scores titles for one query: `(len(titles),)`."""
        return self.score_matrix([query], titles)[0]

    def with_parameters(self, **values: Any) -> Self:
        """The same fitted model with other values of its free parameters.

        What was learned is shared with this one, which stays as it is.

        Raises:
            ValueError: a name is not in `free`, or a value is out of its range.
        """
        if unknown := sorted(set(values) - set(self.free)):
            raise ValueError(
                f"{self.name} has no free parameter {unknown[0]!r}; it has "
                f"{', '.join(self.free) or 'none'}."
            )
        other = copy.copy(self)
        other._set({**self.parameters(), **values})
        if not values.keys().isdisjoint(self.prepared_with):
            other._prepared = lru_cache(LISTS)(other._prepare)
        return other

    def save(self, directory: Path | str) -> None:
        """Writes the fitted model as `NAME.npz` into a directory, made if missing.

        `NAME.sha256` beside it has the file's checksum.
        """
        path = Path(directory) / f"{self.name}.npz"
        learned = {name: getattr(self, name) for name in self._learned}
        write_state(path, {"parameters": self.parameters(), **learned})
        write_checksums(path.parent, [path.name], f"{self.name}.sha256")

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Reads a model that `save` wrote; it scores as the saved one did.

        Raises:
            UserError: the directory holds no such model, or a damaged one.
        """
        path = Path(directory) / f"{cls.name}.npz"
        check_files(path.parent, [path.name], _AGAIN, f"{cls.name}.sha256")
        try:
            state = read_state(path, _AGAIN)
            model = cls(**state["parameters"])
            for name, kind in cls._learned.items():
                value = state[name]
                # JSON has lists alone for words and tuples.
                made = (get_origin(kind) or kind)(value) if isinstance(value, list) else value
                setattr(model, name, made)
        except (LookupError, TypeError, ValueError) as error:
            raise UserError(f"{path} holds no saved {cls.name} model: {error}. {_AGAIN}") from error
        return model._ready()

    @classmethod
    def arguments(cls) -> list[str]:
        """Names of the parameters."""
        return list(cls._checked.model_fields)

    def parameters(self) -> dict[str, Any]:
        """The parameters as they are now."""
        return {name: getattr(self, name) for name in self.arguments()}

    @abc.abstractmethod
    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        """Sets what is learned."""

    def _index(self) -> None:  # noqa: B027  # most have nothing to do
        """Makes from what was learned what is not saved."""

    @abc.abstractmethod
    def _prepare(self, titles: tuple[str, ...]) -> Any:
        """What `_score` needs to know of titles; remembered for the lists used last."""

    @abc.abstractmethod
    def _score(self, queries: Sequence[str], prepared: Any) -> NDArray[np.floating[Any]]:
        """Scores `(queries, titles)` from what `_prepare` gave."""

    def _ready(self) -> Self:
        self._prepared = lru_cache(LISTS)(self._prepare)
        self._index()
        return self

    def _set(self, parameters: Mapping[str, Any]) -> None:
        try:
            vars(self).update(dict(self._checked(**parameters)))
        except ValidationError as error:
            first = error.errors()[0]
            name, problem = first["loc"][0], first["msg"]
            raise ValueError(
                f"{name} is {first['input']!r:.60}: {problem[0].lower()}{problem[1:]}."
            ) from None
