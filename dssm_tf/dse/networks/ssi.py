"""SSI: supervised semantic indexing, the linear rival of DSE."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dssm_tf.dse.networks.bag_pair import BagPair, check_dimension


@keras.saving.register_keras_serializable(package="dssm_tf")
class SSI(BagPair):
    """Scores by `q'(U'U + I)d`: a linear embedding beside the words themselves.

    Args:
        words: D.
        dimension: C, rows of U.
        scale: standard deviation of U at first.
        seed: of U at first.

    Call arguments, returns: see `BagPair`.

    Reference: Bai et al. 2009 (SSI); Wu et al. 2014, eq. 26-27.
    """

    def __init__(
        self,
        words: int,
        dimension: int = 100,
        scale: float = 0.1,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_dimension(type(self).__name__, dimension, words)
        self.words = words
        self.dimension = dimension
        self.scale = scale
        self.seed = seed
        self.embedding = self._matrix("embedding", seed)  # U', columns instead of rows
        self.built = True

    def _matrix(self, name, seed):
        return self.add_weight(
            name=name,
            shape=(self.words, self.dimension),
            initializer=keras.initializers.RandomNormal(stddev=self.scale, seed=seed),
        )

    def query_vectors(self, queries):
        """`[Uq, q]`: `(queries, dimension + words)`."""
        return ops.concatenate([ops.matmul(queries, self.embedding), queries], axis=-1)

    def title_vectors(self, titles):
        """`[Ud, d]`: `(titles, dimension + words)`."""
        return ops.concatenate([ops.matmul(titles, self.embedding), titles], axis=-1)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {
            "words": self.words,
            "dimension": self.dimension,
            "scale": self.scale,
            "seed": self.seed,
        }
