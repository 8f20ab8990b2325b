"""SSI as a baseline: a linear embedding of words beside the words, trained from clicks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.dse.rankers.bag_ranker import Arrays, BagRanker, Vectors

if TYPE_CHECKING:
    from dssm_tf.dse.networks.bag_pair import BagPair


class SSI(BagRanker):
    """Scores by `q'(U'U + I)d` on normalised word vectors.

    Args:
        options: see `BagRanker`.

    Reference: Bai et al. 2009; Wu et al. 2014, eq. 26-27.
    """

    name = "ssi"

    def _make(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks.ssi import SSI as Pair

        return Pair(words, dimension, seed=self.seed)

    def _export(self, model: BagPair) -> Mapping[str, NDArray[Any]]:
        return {"embedding": model.embedding.numpy()}

    def _query_vectors(self, bags: sparse.csr_matrix, arrays: Arrays) -> Vectors:
        vectors: Vectors = bags @ arrays["embedding"]
        return vectors

    def _title_vectors(self, bags: sparse.csr_matrix, arrays: Arrays) -> Vectors:
        vectors: Vectors = bags @ arrays["embedding"]
        return vectors
