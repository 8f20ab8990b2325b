"""Semantic rankers from search click logs.

Query text and clicked titles in, a ranker of raw strings out. The names of `__all__` are the stable
Python interface; each is loaded when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

__all__ = [
    "ClickData",
    "UserError",
    "VectorRanker",
    "__version__",
    "benchmark",
    "convert",
    "demo",
    "embed",
    "evaluate",
    "explain",
    "export",
    "index",
    "load",
    "mine",
    "preprocess",
    "report",
    "search",
    "serve",
    "split",
    "teach",
    "train",
    "tune",
]

# Type checkers read them in __init__.pyi; imports here would let every package import the top one.
_PLACES = {
    "ClickData": "dssm_tf.api.click_data",
    "UserError": "dssm_tf.common.errors",
    "VectorRanker": "dssm_tf.runtime.vector_ranker",
    "convert": "dssm_tf.commands.data",
    "evaluate": "dssm_tf.evaluation.evaluate",
    "explain": "dssm_tf.analysis.explanation",
    "load": "dssm_tf.export.load",
    "mine": "dssm_tf.training.mining",
    "split": "dssm_tf.commands.data",
}
# A command is a Python call too.
for _name in __all__:
    _PLACES.setdefault(_name, f"dssm_tf.commands.{_name}")


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_PLACES[name])
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("dssm_tf."):
            raise
        raise ModuleNotFoundError(
            f"dssm_tf.{name} is not part of dssm-runtime, which is installed here and has "
            "dssm_tf.runtime.Ranker alone; for all of it install dssm-tf in its place.",
            name=error.name,
        ) from None
    value = globals()[name] = getattr(module, name)
    return value


class _Package(ModuleType):
    """Keeps `dssm_tf.benchmark` a command, although importing the package called so sets it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
