"""The `dssm` command line: one file per command, with its flags and its output.

May import every package. Heavy imports are inside the functions, so that --help is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from dssm_tf.common.siblings import import_siblings

import_siblings()

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
