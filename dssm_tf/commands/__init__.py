"""The `dssm` command line: one file a command, its flags and what it prints.

May import every package, but nothing heavy before a command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from dssm_tf.common.siblings import import_siblings

import_siblings()

# A command's function has the command's name, but for those whose name is a package's.
_FUNCTIONS = {"benchmark": "run_benchmark", "export": "export_model"}


def load_command(name: str) -> Callable[..., Any] | Mapping[str, Callable[..., Any]]:
    """Imports a command; returns its function, or those of its subcommands by name."""
    module = import_module(f"dssm_tf.commands.{name}")
    command: Callable[..., Any] | Mapping[str, Callable[..., Any]]
    if hasattr(module, "SUBCOMMANDS"):
        command = module.SUBCOMMANDS
    else:
        command = getattr(module, _FUNCTIONS.get(name, name))
    return command
