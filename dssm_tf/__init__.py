"""Semantic rankers learned from search click logs.

The input is queries and clicked titles; the result is a ranker of raw strings. The names in
`__all__` are the stable Python interface. Each name is imported on first use (PEP 562), so
`import dssm_tf` is fast and needs no other package.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Type checkers read these names in __init__.pyi. No name equals that of a module or package
# directly in dssm_tf, because importing the module would replace the name.
_MODULES = {
    "ClickData": "dssm_tf.api.click_data",
    "CorpusTitle": "dssm_tf.tables.judgments",
    "EvaluationResult": "dssm_tf.api.evaluating",
    "Index": "dssm_tf.api.index",
    "Judgment": "dssm_tf.tables.judgments",
    "Model": "dssm_tf.api.model",
    "TableFlags": "dssm_tf.commands.flags",
    "TrainedRanker": "dssm_tf.runtime.trained_ranker",
    "UserError": "dssm_tf.common.errors",
    "VectorRanker": "dssm_tf.runtime.vector_ranker",
    "check": "pipelines.check",
    "convert": "dssm_tf.commands.data",
    "demo": "dssm_tf.commands.demo",
    "embed": "dssm_tf.commands.embed",
    "evaluate": "dssm_tf.api.evaluating",
    "explain": "dssm_tf.api.model",
    "export_model": "dssm_tf.commands.export",
    "features": "dssm_tf.commands.features",
    "index": "dssm_tf.commands.index",
    "interleave": "dssm_tf.commands.interleave",
    "load": "dssm_tf.api.model",
    "load_ir_dataset": "dssm_tf.datasets.ir_dataset",
    "mine": "dssm_tf.training.mining",
    "preprocess": "dssm_tf.api.preprocessing",
    "report": "dssm_tf.commands.report",
    "run_benchmark": "dssm_tf.commands.benchmark",
    "search": "dssm_tf.commands.search",
    "serve": "dssm_tf.commands.serve",
    "split": "dssm_tf.commands.data",
    "team_draft": "dssm_tf.runtime.interleaving",
    "teach": "dssm_tf.commands.teach",
    "train": "dssm_tf.api.training",
    "tune": "dssm_tf.commands.tune",
}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("dssm_tf."):
            raise
        raise ModuleNotFoundError(
            f"dssm_tf.{name} is not part of dssm-runtime, which is installed here and contains "
            "only dssm_tf.runtime. Install dssm-tf instead.",
            name=error.name,
        ) from None
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
