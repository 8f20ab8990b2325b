"""`record_counts.json`: what preprocess counted, so that no training passes over all records first.

It holds a `RecordCounts` for each split.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.plain_data import read_json

RECORD_COUNTS = "record_counts.json"


@dataclass(frozen=True)
class RecordCounts:
    """Counts over the records of one split.

    Args:
        file_bytes: size of each shard, by file name.
        clicks: records by the clicks of their pair, weighted ones if preprocess was told to.
        title_words: records by the words of their clicked title, of which `max_words` are read.
        negatives: records by how many they hold.
    """

    file_bytes: Mapping[str, int]
    clicks: Mapping[float, int]
    title_words: Mapping[int, int]
    negatives: Mapping[int, int]


def save_record_counts(counts: Mapping[str, RecordCounts], directory: Path) -> None:
    """Writes `record_counts.json`.

    Args:
        counts: by split.
        directory: where to.
    """
    with atomic_write(Path(directory) / RECORD_COUNTS) as file:
        json.dump({split: asdict(one) for split, one in counts.items()}, file, indent=2)
        file.write("\n")


def load_record_counts(directory: Path) -> dict[str, RecordCounts]:
    """The counts by split.

    Raises:
        UserError: the file is missing or damaged.
    """
    path = Path(directory) / RECORD_COUNTS
    if not path.exists():
        raise UserError(f"{path} does not exist; preprocess writes it.")
    try:
        return {
            split: RecordCounts(
                {name: _whole(size) for name, size in one["file_bytes"].items()},
                {_clicks(value): _whole(n) for value, n in one["clicks"].items()},
                *(
                    {_whole(int(value)): _whole(n) for value, n in one[name].items()}
                    for name in ("title_words", "negatives")
                ),
            )
            for split, one in read_json(path, "Run preprocess again.").items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); run preprocess again.") from None


def _clicks(text: str) -> float:
    if not 0 < (number := float(text)) < 1 << 53:
        raise ValueError(f"{text!r:.60} is no number of clicks")
    return number


def _whole(number: object) -> int:
    if type(number) is not int or not 0 <= number < 1 << 53:
        raise ValueError(f"{number!r:.60} is no number of anything counted")
    return number
