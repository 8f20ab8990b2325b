"""What every baseline does: learn from clicks and titles, score, save, load."""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.progress import Told

if TYPE_CHECKING:
    from typing_extensions import Self

Click = tuple[str, str, float]
"""Query, title and how often the title was clicked for the query."""


class Baseline(abc.ABC):
    """A ranker that one call of `fit` makes, as against a click model, which `dssm train` trains.

    A baseline is a `dssm_tf.evaluation.ranker.Ranker`: `score` and `score_matrix` agree,
    equal titles tie, a query without a known word scores 0 everywhere, and the
    order of titles does not matter. `tests/baselines/test_contract.py` checks
    every entry of `BASELINES` for it.

    Attributes:
        name: what tables call it.
        free: the parameters that evaluation chooses by cross validation, with the values it
            tries; only such as a fitted model takes without being fitted again.
        fitted_free: further ones, for each of whose values it is fitted anew.
        progress: whether fitting shows a bar on the error stream where it takes seconds; a
            function is told the steps done and their number instead.
    """

    name: str
    free: ClassVar[Mapping[str, Sequence[Any]]] = {}
    fitted_free: ClassVar[Mapping[str, Sequence[Any]]] = {}
    progress: bool | Told = False

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
    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.floating[Any]]:
        """Scores titles, of the corpus or not, for one query: `(len(titles),)`."""

    def score_matrix(
        self, queries: Sequence[str], titles: Sequence[str]
    ) -> NDArray[np.floating[Any]]:
        """Scores every title for every query: `(len(queries), len(titles))`."""
        rows = [self.score(query, titles) for query in queries]
        return np.stack(rows) if rows else np.zeros((0, len(titles)))

    def with_parameters(self, **values: Any) -> Self:
        """The same fitted model with other values of its free parameters.

        What was learned is shared with this one, which stays as it is.

        Raises:
            ValueError: a name is not in `free`.
        """
        unknown = sorted(set(values) - set(self.free))
        if unknown:
            raise ValueError(
                f"{self.name} has no free parameter {unknown[0]!r}; it has "
                f"{', '.join(self.free) or 'none'}."
            )
        other = copy.copy(self)
        for name, value in values.items():
            setattr(other, name, value)
        return other

    @abc.abstractmethod
    def save(self, directory: Path | str) -> None:
        """Writes the fitted model into a directory, made if missing."""

    @classmethod
    @abc.abstractmethod
    def load(cls, directory: Path | str) -> Self:
        """Reads a model that `save` wrote; it scores as the saved one did.

        Raises:
            UserError: the directory holds no such model.
        """
