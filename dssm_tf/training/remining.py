"""Hard negatives in a run: read from a file, or mined anew by the model between epochs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.console import Console

from dssm_tf.common.arrays import read_arrays
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.config import NegativesConfig
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.training.checkpoint import put, state
from dssm_tf.training.mining import by_cosine, hard_pairs
from dssm_tf.training.validation import Encode


class Remining:
    """Mines by the model that is being trained, and keeps what was found for a run that goes on.

    Args:
        negatives: how often, and which ranks.
        data: what preprocess wrote.
        encode: of the model with the weights to rank with.
        folder: of the run's state.
        chief: whether this process writes there.
        quiet: no line on the terminal.

    Reference: Xiong et al. 2021 (ANCE), sec. 4, who mine beside the training, not between epochs.
    """

    def __init__(
        self,
        negatives: NegativesConfig,
        data: Preprocessed,
        encode: Encode,
        folder: Path,
        chief: bool,
        quiet: bool,
    ) -> None:
        self._negatives = negatives
        self._data = data
        self._encode = encode
        self._folder = folder
        self._chief = chief
        self._console = Console(quiet=quiet or not chief)

    def stages(self, first: int, epochs: int, step: int = 0) -> Iterator[tuple[int, int]]:
        """Epochs done before and after each stage of a training, in which negatives are the same.

        An epoch that is resumed after its first steps is a stage of its own.

        >>> negatives = NegativesConfig(mined=2, mine_every=3)
        >>> remining = Remining(negatives, None, None, Path(), True, True)
        >>> list(remining.stages(first=4, epochs=10))
        [(4, 6), (6, 9), (9, 10)]
        """
        every = self._negatives.mine_every or max(epochs, 1)
        if step:
            yield first, first + 1
            first += 1
        for start in range(first - first % every, epochs, every):
            yield max(start, first), min(start + every, epochs)

    def check_table(self, mined: np.ndarray) -> None:
        """Raises UserError where the run began with another table of negatives.

        Args:
            mined: what `read_mined` found.
        """
        path = self._folder / "mined-from.npz"
        kept = self._kept(path, 0)
        if kept is not None and not np.array_equal(kept, mined):
            raise UserError(
                f"negatives.mined_from: {self._negatives.mined_from} is not what it was when the "
                "run began; put the table back, or choose another --out."
            )
        self._keep(path, 0, mined)

    def after(self, phase: str, epoch: int) -> np.ndarray:
        """What the model finds, or found before the run was interrupted.

        Args:
            phase: of the training.
            epoch: epochs done; what counts is the last of them after which was to be mined.
        """
        epoch -= epoch % self._negatives.mine_every
        path = self._folder / f"mined-{phase}.npz"
        pairs = self._kept(path, epoch)
        if pairs is None:
            ranks, margin = self._negatives.mine_ranks, self._negatives.mine_margin
            found = hard_pairs(self._data, by_cosine(self._encode), ranks, margin)
            pairs = np.array([pair[:2] for pair in found], np.int64).reshape(-1, 2)
            self._keep(path, epoch, pairs)
            self._console.print(f"{len(pairs):,} hard negatives mined", highlight=False)
        if not len(pairs):
            raise UserError(
                "negatives.mine_ranks: the model ranks no title there for any query, once clicked "
                "ones and those within negatives.mine_margin of them are left out; start at rank 1."
            )
        return pairs

    def _keep(self, path: Path, epoch: int, pairs: np.ndarray) -> None:
        if self._chief:
            with atomic_write(path, "wb") as file:
                np.savez(file, pairs=pairs, epoch=np.array(epoch))

    @staticmethod
    def _kept(path: Path, epoch: int) -> np.ndarray | None:
        if not path.exists():
            return None
        arrays = read_arrays(path, "Remove the run's directory to start again.")
        return arrays["pairs"] if int(arrays["epoch"]) == epoch else None


class StateKept(keras.callbacks.Callback):
    """Goes on where the last epoch ended when `fit` is called again for the next stage.

    The end of `fit` puts moving averages in the place of the weights.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[np.ndarray] = []

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Puts the state back."""
        if self._kept:
            put(state(self.model), self._kept)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keeps it."""
        self._kept = [keras.ops.convert_to_numpy(one) for one in state(self.model)]
