"""The `dssm` command line: one file per command, with its flags and its output.

May import every package. Heavy imports are inside the functions, so that --help is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from dssm_tf.common.siblings import import_siblings

import_siblings()

COMMANDS = {
    "preprocess": "turn a click log into training records",
    "train": "train a model on preprocessed clicks",
    "evaluate": "rank judged queries and measure NDCG, MRR, recall",
    "benchmark": "compare systems on your own click log",
    "interleave": "compare two rankings by clicks on interleaved lists",
    "tune": "search for the best settings",
    "mine": "find hard negatives to train on",
    "teach": "write a larger model's scores for a small model to learn",
    "export": "write a model for TensorFlow Serving, NumPy, or a search engine",
    "documents": "add a model's fields to the documents of a search engine",
    "embed": "write the vectors of titles or queries",
    "index": "index a corpus for search",
    "search": "search a corpus",
    "serve": "answer requests over gRPC and REST, with a search page",
    "explain": "explain why a title matches a query",
    "features": "write the parts of scores for a learning-to-rank model",
    "report": "write a page about a run",
    "data": "convert, split and check data, make judgments, rank with your engine",
    "demo": "try everything on bundled data",
    "completion": "print completions for bash, zsh or fish",
}
"""The commands and their purpose. `dssm_tf.commands` has a module for each."""

# A command's function has the command's name, unless a package has that name.
_FUNCTIONS = {"benchmark": "run_benchmark", "export": "export_model"}


def load_command(name: str) -> Callable[..., Any] | Mapping[str, Callable[..., Any]]:
    """Imports a command; returns its function, or its subcommands' functions by name."""
    module = import_module(f"dssm_tf.commands.{name}")
    command: Callable[..., Any] | Mapping[str, Callable[..., Any]]
    if hasattr(module, "SUBCOMMANDS"):
        command = module.SUBCOMMANDS
    else:
        command = getattr(module, _FUNCTIONS.get(name, name))
    return command
