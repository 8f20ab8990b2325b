"""Validation errors of the configuration, each in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dssm_tf.common.errors import UserError, similar_name_hint
from dssm_tf.config.model import Config
from dssm_tf.config.structure import component_names, locate

_MAX_VALUE_LENGTH = 60  # characters of a received value that a message quotes


def explain(error: ValidationError) -> str:
    """The first problem in one line, and the number of further ones."""
    problems = error.errors()
    keys = [_dotted_key(problem) for problem in problems]
    # If a value fits no member of a union, pydantic reports the problem once per member.
    same_key = [problem for problem, key in zip(problems, keys, strict=True) if key == keys[0]]
    text = _explain_first(same_key, keys[0])
    more = len(set(keys)) - 1
    if more:
        text += f" ({more} more problem{'s' if more > 1 else ''})"
    return text


def explain_override(
    error: ValidationError, raw: Mapping[str, Any], overrides: Sequence[str]
) -> UserError:
    """The error for overrides that make a valid file invalid."""
    text, first = explain(error), error.errors()[0]
    keys = locate(first["loc"], Config)[0]
    if first["type"] == "unknown_key" and first["ctx"]["key"] in _section_of_file(raw, keys):
        section = ".".join(keys)
        text += (
            f" The key is in the file; override the whole section: --set '{section}={{name: ...}}'."
        )
    return UserError(f"{' '.join(f'--set {override}' for override in overrides)}: {text}")


def _section_of_file(raw: Mapping[str, Any], keys: Sequence[str]) -> Mapping[str, Any]:
    """The section of a file under nested keys; empty if the file has no such section."""
    section: Any = raw
    for key in keys:
        section = section.get(key) if isinstance(section, Mapping) else None
    return section if isinstance(section, Mapping) else {}


def _dotted_key(problem: ErrorDetails) -> str:
    return ".".join(locate(problem["loc"], Config)[0])


def _suggest_name(name: object, names: Sequence[str]) -> str:
    """The end of a message about an unknown name: a suggestion, if a name is similar.

    A name with the same letters in another order, such as `dmss`, is preferred.
    """
    anagrams = [known for known in names if sorted(known) == sorted(str(name))]
    return similar_name_hint(anagrams[0] if anagrams else name, names)


def _explain_first(same_key: Sequence[ErrorDetails], key: str) -> str:
    """One sentence about all problems of one key; most keys have one problem."""
    first = same_key[0]
    received = repr(first["input"])
    if len(received) > _MAX_VALUE_LENGTH:
        received = received[: _MAX_VALUE_LENGTH - 3] + "..."
    match first["type"]:
        case "unknown_key":
            prefix = f"{key}." if key else ""
            allowed = first["ctx"]["keys"].split(", ")
            return f"{prefix}{first['msg']}." + similar_name_hint(first["ctx"]["key"], allowed)
        case "union_tag_not_found" if not first["input"]:
            names = component_names(locate(first["loc"], Config)[1])
            return f"{key}.name is missing; it must be one of {', '.join(names)}."
        case "union_tag_invalid" | "union_tag_not_found":
            names = component_names(locate(first["loc"], Config)[1])
            name = first["input"].get("name")
            received = received if name is None else repr(name)
            return (
                f"{key}.name must be one of {', '.join(names)}; received {received}."
                f"{_suggest_name(name, names)}"
            )
        case "model_attributes_type":
            names = component_names(locate(first["loc"], Config)[1])
            return (
                f"{key} must be a section with a name (one of {', '.join(names)}) and its "
                f"parameters; received {received}."
            )
        case "missing":
            example = "; expected, e.g., `tower: {name: lstm}`" if key == "tower" else ""
            return f"{key} is missing{example}."
    messages = dict.fromkeys(
        # Pydantic has tuples where YAML has lists.
        problem["msg"][0].lower() + problem["msg"][1:].replace("tuple", "list")
        for problem in same_key
    )
    text = ", or ".join(messages)
    # A problem of several sections has no key; its message says what was received.
    return f"{key}: {text}; received {received}." if key else f"{text}."
