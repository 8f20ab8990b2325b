"""JSON and YAML as plain data: what is no such thing is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from dssm_tf.common.errors import UserError


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
        raise UserError(f"{path} is damaged, it is not JSON ({error}). {mend}") from None


def parse_yaml(text: str) -> Any:
    """The value of a YAML document of lists, tables, texts, numbers, dates and booleans.

    Raises:
        ValueError: the text is no such document.
    """
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None
