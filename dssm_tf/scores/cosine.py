"""The cosine of two semantic vectors."""

from __future__ import annotations

import keras
from keras import ops

from dssm_tf.scores.score import Score, normalize_vectors


@keras.saving.register_keras_serializable(package="dssm_tf")
class Cosine(Score):
    """The cosine of the query's and the title's semantic vector; 0 if a text is empty.

    Reference: Huang et al. 2013, eq. 4; Shen et al. 2014, eq. 4; Palangi et al. 2016, eq. 3.
    """

    def call(self, queries: keras.KerasTensor, titles: keras.KerasTensor) -> keras.KerasTensor:
        """Cosines float32 `(queries, titles)`."""
        return ops.matmul(normalize_vectors(queries), ops.transpose(normalize_vectors(titles)))
