"""Two towers and a cosine: the model all click systems of the papers share."""

from __future__ import annotations

from contextlib import nullcontext
from typing import ClassVar

import keras
from keras import ops

from dssm_tf.towers.tower import Tower

EPSILON = 1e-12


def normalize_vectors(vectors):
    """Vectors `(..., dimension)` at length one, in float32; a zero vector stays zero."""
    vectors = ops.cast(vectors, "float32")
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squares, EPSILON))


@keras.saving.register_keras_serializable(package="dssm_tf")
class Siamese(keras.Model):
    """Cosines of each query with its candidate titles.

    Distinct titles are encoded once a batch and then picked per query, so a title that is
    clicked, a negative and an in-batch negative at once costs one pass.

    Args:
        query_tower: encodes queries.
        title_tower: encodes titles; None shares the query tower. The papers keep two.

    Call arguments:
        inputs: dict with `query` and `titles`, two text batches of `batch` and `distinct_titles`
            texts, and `candidates` int `(batch, columns)`, rows of `titles`; column 0 is the
            clicked title. For shared towers `texts` may stand for both, the titles below the
            queries: one pass through the tower instead of two.

    Returns:
        Cosines float32 `(batch, columns)`.

    Reference: Palangi et al. 2016, eq. 3; Shen et al. 2014, eq. 4.
    """

    nested_lengths: ClassVar = ()

    def __init__(self, query_tower, title_tower=None, **kwargs):
        super().__init__(**kwargs)
        for tower in (query_tower, title_tower):
            if tower is not None and not isinstance(tower, Tower):
                raise ValueError(
                    f"Siamese received a {type(tower).__name__} as a tower; expected one of "
                    "dssm_tf.towers.TOWERS."
                )
        if title_tower is not None and title_tower.dimension != query_tower.dimension:
            raise ValueError(
                f"The towers' vectors have lengths {query_tower.dimension} and "
                f"{title_tower.dimension}; a cosine needs equal lengths."
            )
        self.query_tower = query_tower
        self.shared = title_tower is None
        self.title_tower = query_tower if self.shared else title_tower

    def build(self, *_):
        """Builds both towers; no weight's shape depends on the input."""
        sides = {"query_tower": self.query_tower}
        if not self.shared:
            sides["title_tower"] = self.title_tower
        for side, tower in sides.items():
            if not tower.built:  # a tower that is read from a file comes built
                # The side stands in the paths of the weights, by which the optimiser clips.
                with nullcontext() if tower.name == side else keras.name_scope(side):
                    tower.build()
        self.built = True

    def call(self, inputs, training=False):
        """Cosines of each query with its candidates."""
        if "texts" in inputs:
            if not self.shared:
                raise ValueError(
                    "Siamese received `texts`, queries and titles in one text batch, but has two "
                    "towers; expected `query` and `titles`."
                )
            vectors = self.query_tower(inputs["texts"], training=training)
            rows = ops.shape(inputs["candidates"])[0]
            queries, titles = vectors[:rows], vectors[rows:]
        else:
            queries = self.query_tower(inputs["query"], training=training)
            titles = self.title_tower(inputs["titles"], training=training)
        return self.cosines(queries, titles, inputs["candidates"])

    def cosines(self, queries, titles, candidates):
        """Cosines `(batch, columns)` of queries' vectors with those of their candidates."""
        products = ops.matmul(normalize_vectors(queries), ops.transpose(normalize_vectors(titles)))
        return ops.take_along_axis(products, candidates, axis=1)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The compiled `RankingLoss`; Keras' own would look for an output for each part of `y`."""
        return self.loss(y, y_pred, sample_weight)

    def encode_query(self, texts):
        """Unit semantic vectors of a text batch of queries, float32 `(texts, dimension)`."""
        return normalize_vectors(self.query_tower(texts, training=False))

    def encode_title(self, texts):
        """Unit semantic vectors of a text batch of titles, float32 `(texts, dimension)`."""
        return normalize_vectors(self.title_tower(texts, training=False))

    def get_build_config(self):
        """Nothing is needed to build, but an empty dict would leave a loaded model unbuilt."""
        return {"input_shape": None}

    def build_from_config(self, config):
        """Builds the weights before they are loaded."""
        self.build()

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        serialize = keras.saving.serialize_keras_object
        return super().get_config() | {
            "query_tower": serialize(self.query_tower),
            "title_tower": None if self.shared else serialize(self.title_tower),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Rebuilds the model with its towers."""
        deserialize = keras.saving.deserialize_keras_object
        config = dict(config)
        for name in ("query_tower", "title_tower"):
            if config[name] is not None:
                config[name] = deserialize(config[name], custom_objects=custom_objects)
        return cls(**config)


@keras.saving.register_keras_serializable(package="dssm_tf")
class NestedSiamese(Siamese):
    """Cosines by the first numbers of the vectors, too: vectors may be cut and still rank.

    Args:
        query_tower: see `Siamese`.
        title_tower: see `Siamese`.
        nested_lengths: to which vectors may be cut, increasing and below the towers' dimension.

    Call arguments: see `Siamese`.

    Returns:
        `(batch, columns, lengths + 1)`, by each length and, last, by all numbers.

    Reference: Kusupati et al. 2022 (Matryoshka).
    """

    def __init__(self, query_tower, title_tower=None, nested_lengths=(), **kwargs):
        super().__init__(query_tower, title_tower, **kwargs)
        self.nested_lengths = tuple(nested_lengths)

    def cosines(self, queries, titles, candidates):
        """Cosines `(batch, columns, lengths + 1)`."""
        lengths = (*self.nested_lengths, None)
        cut = super().cosines
        return ops.stack([cut(queries[:, :n], titles[:, :n], candidates) for n in lengths], axis=-1)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"nested_lengths": self.nested_lengths}
