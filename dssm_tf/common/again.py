"""A finished command given again: the same words and the same inputs, so nothing is left to do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from dssm_tf import __version__
from dssm_tf.common.files import atomic_write

REQUEST = "command.json"


def request(command: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a command was asked, as plain data.

    Args:
        command: its name.
        given: its arguments by name. Of those that are paths, or `NAME=PATH`, the files' sizes
            and times of change belong to the request: a log of gigabytes is not read for it.
    """
    words = {name: _plain(value) for name, value in given.items()}
    return {
        "command": command,
        "version": __version__,
        "arguments": words,
        "inputs": {word: stamp for word in _flat(words.values()) if (stamp := _stamp(word))},
    }


def done_before(directory: Path, asked: Mapping[str, Any]) -> bool:
    """Whether the same command wrote a finished directory from the same inputs."""
    try:
        return bool(json.loads((directory / REQUEST).read_text("utf-8")) == asked)
    except (OSError, ValueError):
        return False


def remember(directory: Path, asked: Mapping[str, Any]) -> None:
    """Writes what was asked into the directory that answers it."""
    with atomic_write(directory / REQUEST) as file:
        json.dump(asked, file, indent=2, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, bool | int | float | None) else str(value)


def _flat(values: Iterable[Any]) -> Iterable[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from _flat(value)


def _stamp(word: str) -> str:
    """Sizes and times of the files that a word names; empty for one that names none."""
    try:
        named = [one for one in (word, word.partition("=")[2]) if one and Path(one).exists()]
    except (OSError, ValueError):  # too long, or with a null character
        return ""
    if not named:
        return ""
    path = Path(named[0])
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    about = [(str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in files]
    return sha256(json.dumps(about).encode("utf-8", "surrogatepass")).hexdigest()
