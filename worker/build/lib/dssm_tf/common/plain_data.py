"""JSON and YAML as plain data: what is no such thing, or would take for ever, is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from dssm_tf.common.errors import UserError

_DEEPEST = 40  # lists and tables in one another
_LONGEST = 1 << 20  # letters of YAML


def read_json(path: Path, mend: str) -> Any:
    """The value of a JSON file.

    Args:
        path: of the file.
        mend: a sentence that says what to do where it cannot be used.

    Raises:
        UserError: the file is missing or no JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path} does not exist. {mend}") from None
    except NotADirectoryError:
        raise UserError(f"{path.parent} is a file. {mend}") from None
    except (ValueError, RecursionError) as error:  # RecursionError: a million brackets
        raise UserError(f"{path} is damaged, it is no JSON ({error}). {mend}") from None


def parse_yaml(text: str) -> Any:
    """The value of a YAML document of lists, tables, texts, numbers, dates and booleans.

    Anchors, aliases and tags are refused: ten lines of aliases can stand for a billion values.

    Raises:
        ValueError: the text is no such document, or nested deeper or longer than configurations
            are.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it has {len(text):,} letters; expected at most {_LONGEST:,}")
    try:
        loader = _PlainLoader(text)
        return loader.get_single_data()
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


class _PlainLoader(yaml.SafeLoader):
    """Reads what `parse_yaml` takes."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        line = f"line {event.start_mark.line + 1}"
        if getattr(event, "anchor", None) is not None:  # an alias has one, too
            raise yaml.YAMLError(
                f"{line}: anchors and aliases (& and *) are not read; spell it out"
            )
        if getattr(event, "tag", None) is not None:
            raise yaml.YAMLError(f"{line}: tags such as {event.tag:.30} are not read; leave it out")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise yaml.YAMLError(f"{line}: it is nested deeper than {_DEEPEST}")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node
