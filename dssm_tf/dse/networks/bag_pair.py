"""What DSE, SSI and PSI share: two bags of words in, a dot product of two vectors out."""

from __future__ import annotations

import abc

import keras
from keras import ops


class BagPair(keras.Model, abc.ABC):
    """Scores every title of a batch for every query of it by the dot product of their vectors.

    Differs from `dssm_tf.model.siamese.Siamese` by its inputs, vectors over words instead of text
    batches, by the plain dot product instead of the cosine, and by scoring all pairs, so that a
    title is encoded once for all the training tuples it takes part in.

    Call arguments:
        queries: `(queries, words)`.
        titles: `(titles, words)`.

    Returns:
        `(queries, titles)`.
    """

    def call(self, queries, titles):
        """Scores of all pairs."""
        return ops.matmul(self.query_vectors(queries), ops.transpose(self.title_vectors(titles)))

    @abc.abstractmethod
    def query_vectors(self, queries):
        """Vectors of queries, `(queries, length)`; a title's vector has the same length."""

    @abc.abstractmethod
    def title_vectors(self, titles):
        """Vectors of titles, `(titles, length)`."""


def check_dimension(name: str, dimension: int, words: int) -> None:
    """Refuses embeddings that are empty or larger than what they embed.

    Raises:
        ValueError: the dimension is below 1 or above the number of words.
    """
    if not 1 <= dimension <= words:
        raise ValueError(
            f"{name} received dimension={dimension} with {words} words; expected "
            "1 <= dimension <= words (C < D in the paper). Lower it, or keep more words."
        )
