"""Arguments for every line of a table, from the types and defaults that the line gives them."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from dssm_tf.common.sections import Choice

_VALUES = (0.25, 2, 5, True, False, (5, 4), "random_normal")


def small(choice: Choice) -> dict[str, Any]:
    """Sizes that a test can afford; all else as it is by default."""
    found: dict[str, Any] = {}
    for key, default in choice.section(name="").arguments.items():
        if isinstance(default, tuple):
            found[key] = (5, 4)
        elif isinstance(default, int) and default > 8:
            found[key] = 4
    return found


def changed(choice: Choice) -> dict[str, Any]:
    """For every argument a value that is not the default."""
    return {
        key: next(value for value in _VALUES if value != default and _fits(choice, key, value))
        for key, default in choice.section(name="").arguments.items()
    }


def _fits(choice: Choice, key: str, value: Any) -> bool:
    try:
        choice.section.model_validate({"name": "", key: value})
    except ValidationError:
        return False
    return True
