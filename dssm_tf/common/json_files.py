"""Reads JSON files; errors are one line. The package of the runtime has this module too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import check_regular_file


def read_json(path: Path, hint: str, max_bytes: int | None = None) -> Any:
    """Reads a JSON file.

    Args:
        path: the file.
        hint: a sentence for the error message that says how to fix the problem.
        max_bytes: the maximum size of the file; None for any size.

    Raises:
        UserError: the file is missing, is too large, is not JSON, or is a pipe, device or
            directory.
    """
    check_regular_file(path, hint)
    try:
        size = path.stat().st_size
        if max_bytes is not None and size > max_bytes:
            raise UserError(f"{path} has {size:,} bytes; expected at most {max_bytes:,}. {hint}")
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path} does not exist. {hint}") from None
    except NotADirectoryError:
        raise UserError(f"{path.parent} is a file. {hint}") from None
    except (ValueError, RecursionError) as error:  # RecursionError: a million nested brackets
        raise UserError(f"{path} is damaged, it is not JSON ({error}). {hint}") from None


def repeated_key(pairs: Sequence[tuple[str, Any]]) -> str | None:
    """The first key that two pairs of a key and a value have; None if all keys differ.

    >>> repeated_key([("a", 1), ("b", 2), ("a", 3)])
    'a'
    """
    if len(dict(pairs)) == len(pairs):
        return None
    return next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
