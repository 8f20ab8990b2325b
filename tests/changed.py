"""Names the test files that a change can touch: those that use what has changed, however far.

    python -m tests.changed [REVISION]

compares with REVISION, by default main, uncommitted changes included. A module uses another if it
imports it, at the top or in a function, or names it in a string, as tables of lazily imported
modules and command lines do; naming a package there means all of it. A test also uses the
conftest.py files above it. A file that is not Python stands for the modules that name it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGES = ("dssm_tf", "pipelines", "serving", "examples", "tests")
NAME = re.compile(rf"\b(?:{'|'.join(PACKAGES)})(?:\.\w+)+")


def _names(source: str, scripts: bool) -> Iterator[str]:
    """Dotted names that a module imports, and those in its strings, with `*` for all of a package.

    Strings of several words are prose in a package, and `scripts` in a test.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(level=0):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            case ast.Constant(str(text)) if scripts or " " not in text:
                yield from (f"{name}.*" for name in NAME.findall(text))


def _is_test(path: Path) -> bool:
    return path.parts[0] == "tests" and path.name.startswith("test_")


def uses(root: Path) -> dict[Path, set[Path]]:
    """The files that each Python file below `root` uses directly; paths are relative to `root`."""
    sources = {
        path.relative_to(root): path.read_text("utf-8")
        for package in PACKAGES
        for path in (root / package).rglob("*.py")
    }
    modules: dict[str, set[Path]] = {}
    for path in sources:
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        modules.setdefault(name, set()).add(path)
        modules.setdefault(".".join((*path.parts[:-1], "*")), set()).add(path)
    found = {}
    for path, source in sources.items():
        used = {parent / "conftest.py" for parent in path.parents} if _is_test(path) else set()
        for name in _names(source, scripts=path.parts[0] == "tests"):
            while name and name not in modules:  # what a module defines
                name = name.rpartition(".")[0]
            used |= modules.get(name, set())
        found[path] = (used & sources.keys()) - {path}
    return found


def touched(changed: Iterable[Path], root: Path) -> list[Path]:
    """The test files that use any of the changed files; paths are relative to `root`."""
    direct = uses(root)
    reached = set(changed)
    for path in [path for path in reached if path.suffix != ".py"]:
        reached |= {user for user in direct if path.name in (root / user).read_text("utf-8")}
    while more := {user for user, used in direct.items() if used & reached} - reached:
        reached |= more
    return sorted(path for path in reached & direct.keys() if _is_test(path))


def main(revision: str = "main") -> None:
    """Prints the test files, one a line."""
    command = f"git diff --name-only --merge-base {revision} && git ls-files -o --exclude-standard"
    lines = subprocess.check_output(command, shell=True, cwd=CHECKOUT, text=True).splitlines()
    for path in touched(map(Path, lines), CHECKOUT):
        print(path)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
