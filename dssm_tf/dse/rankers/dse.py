"""DSE as a baseline: deep semantic embedding of the most frequent words, trained from clicks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.dse.rankers.bag_ranker import Arrays, BagRanker, Vectors

if TYPE_CHECKING:
    from dssm_tf.dse.networks.bag_pair import BagPair


class DSE(BagRanker):
    """Scores by the dot product of the outputs of a network of stacked RBMs.

    Args:
        shared: whether queries and titles go through one tower, as in the paper.
        bilinear: whether the matrix A between query and title is learned (eq. 1).
        pretraining_steps: batches of contrastive divergence, for each RBM; 0 for none.
        weighting: see `BagRanker`; whether a word is there suits an RBM's units best.
        learning_rate: see `BagRanker`.
        options: see `BagRanker`.

    Reference: Wu et al. 2014.
    """

    name = "dse"
    # Vectors of length 1 are so near 0 in each entry that an RBM finds nothing in them to learn.
    normalization = "largest"
    _words_count = False

    def __init__(
        self,
        *,
        shared: bool = True,
        bilinear: bool = False,
        pretraining_steps: int = 500,
        weighting: str = "binary",
        learning_rate: float = 0.003,
        **options: Any,
    ) -> None:
        super().__init__(weighting=weighting, learning_rate=learning_rate, **options)
        if pretraining_steps < 0:
            raise ValueError(
                f"dse received pretraining_steps={pretraining_steps}; expected 0 or more."
            )
        self.shared = shared
        self.bilinear = bilinear
        self.pretraining_steps = pretraining_steps

    def _make(self, words: int, dimension: int) -> BagPair:
        from dssm_tf.dse.networks.dse import DSEPair

        return DSEPair(words, dimension, self.shared, self.bilinear, seed=self.seed)

    def _pretrain(self, model: BagPair, bags: Sequence[sparse.csr_matrix], advance: Any) -> None:
        from dssm_tf.dse.margin_training import Pretraining, pretrain

        if not self.pretraining_steps:
            return
        settings = Pretraining(steps=self.pretraining_steps, seed=self.seed)
        parts = [sparse.vstack(bags).tocsr()] if self.shared else bags
        for place, (tower, part) in enumerate(zip(model.towers, parts, strict=True)):
            start = place * self._pretraining_steps(model) // len(parts)

            def told(step: int, state: str, start: int = start) -> None:
                advance(start + step, state)

            pretrain(tower, part, settings, told)

    def _pretraining_steps(self, model: BagPair) -> int:
        return self.pretraining_steps * sum(len(tower.machines) for tower in model.towers)

    def _export(self, model: BagPair) -> Mapping[str, NDArray[Any]]:
        arrays = {}
        sides = ("both",) if self.shared else ("query", "title")
        for side, tower in zip(sides, model.towers, strict=True):
            for place, machine in enumerate(tower.machines):
                arrays[f"{side}_kernel_{place}"] = machine.kernel.numpy()
                arrays[f"{side}_bias_{place}"] = machine.hidden_bias.numpy()
        if self.bilinear:
            arrays["relation"] = model.relation.numpy()
        return arrays

    def _query_vectors(self, bags: sparse.csr_matrix, arrays: Arrays) -> Vectors:
        vectors = _unrolled(bags, arrays, "both" if self.shared else "query")
        return stable_product(vectors, arrays["relation"]) if self.bilinear else vectors

    def _title_vectors(self, bags: sparse.csr_matrix, arrays: Arrays) -> Vectors:
        return _unrolled(bags, arrays, "both" if self.shared else "title")


def _unrolled(bags: sparse.csr_matrix, arrays: Arrays, side: str) -> Vectors:
    """The feed-forward network of `dssm_tf.dse.networks.dse.DSE`, in double precision."""
    layers = sum(name.startswith(f"{side}_kernel_") for name in arrays)
    below: Any = bags
    for place in range(layers):
        kernel, bias = arrays[f"{side}_kernel_{place}"], arrays[f"{side}_bias_{place}"]
        drive = (below @ kernel if place == 0 else stable_product(below, kernel)) + bias
        below = expit(drive) if place < layers - 1 else drive
    found: Vectors = np.asarray(below)
    return found
