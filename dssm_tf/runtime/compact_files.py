"""The directory of a compact model: its files, and how they are read and checked.

compact.json    format, tower, text rules, weight of the prior
vocabulary.txt  letter trigrams, one a line, by id from 1 on
weights.npz     arrays by side and Keras name, such as `query_tower/hashing/kernel`; an int8
                kernel has a `scale` beside it, shortened vectors a `projection`
prior.npz       fingerprints of the titles that were clicked, increasing, and their log shares
MODEL_CARD.md
SHA256SUMS
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import read_arrays
from dssm_tf.common.checksums import check_files
from dssm_tf.common.errors import UserError
from dssm_tf.common.model_versions import newest_version
from dssm_tf.text.rules import Rules
from dssm_tf.text.vocabulary import Vocabulary

COMPACT = "compact.json"
VOCABULARY = "vocabulary.txt"
WEIGHTS = "weights.npz"
PRIOR = "prior.npz"

FORMAT = 3
"""Counted up when an older version of this package could not read what is written."""

_AGAIN = "Copy the directory again, or write it again with `dssm export --format compact`."


@dataclass(frozen=True)
class Compact:
    """What a compact directory holds.

    Attributes:
        name: of the model.
        tower: `name`, and what `make_tower` asks for.
        sides: `query_tower`, and `title_tower` where there are two.
        dimension: of a unit vector.
        vocabulary: trigrams and text rules.
        arrays: by side and Keras name.
        prior_weight: weight of the log-prior.
        known_titles: fingerprints of normalised titles, int64, increasing.
        log_shares: their log shares of clicks, float32.
        unseen: the log share of any other title.
    """

    name: str
    tower: Mapping[str, Any]
    sides: tuple[str, ...]
    dimension: int
    vocabulary: Vocabulary
    arrays: Mapping[str, NDArray[Any]]
    prior_weight: float
    known_titles: NDArray[np.int64]
    log_shares: NDArray[np.float32]
    unseen: float

    def side(self, side: str) -> dict[str, NDArray[Any]]:
        """The arrays of one side."""
        start = f"{side}/"
        return {k.removeprefix(start): v for k, v in self.arrays.items() if k.startswith(start)}


def read_compact(directory: Path) -> Compact:
    """Reads and checks what `dssm export --format compact` wrote.

    Raises:
        UserError: there is no such directory, it is of a newer format, or a file was damaged or
            changed.
    """
    directory = newest_version(directory)
    settings = _settings(directory)
    check_files(directory, None, _AGAIN)
    vocabulary = Vocabulary.load(directory / VOCABULARY, Rules.of_json(settings["rules"]))
    prior = read_arrays(directory / PRIOR, _AGAIN)
    return Compact(
        settings["name"],
        settings["tower"],
        tuple(settings["sides"]),
        settings["dimension"],
        vocabulary,
        read_arrays(directory / WEIGHTS, _AGAIN),
        settings["prior_weight"],
        prior["titles"],
        prior["log_shares"],
        settings["unseen"],
    )


def _settings(directory: Path) -> dict[str, Any]:
    """The content of `compact.json`, of a format that is read here."""
    path = directory / COMPACT
    try:
        found = json.loads(path.read_bytes())
        written = found["format"]
    except FileNotFoundError:
        missing = f"holds no {COMPACT}" if directory.exists() else "does not exist"
        raise UserError(
            f"{directory} {missing}; expected a directory that `dssm export --format compact` "
            "wrote."
        ) from None
    except NotADirectoryError:
        raise UserError(
            f"{directory} is a file; expected a directory that `dssm export --format compact` "
            "wrote."
        ) from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged ({error}). {_AGAIN}") from None
    if written != FORMAT:
        raise UserError(
            f"{directory} is of format {written!r:.20}; this version reads {FORMAT}. "
            "Install the version of dssm-tf or dssm-runtime that wrote it, or export it again."
        )
    settings: dict[str, Any] = found
    return settings
