"""The directory of a compact model: its files, and how they are read and checked.

compact.json    format; `name`; `tower`, its configuration; `sides`, `query_tower` and, if there are
                two, `title_tower`; text `rules`; `prior_weight`;
                `mean_prior`;
                `bm25_weight`; `cutoff`; `unseen`, the log share of a title that nobody clicked
vocabulary.txt  letter trigrams, one a line, by id from 1 on
weights.npz     arrays by side and Keras name, such as `query_tower/hashing/kernel`; an int8
                kernel has a `scale` beside it
prior.npz       `titles`, fingerprints of the titles that were clicked, increasing, and their
                `log_shares`
spec.json       of the data that it was trained on, not read here
MODEL_CARD.md
SHA256SUMS
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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

FORMAT = 7
"""Counted up when an older version of this package could not read what is written."""

Arrays = dict[str, NDArray[Any]]

_AGAIN = "Copy the directory again, or write it again with `dssm export --format compact`."


def read_compact(directory: Path) -> tuple[dict[str, Any], Vocabulary, Arrays, Arrays]:
    """Reads and checks what `dssm export --format compact` wrote.

    Returns:
        Settings, vocabulary, weights and prior; see the head of this file.

    Raises:
        UserError: there is no such directory, it is of another format, or a file was damaged or
            changed.
    """
    directory = newest_version(directory)
    check_files(directory, (COMPACT, VOCABULARY, WEIGHTS, PRIOR), _AGAIN)
    settings = json.loads((directory / COMPACT).read_bytes())
    if settings["format"] != FORMAT:
        raise UserError(
            f"{directory} is of format {settings['format']!r:.20}; this version reads {FORMAT}. "
            "Install the version of dssm-tf or dssm-runtime that wrote it, or export it again."
        )
    vocabulary = Vocabulary.load(directory / VOCABULARY, Rules.of_json(settings["rules"]))
    weights, prior = (read_arrays(directory / name, _AGAIN) for name in (WEIGHTS, PRIOR))
    return settings, vocabulary, weights, prior
