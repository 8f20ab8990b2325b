"""PSI as a baseline: SSI and a product of three embeddings, trained from clicks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.dse.rankers.bag_ranker import Arrays, BagRanker, Vectors

if TYPE_CHECKING:
    from dssm_tf.dse.networks.bag_pair import BagPair


class PSI(BagRanker):
    """Scores by `q'(U'U + I)d + sum_i (Pq)_i (Vd)_i (Yd)_i` on normalised word vectors.

    Args:
        options: see `BagRanker`.

    Reference: Bai et al. 2009, degree 3; Wu et al. 2014, sec. 4.3.
    """

    name = "psi"

    def _make(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks.psi import PSI as Pair

        return Pair(words, dimension, seed=self.seed)

    def _export(self, model: BagPair) -> Mapping[str, NDArray[Any]]:
        names = ("embedding", "cubic_query", "cubic_first", "cubic_second")
        return {name: getattr(model, name).numpy() for name in names}

    def _query_vectors(self, bags: sparse.csr_matrix, arrays: Arrays) -> Vectors:
        parts = [bags @ arrays["embedding"], bags @ arrays["cubic_query"]]
        return np.concatenate(parts, axis=1)

    def _title_vectors(self, bags: sparse.csr_matrix, arrays: Arrays) -> Vectors:
        cubic = (bags @ arrays["cubic_first"]) * (bags @ arrays["cubic_second"])
        return np.concatenate([bags @ arrays["embedding"], cubic], axis=1)
