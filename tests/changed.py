"""Lists the test files that directly or indirectly use a changed file.

    python -m tests.changed [REVISION]

compares with REVISION, by default main, and includes uncommitted changes. A module uses another if
it imports it, at the top or in a function, or names it in a string, as tables of lazily imported
modules and command lines do. The name of a package in a string stands for all its modules. A test
also uses the conftest.py files of its directories. A change of a file that is not Python counts as
a change of the modules that name the file.
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
    """Dotted names that a module imports or has in strings; `.*` stands for all of a package.

    Strings of several words are read only if `scripts` is true: in tests they may be code, in
    packages they are prose.
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
    used_files = {}
    for path, source in sources.items():
        used_paths = (
            {parent / "conftest.py" for parent in path.parents} if _is_test(path) else set()
        )
        for name in _names(source, scripts=path.parts[0] == "tests"):
            while name and name not in modules:  # drops names that a module defines
                name = name.rpartition(".")[0]
            used_paths |= modules.get(name, set())
        used_files[path] = (used_paths & sources.keys()) - {path}
    return used_files


def affected_tests(changed: Iterable[Path], root: Path) -> list[Path]:
    """The test files that use any of the changed files; paths are relative to `root`."""
    used_files = uses(root)
    affected = set(changed)
    for path in [path for path in affected if path.suffix != ".py"]:
        affected |= {user for user in used_files if path.name in (root / user).read_text("utf-8")}
    while users := {user for user, used in used_files.items() if used & affected} - affected:
        affected |= users
    return sorted(path for path in affected & used_files.keys() if _is_test(path))


def main(revision: str = "main") -> None:
    """Prints the test files, one per line."""
    command = f"git diff --name-only --merge-base {revision} && git ls-files -o --exclude-standard"
    lines = subprocess.check_output(command, shell=True, cwd=CHECKOUT, text=True).splitlines()
    for path in affected_tests(map(Path, lines), CHECKOUT):
        print(path)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
