"""Imports the packages `pipelines` and `serving`, which are next to this package."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

from dssm_tf.common.errors import UserError

_DIRECTORY = Path(__file__).resolve().parents[2]


def import_siblings() -> None:
    """Imports `pipelines` and `serving` from the directory of `dssm_tf`.

    `python -m`, notebooks and the interpreter put the current directory first in `sys.path`. A
    folder with the name of a package would be imported from there instead.

    Raises:
        UserError: another package with one of the names is imported already.
    """
    for name in ("pipelines", "serving"):
        if name in sys.modules:
            _check_sibling(name)
            continue
        spec = PathFinder.find_spec(name, [str(_DIRECTORY)])
        if spec is None or spec.loader is None:  # this installation has no such package
            continue
        module = module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)


def _check_sibling(name: str) -> None:
    """Raises UserError if an imported package is not the one next to `dssm_tf`."""
    file = getattr(sys.modules[name], "__file__", None)
    if file is None or Path(file).resolve().parents[1] != _DIRECTORY:
        raise UserError(
            f"a package called {name} is imported from {file or 'an unknown location'}; dssm_tf "
            f"needs the one in {_DIRECTORY}. Rename yours, or import dssm_tf in another process."
        )
