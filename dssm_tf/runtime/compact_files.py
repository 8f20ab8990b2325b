"""Reads and checks the files of a compact model.

compact.json    `format`; `name`; `tower`, its configuration; `sides`, which are `query_tower` and,
                unless the towers are shared, `title_tower`; text `rules`; `prior_weight`;
                `mean_prior`; `bm25_weight`; `cutoff`; `unseen`, the log-prior of a title without
                clicks
vocabulary.txt  letter n-grams, one per line, by id from 1
weights.npz     arrays by tower and Keras name, such as `query_tower/hashing/kernel`; an int8
                kernel has an additional array `scale`
prior.npz       `titles`, the sorted 64-bit hashes of clicked titles, and `log_priors`, their
                log-priors: the logs of their fractions of all clicks
spec.json       the specification of the training data; not read here
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

FORMAT = 8
"""Increased when older versions of this package cannot read the files."""

Arrays = dict[str, NDArray[Any]]

_REBUILD_HINT = "Copy the directory again, or write it again with `dssm export --format compact`."


def read_compact(directory: Path) -> tuple[dict[str, Any], Vocabulary, Arrays, Arrays]:
    """Reads and checks a compact model.

    Args:
        directory: a version, or a model; then its newest version is read.

    Returns:
        Settings, vocabulary, weights and prior, as described at the top of this module.

    Raises:
        UserError: the directory does not exist or has another format, or a file was damaged or
            changed.
    """
    directory = newest_version(directory)
    check_files(directory, (COMPACT, VOCABULARY, WEIGHTS, PRIOR), _REBUILD_HINT)
    settings = json.loads((directory / COMPACT).read_bytes())
    if settings["format"] != FORMAT:
        raise UserError(
            f"{directory} is of format {settings['format']!r:.20}; this version reads {FORMAT}. "
            "Install the version of dssm-tf or dssm-runtime that wrote it, or export it again."
        )
    vocabulary = Vocabulary.load(directory / VOCABULARY, Rules.of_json(settings["rules"]))
    weights, prior = (read_arrays(directory / name, _REBUILD_HINT) for name in (WEIGHTS, PRIOR))
    return settings, vocabulary, weights, prior
