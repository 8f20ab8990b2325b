"""PSI: polynomial semantic indexing of degree 3."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dssm_tf.dse.networks.ssi import SSI


@keras.saving.register_keras_serializable(package="dssm_tf")
class PSI(SSI):
    """Scores by SSI's terms plus `sum_i (Pq)_i (Vd)_i (Yd)_i`: pairs of a title's words count.

    The title has two embeddings in the product of three, as W14 sec. 4.3 remarks. P is the
    query's own (U in the cited paper, where the terms of degree 2 and 3 do not share it).

    Args:
        words: D.
        dimension: C, of every embedding.
        scale: standard deviation of the embeddings at first.
        seed: of the embeddings at first.

    Call arguments, returns: see `BagPair`.

    Reference: Bai et al. 2009 (Polynomial semantic indexing), degree 3; Wu et al. 2014, sec. 4.3.
    """

    def __init__(
        self,
        words: int,
        dimension: int = 100,
        scale: float = 0.1,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(words, dimension, scale, seed, **kwargs)
        self.cubic_query = self._matrix("cubic_query", seed + 1)  # P'
        self.cubic_first = self._matrix("cubic_first", seed + 2)  # V'
        self.cubic_second = self._matrix("cubic_second", seed + 3)  # Y'

    def query_vectors(self, queries):
        """`[Uq, q, Pq]`: `(queries, 2 * dimension + words)`."""
        cubic = ops.matmul(queries, self.cubic_query)
        return ops.concatenate([super().query_vectors(queries), cubic], axis=-1)

    def title_vectors(self, titles):
        """`[Ud, d, Vd * Yd]`: `(titles, 2 * dimension + words)`."""
        cubic = ops.matmul(titles, self.cubic_first) * ops.matmul(titles, self.cubic_second)
        return ops.concatenate([super().title_vectors(titles), cubic], axis=-1)
