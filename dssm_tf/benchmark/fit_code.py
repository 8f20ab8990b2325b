"""A digest of the code that a fit depends on, so that a result of other code is not taken over."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dssm_tf

# What every fit goes through. Their own imports lead to all systems, and are not followed.
_SHARED = ("benchmark.worker", "benchmark.variants", "benchmark.cross_validation")


def digest(*modules: str) -> str:
    """Twelve hexadecimal digits of modules of this package and of all they import from it.

    Comments, docstrings and layout do not count.
    """
    waiting = [*modules, "dssm_tf.evaluation.evaluate"]
    found = {name: _code(name)[0] for name in (f"dssm_tf.{one}" for one in _SHARED)}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name], imported = _code(name)
            waiting += imported
    text = "\n".join(f"{name} {code}" for name, code in sorted(found.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def _code(module: str) -> tuple[str, tuple[str, ...]]:
    """A module's code as a text, and what it imports; nothing of what is no module of ours."""
    place = Path(dssm_tf.__file__).parent.parent.joinpath(*module.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    path = next((file for file in files if file.is_file()), None)
    if path is None or not module.startswith("dssm_tf.") or module.startswith("dssm_tf.common."):
        return "", ()  # how files are written or progress is shown changes no result
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [one for one in body if not _is_docstring(one)]
    return ast.dump(tree), tuple(_imported(tree))


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names of modules, and of what may be one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
