"""What preprocess counted of its records, so that a training need not pass over them first.

Two files beside the feature spec; directories that earlier versions wrote lack them.

`record_counts.json` holds a `RecordCounts` for each split. `title_queries.tsv` holds a row for
each title whose text is a query of the log, too: `title_id`, and `clicked_ids`, those of every
title clicked for that query, separated by spaces. Both ids are `text_id`s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.plain_data import read_json

_RECORD_COUNTS = "record_counts.json"
TITLE_QUERIES = "title_queries.tsv"


@dataclass(frozen=True)
class RecordCounts:
    """Counts over the records of one split.

    Args:
        file_bytes: size of each shard, by file name.
        clicks: records by the clicks of their pair.
        title_words: records by the words of their clicked title, of which `max_words` are read.
    """

    file_bytes: Mapping[str, int]
    clicks: Mapping[int, int]
    title_words: Mapping[int, int]


def save_record_counts(counts: Mapping[str, RecordCounts], directory: Path) -> None:
    """Writes `record_counts.json`.

    Args:
        counts: by split.
        directory: where to.
    """
    with atomic_write(Path(directory) / _RECORD_COUNTS) as file:
        json.dump({split: asdict(one) for split, one in counts.items()}, file, indent=2)
        file.write("\n")


def load_record_counts(directory: Path) -> dict[str, RecordCounts] | None:
    """The counts by split; None for a directory without them.

    Raises:
        UserError: the file is damaged.
    """
    path = Path(directory) / _RECORD_COUNTS
    if not path.exists():
        return None
    try:
        return {
            split: RecordCounts(
                {name: _whole(size) for name, size in one["file_bytes"].items()},
                {_whole(int(clicks)): _whole(n) for clicks, n in one["clicks"].items()},
                {_whole(int(words)): _whole(n) for words, n in one["title_words"].items()},
            )
            for split, one in read_json(path, "Run preprocess again.").items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); run preprocess again.") from None


def _whole(number: object) -> int:
    if type(number) is not int or not 0 <= number < 1 << 53:
        raise ValueError(f"{number!r:.60} is no number of anything counted")
    return number


def load_title_queries(directory: Path) -> dict[int, list[int]] | None:
    """The ids clicked for each title that is a query, too; None for a directory without them.

    Raises:
        UserError: a row is damaged.
    """
    path = Path(directory) / TITLE_QUERIES
    try:
        rows = path.read_text("ascii").splitlines()[1:]
        return {
            int(title): [int(one) for one in clicked.split(" ")]
            for title, clicked in (row.split("\t") for row in rows)
        }
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); run preprocess again.") from None
