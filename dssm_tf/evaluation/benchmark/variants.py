"""A baseline with every combination of its free parameters, fitted as seldom as that allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from dssm_tf.baselines.base import Baseline
from dssm_tf.evaluation.benchmark.cross_validation import grid


class Variants:
    """Fits a baseline once for each combination of its `fitted_free`; the rest is set later.

    Args:
        make: an entry of `BASELINES`.
        given: arguments of its constructor; what is given is not chosen.

    Attributes:
        settings: every combination of the parameters to choose.
    """

    def __init__(self, make: type[Baseline], given: Mapping[str, Any]) -> None:
        self._make = make
        self._given = dict(given)
        free, fitted = (
            {name: values for name, values in one.items() if name not in given}
            for one in (make.free, make.fitted_free)
        )
        self._names = tuple(fitted)
        self._variants = grid(fitted)
        self.settings = grid({**fitted, **free})
        self.chosen = len(free) + len(fitted)
        default = make(**given)
        self._default = tuple(getattr(default, name) for name in self._names)
        self._fitted: dict[tuple[Any, ...], tuple[Baseline, float]] = {}

    def fit(
        self,
        clicks: Any,
        titles: Any,
        told: Callable[[str], object],
        step: Callable[[str], object],
    ) -> None:
        """Fits them all.

        Args:
            clicks: see `Baseline.fit`.
            titles: see `Baseline.fit`.
            told: is told which fit begins.
            step: is told how far a fit is.
        """
        for variant in self._variants:
            stage = " ".join(["fitting", *(f"{name} {value}" for name, value in variant.items())])
            told(stage)
            started = monotonic()
            baseline = self._make(**self._given, **variant)
            baseline.progress = _steps(stage, step)
            baseline.fit(clicks, titles)
            baseline.progress = False
            self._fitted[self._key(variant)] = baseline, monotonic() - started

    def with_setting(self, setting: Mapping[str, Any]) -> Baseline:
        """The fitted baseline with a setting; `{}` is the constructor's own values."""
        baseline, _ = self.fitted(setting)
        rest = {name: value for name, value in setting.items() if name not in self._names}
        return baseline.with_parameters(**rest) if rest else baseline

    def fitted(self, setting: Mapping[str, Any]) -> tuple[Baseline, float]:
        """What was fitted for a setting, before the rest of it is set, and the seconds it took."""
        return self._fitted[self._key(setting)]

    def _key(self, setting: Mapping[str, Any]) -> tuple[Any, ...]:
        pairs = zip(self._names, self._default, strict=True)
        return tuple(setting.get(name, value) for name, value in pairs)


def _steps(stage: str, step: Callable[[str], object]) -> Callable[[int, int], object]:
    return lambda done, steps: step(f"{stage}, step {done} of {steps}")
