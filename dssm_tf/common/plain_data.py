"""Reads JSON and YAML that contain plain data only; errors are one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from dssm_tf.common.errors import UserError


def read_json(path: Path, hint: str) -> Any:
    """Reads a JSON file.

    Args:
        path: the file.
        hint: a sentence for the error message that says how to fix the problem.

    Raises:
        UserError: the file is missing or is not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path} does not exist. {hint}") from None
    except NotADirectoryError:
        raise UserError(f"{path.parent} is a file. {hint}") from None
    except (ValueError, RecursionError) as error:  # RecursionError: a million nested brackets
        raise UserError(f"{path} is damaged, it is not JSON ({error}). {hint}") from None


class _PlainLoader(yaml.SafeLoader):
    """Safe YAML without aliases, in which no mapping has a key twice.

    A few nested aliases make a small file fill the memory. PyYAML would take the last of two keys.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"the alias *{event.anchor} is not allowed; repeat its value",
                event.start_mark,
            )  # fmt: skip
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [
            key.value
            for key, _ in node.value
            if isinstance(key, yaml.ScalarNode) and key.value != "<<"
        ]
        seen: set[Any] = set()
        for key in keys:
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} occurs twice", node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str) -> Any:
    """Parses YAML of lists, mappings, strings, numbers, dates and booleans, without aliases.

    Raises:
        ValueError: the text is not such YAML.
    """
    try:
        return yaml.load(text, _PlainLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None
