"""A baseline with every combination of its free parameters, fitted as seldom as that allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.benchmark.cross_validation import grid


class Variants:
    """Fits a baseline once for each combination of its `fitted_free`; the rest is set later.

    One fitted model is in memory at a time; where there are several, they lie in a folder.

    Args:
        make: an entry of `BASELINES`.
        given: arguments of its constructor; what is given is not chosen.
        folder: where fitted models go.

    Attributes:
        settings: every combination of the parameters to choose, those of a fit changing last.
        free: how many parameters there are to choose.
    """

    def __init__(self, make: type[Baseline], given: Mapping[str, Any], folder: Path) -> None:
        self._make = make
        self._given = dict(given)
        self._folder = folder
        free, fitted = choices(make, given)
        self._names = tuple(fitted)
        self._variants = grid(fitted)
        self.settings = grid({**fitted, **free})
        self.free = len(free) + len(fitted)
        self._default = make(**given)
        self._seconds: list[float] = []
        self._at: tuple[int, Baseline] = (-1, self._default)

    def fit(
        self,
        clicks: Iterable[Click],
        titles: Iterable[str],
        told: Callable[[str], object],
        step: Callable[[str], object],
    ) -> None:
        """Fits them all.

        Args:
            clicks: see `Baseline.fit`; read once for each fit.
            titles: see `Baseline.fit`; likewise.
            told: is told which fit begins.
            step: is told how far a fit is.
        """
        for number, variant in enumerate(self._variants):
            stage = " ".join(["fitting", *(f"{name} {value}" for name, value in variant.items())])
            told(stage)
            started = monotonic()
            baseline = self._make(**self._given, **variant)
            baseline.progress = _steps(stage, step)
            baseline.fit(clicks, titles)
            baseline.progress = False
            self._seconds.append(monotonic() - started)
            self._at = (number, baseline)
            if len(self._variants) > 1:
                baseline.save(self._place(number))

    def with_setting(self, setting: Mapping[str, Any]) -> Baseline:
        """The fitted baseline with a setting; `{}` is the constructor's own values."""
        number = self._number(setting)
        if self._at[0] != number:
            self._at = (number, self._make.load(self._place(number)))
        rest = {name: value for name, value in setting.items() if name not in self._names}
        return self._at[1].with_parameters(**rest) if rest else self._at[1]

    def seconds(self, setting: Mapping[str, Any]) -> float:
        """What the fit for a setting took."""
        return self._seconds[self._number(setting)]

    def _number(self, setting: Mapping[str, Any]) -> int:
        wanted = {name: setting.get(name, getattr(self._default, name)) for name in self._names}
        # The constructor's own value may not be among those that are tried.
        return self._variants.index(wanted) if wanted in self._variants else 0

    def _place(self, number: int) -> Path:
        return self._folder / str(number)


def choices(
    make: type[Baseline], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values to try of the parameters that are not given: of a fitted model's, and of fits'."""
    free, fitted = (
        {name: values for name, values in one.items() if name not in given}
        for one in (make.free, make.fitted_free)
    )
    return free, fitted


def _steps(stage: str, step: Callable[[str], object]) -> Callable[[int, int], object]:
    return lambda done, steps: step(f"{stage}, step {done} of {steps}")
