"""Reads YAML that contains plain data only."""

from __future__ import annotations

from typing import Any

import yaml


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
        earlier_keys: set[Any] = set()
        for key in keys:
            if key in earlier_keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} occurs twice", node.start_mark
                )
            earlier_keys.add(key)
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
