"""DSE: stacked RBMs, unrolled into a network that embeds bags of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from dssm_tf.dse.networks.bag_pair import BagPair, check_dimension
from dssm_tf.dse.rbm import RBM


@keras.saving.register_keras_serializable(package="dssm_tf")
class DSE(keras.layers.Layer):
    """Maps word features to a semantic vector through RBMs used as feed-forward layers.

    Not a `Tower`: that class starts from the letter trigrams of a text batch and zeroes the
    vectors of empty texts, whereas this network, as the paper has it, reads vectors over the
    most frequent words, in which the text is not to be seen any more.

    Each RBM is taught without labels on the means of the one below (`dssm_tf.dse.margin_training`);
    its `call` is the mean of its hidden units, so the stack as it stands is the unrolled
    network, fine-tuned by back-propagation through the same weights.

    Args:
        words: D, the length of the input.
        dimension: C, the length of the semantic vector, at most D.
        widths: units of the binary layers; `(D/2, D/2, D)` as in the paper by default.
        steps: k of CD-k.
        seed: of weights and sampling.

    Call arguments:
        bags: `(texts, words)`, each entry from 0 to 1.

    Returns:
        `(texts, dimension)`.

    Reference: Wu et al. 2014, sec. 2.1-2.2 and 4.1.
    """

    def __init__(
        self,
        words: int,
        dimension: int = 100,
        widths: Sequence[int] | None = None,
        steps: int = 1,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_dimension("DSE", dimension, words)
        self.words = words
        self.dimension = dimension
        half = max(1, words // 2)
        self.widths = (half, half, words) if widths is None else tuple(widths)
        self.steps = steps
        self.seed = seed
        kinds = ["binary"] * len(self.widths) + ["gaussian"]
        self.machines = [
            RBM(units, kind, steps, seed=seed + place, name=f"rbm_{place}", dtype=self.dtype_policy)
            for place, (units, kind) in enumerate(
                zip((*self.widths, dimension), kinds, strict=True)
            )
        ]

    def build(self, *_):
        """Builds every RBM on the units of the one below."""
        below = self.words
        for machine in self.machines:
            machine.build((None, below))
            below = machine.units
        self.built = True

    def call(self, bags):
        """The means of the hidden units, layer by layer."""
        for machine in self.machines:
            bags = machine(bags)
        return bags

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {
            "words": self.words,
            "dimension": self.dimension,
            "widths": list(self.widths),
            "steps": self.steps,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="dssm_tf")
class DSEPair(BagPair):
    """Scores by `phi(q)' A phi(d)`, with one tower or two, A the identity unless asked for.

    Args:
        words: D.
        dimension: C.
        shared: whether queries and titles go through one tower, as in the paper.
        bilinear: whether A is learned; it starts as the identity.
        widths: units of the binary layers, see `DSE`.
        steps: k of CD-k.
        seed: of weights and sampling.

    Call arguments, returns: see `BagPair`.

    Reference: Wu et al. 2014, eq. 1-2.
    """

    def __init__(
        self,
        words: int,
        dimension: int = 100,
        shared: bool = True,
        bilinear: bool = False,
        widths: Sequence[int] | None = None,
        steps: int = 1,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.shared = shared
        self.bilinear = bilinear

        def tower(name, first_seed):
            return DSE(
                words, dimension, widths, steps, first_seed, name=name, dtype=self.dtype_policy
            )

        self.query_tower = tower("tower" if shared else "query_tower", seed)
        self.title_tower = self.query_tower if shared else tower("title_tower", seed + 100)
        for each in self.towers:
            each.build()
        if bilinear:
            self.relation = self.add_weight(
                name="relation", shape=(dimension, dimension), initializer="identity"
            )
        self.built = True

    @property
    def towers(self):
        """The one tower, or that of the queries and that of the titles."""
        return [self.query_tower] if self.shared else [self.query_tower, self.title_tower]

    def query_vectors(self, queries):
        """`A' phi(q)`: `(queries, dimension)`."""
        vectors = self.query_tower(queries)
        return ops.matmul(vectors, self.relation) if self.bilinear else vectors

    def title_vectors(self, titles):
        """`phi(d)`: `(titles, dimension)`."""
        return self.title_tower(titles)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        tower = self.query_tower
        return super().get_config() | {
            "words": tower.words,
            "dimension": tower.dimension,
            "shared": self.shared,
            "bilinear": self.bilinear,
            "widths": list(tower.widths),
            "steps": tower.steps,
            "seed": tower.seed,
        }
