"""The base class of baselines that are not declared by their parameters yet."""

from __future__ import annotations

import abc
import copy
import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.model_file import Arrays, Settings, read_model, write_model
from dssm_tf.common.checksums import check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import Told

if TYPE_CHECKING:
    from typing_extensions import Self

# What a file of another kind, or one that was changed by hand, makes readers say.
_DAMAGED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
_MOST = 1 << 31  # of a whole number, which native code keeps in 32 bits


class OldBaseline(Baseline):
    """A ranker that learns from a click log and the titles to rank in one call, `fit`.

    A model gives `fit` and `score_matrix`, and to be saved `_what_is_learned` and `_restore`. Its
    constructor keeps each argument as an attribute of the same name and refuses what means
    nothing; saving, loading and `with_parameters` rely on both.

    A baseline is a `dssm_tf.evaluation.ranker.Ranker`: `score` and `score_matrix` agree,
    equal titles tie, a query without a known word scores 0 everywhere, and the
    order of titles does not matter. `tests/baselines/test_contract.py` checks
    every entry of `dssm_tf.systems.BASELINES` for it.

    Attributes:
        name: what tables call it.
        free: the parameters that evaluation chooses by cross validation, with the values it
            tries; only such as a fitted model takes without being fitted again.
        fitted_free: further ones, for each of whose values it is fitted anew.
        progress: whether fitting shows a bar on the error stream where it takes seconds; a
            function is told the steps done and their number instead.
    """

    def __init_subclass__(cls) -> None:
        """Its parameters are those of its constructor."""

    progress: bool | Told = False

    def _learn(self, clicks: Any, titles: Any) -> None: ...

    def _prepare(self, titles: Any) -> Any: ...

    def _score(self, queries: Any, prepared: Any) -> Any: ...

    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments as they are now."""
        return self._parameters()

    @abc.abstractmethod
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

    @abc.abstractmethod
    def score_matrix(
        self, queries: Sequence[str], titles: Sequence[str]
    ) -> NDArray[np.floating[Any]]:
        """Scores every title, of the corpus or not: `(len(queries), len(titles))`."""

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.floating[Any]]:
        """Scores titles for one query: `(len(titles),)`."""
        row: NDArray[np.floating[Any]] = self.score_matrix([query], titles)[0]
        return row

    def with_parameters(self, **values: Any) -> Self:
        """The same fitted model with other values of its free parameters.

        What was learned is shared with this one, which stays as it is.

        Raises:
            ValueError: a name is not in `free`, or a value means nothing.
        """
        unknown = sorted(set(values) - set(self.free))
        if unknown:
            raise ValueError(
                f"{self.name} has no free parameter {unknown[0]!r}; it has "
                f"{', '.join(self.free) or 'none'}."
            )
        other = copy.copy(self)
        if values:
            unfitted = type(self)(**{**self._parameters(), **values})
            for name in values:
                setattr(other, name, getattr(unfitted, name))
        return other

    def save(self, directory: Path | str) -> None:
        """Writes the fitted model as `NAME.npz` into a directory, made if missing.

        `NAME.sha256` beside it has the file's checksum.
        """
        settings, arrays = self._what_is_learned()
        path = Path(directory) / f"{self.name}.npz"
        write_model(path, {"parameters": self._parameters(), **settings}, arrays)
        write_checksums(path.parent, [path.name], f"{self.name}.sha256")

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Reads a model that `save` wrote; it scores as the saved one did.

        Raises:
            UserError: the directory holds no such model, or a damaged one.
        """
        path = Path(directory) / f"{cls.name}.npz"
        check_files(path.parent, [path.name], "Fit and save it again.", f"{cls.name}.sha256")
        try:
            settings, arrays = read_model(path)
            model = cls(**cls._believed(settings["parameters"]))
            model._restore(settings, arrays)
        except _DAMAGED as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else error
            raise UserError(
                f"{path} holds no saved {cls.name} model: {reason}. Fit and save it again."
            ) from error
        return model

    def _what_is_learned(self) -> tuple[Settings, Arrays]:
        """What `fit` found: what JSON can hold, and arrays."""
        raise NotImplementedError(
            f"{type(self).__name__} says not what it learned: `_what_is_learned`."
        )

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        """Takes what `_what_is_learned` gave, on a model made with the same parameters."""
        raise NotImplementedError(f"{type(self).__name__} takes nothing back: `_restore`.")

    @classmethod
    def arguments(cls) -> list[str]:
        """Names that the constructor takes."""
        return list(cls._defaults())

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The constructor's arguments, but how fitting is shown is none of the model's.

        Behind `**options` stand those of the constructor that the class extends.
        """
        defaults: dict[str, Any] = {}
        for kind in cls.__mro__[: cls.__mro__.index(OldBaseline)]:
            if "__init__" in vars(kind):
                arguments = inspect.signature(kind).parameters.values()
                own = {a.name: a.default for a in arguments if a.kind != a.VAR_KEYWORD}
                defaults = own | defaults
                if len(own) == len(arguments):
                    break
        return {name: default for name, default in defaults.items() if name != "progress"}

    def _parameters(self) -> dict[str, Any]:
        """The constructor's arguments as they are now."""
        return {name: getattr(self, name) for name in self._defaults()}

    @classmethod
    def _believed(cls, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Parameters that a file gave, of the types of their defaults, which constructors believe.

        Raises:
            ValueError: one is of another type, or no number of anything counted.
        """
        for name, default in cls._defaults().items():
            value = parameters.get(name, default)
            kinds = {float: (int, float), tuple: (list, tuple)}.get(type(default), type(default))
            other_type = not isinstance(value, kinds) or isinstance(value, bool) != isinstance(
                default, bool
            )
            too_large = isinstance(value, int) and abs(value) >= _MOST
            if (default is not None and other_type) or too_large:
                raise ValueError(f"{name} is {value!r:.60}; expected a value such as {default!r}")
        return parameters
