"""Resolves the package's dependencies on several Pythons and prints constraints.txt.

    python3 .ci/constraints.py python3.10 python3.11 ... > constraints.txt

A package whose version is the same everywhere gets one line; one that differs gets a line with an
environment marker for each range of Pythons. Interpreters that do not run are left out, and said.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = [".[serving,serve,search,tune,baselines,wordllama,docs,dev]", "setuptools"]

HEADER = """\
# Versions that work together, for `pip install -e .[...] -c constraints.txt`: the set the tests run
# with. It limits versions and installs nothing; setup.py says what is needed and how loosely.
# Written by `make constraints`, not by hand, for the extras serving, serve, search,
# tune, baselines, wordllama, docs and dev.
# Resolved on Python {pythons}.
"""


def main(interpreters: list[str]) -> None:
    """Writes the constraints that hold on all `interpreters` to standard output."""
    resolved: dict[str, dict[str, str]] = {}
    for interpreter in interpreters:
        version = python_version(interpreter)
        if version is None:
            sys.stderr.write(f"{interpreter} does not run here: left out\n")
            continue
        sys.stderr.write(f"resolving on Python {version}\n")
        resolved[version] = resolve(interpreter)
    if not resolved:
        sys.exit(f"none of these runs: {' '.join(interpreters) or '(no Python named)'}")
    pythons = sorted(resolved, key=as_numbers)
    sys.stdout.write(HEADER.format(pythons=", ".join(pythons)))
    for name in sorted(set().union(*resolved.values())):
        for line in lines(name, [(python, resolved[python].get(name)) for python in pythons]):
            sys.stdout.write(line + "\n")


def python_version(interpreter: str) -> str | None:
    """Returns for example "3.11", or None when the interpreter does not run."""
    code = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.check_output(
            [interpreter, "-c", code], text=True, stderr=subprocess.DEVNULL
        )
    except (OSError, subprocess.CalledProcessError):
        return None


def resolve(interpreter: str) -> dict[str, str]:
    """Returns the version of every package an empty environment would get."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([interpreter, "-m", "venv", scratch], check=True)
        pip = [f"{scratch}/bin/python", "-m", "pip", "--quiet"]
        # Older resolvers need an hour where a current one needs seconds.
        subprocess.run([*pip, "install", "--upgrade", "pip"], check=True)
        report = Path(scratch, "report.json")
        command = [*pip, "install", "--dry-run", "--report", str(report), *REQUIREMENTS]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        packages = json.loads(report.read_text("utf-8"))["install"]
    return {
        re.sub(r"[-_.]+", "-", package["metadata"]["name"]).lower(): package["metadata"]["version"]
        for package in packages
        if not package["is_direct"]
    }


def lines(name: str, versions: list[tuple[str, str | None]]) -> list[str]:
    """Returns the constraint lines of one package.

    Args:
        name: the package.
        versions: (Python, version or None where it is not needed), Pythons ascending.
    """
    needed = [(python, version) for python, version in versions if version is not None]
    groups = [
        (version, [python for python, _ in group])
        for version, group in groupby(needed, key=lambda pair: pair[1])
    ]
    result = []
    for position, (version, pythons) in enumerate(groups):
        conditions = []
        if position > 0:
            conditions.append(f'python_version >= "{pythons[0]}"')
        if position < len(groups) - 1:
            conditions.append(f'python_version < "{groups[position + 1][1][0]}"')
        marker = f" ; {' and '.join(conditions)}" if conditions else ""
        result.append(f"{name}=={version}{marker}")
    return result


def as_numbers(version: str) -> tuple[int, ...]:
    """Returns "3.10" as (3, 10), which sorts after (3, 9)."""
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    main(sys.argv[1:])
