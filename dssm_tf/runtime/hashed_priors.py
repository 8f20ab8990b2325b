"""The log-priors of titles in a compact model, by the hashes of titles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dssm_tf.runtime.compact_files import CompactFiles
from dssm_tf.runtime.trained_ranker import Vectors
from dssm_tf.text.rules import Key
from dssm_tf.text.stable_hash import fingerprint64


class HashedPriors:
    """Weighted log-priors of normalized titles.

    Args:
        files: the files of a compact model.
    """

    def __init__(self, files: CompactFiles) -> None:
        prior, settings = files.prior, files.settings
        # The last hash is a sentinel; the last log-prior is that of titles without clicks.
        self._hashes = np.append(prior["titles"], np.iinfo(np.int64).max)
        log_priors = np.append(prior["log_priors"], np.float32(settings["unseen"]))
        weighted = np.multiply(settings["prior_weight"], log_priors, dtype=np.float32)
        self._weighted = weighted + np.float32(0)  # with a weight of 0, -0.0 becomes 0.0

    def __call__(self, titles: Sequence[Key]) -> Vectors:
        """The weighted log-priors, float32 `(len(titles),)`."""
        hashes = np.fromiter(map(fingerprint64, titles), np.int64, len(titles))
        rows = np.searchsorted(self._hashes, hashes)
        known = self._hashes[rows] == hashes
        return np.where(known, self._weighted[rows], self._weighted[-1])
