"""Stages before the tower `words` learns clicks: start vectors, titles as queries, spelling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dssm_tf.common.progress import progress_of
from dssm_tf.config import Config
from dssm_tf.config.start import StartConfig
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.first_matrices import weights_with_changed_first_matrices
from dssm_tf.training.loop import TrainingLoop
from dssm_tf.training.model_state import assign_all
from dssm_tf.training.spelling import learn_spelling
from dssm_tf.training.start_vectors import StartVectors, with_start_vectors
from dssm_tf.training.validation import ValidationTask, score_task

Weights = list[NDArray[np.float32]]

SPELLING = "spelling"
"""The name of the stage that `learn_spelling` trains."""


@dataclass(frozen=True)
class Stage:
    """Weights after a stage, and their validation NDCG.

    Args:
        name: the kind of training, such as `spelling`.
        weights: in the order of `Siamese.weights`.
        metrics: validation NDCG at each cutoff; empty without validation queries.
        compared: if validation chose between starts, the number of `epochs` trained from this one
            and the monitored metric of the best of them, such as `{"epochs": 3, "ndcg@10": 0.43}`.
    """

    name: str
    weights: Weights
    metrics: dict[str, float]
    compared: dict[str, float] = field(default_factory=dict)

    def summary(self, *, chosen: bool) -> dict[str, Any]:
        """The name, the metrics, and whether the stage was chosen, for `ranking.json`."""
        compared = {"compared": self.compared} if self.compared else {}
        return {"name": self.name, **self.metrics, **compared, "chosen": chosen}


def trains_on_titles(config: Config, data: Preprocessed) -> bool:
    """Whether there are neither clicks nor graded lists to train on."""
    return not (data.nonempty_splits or config.lists)


class Starts:
    """Computes the weights from which a training of the tower `words` starts.

    Args:
        config: the section `start`.
        vectors: the start vectors; None for random rows.
        data: the preprocessed directory, with the vocabulary of the model.
        loop: the training, with its initial weights.
        task: the validation queries; None if there are none.
        seed: of the rotation of start vectors, and of typing errors.
        console: prints each stage.
    """

    def __init__(
        self,
        config: StartConfig,
        vectors: StartVectors | None,
        data: Preprocessed,
        loop: TrainingLoop,
        task: ValidationTask | None,
        seed: int,
        console: Console,
    ) -> None:
        self._config = config
        self._vectors = vectors
        self._data = data
        self._loop = loop
        self._task = task
        self._seed = seed
        self._console = console

    def before_clicks(self) -> list[Stage]:
        """The weights to train from: random or with start vectors, then without or with spelling.

        With `spelling: auto` there are two; the first is the one without spelling.
        """
        before = self._before_spelling()
        if not self._config.spelling:
            return [before]
        after = self._after_spelling(before)
        return [before, after] if self._config.spelling == "auto" else [after]

    def without_clicks(self) -> list[Stage]:
        """All stages of a training on a catalog alone, in the order of their names."""
        stages = [self._before_spelling()]
        for name in self.names_without_clicks()[1:]:
            if name == SPELLING:
                stages.append(self._after_spelling(stages[-1]))
            else:
                epochs = self._config.title_epochs
                self._loop.fit("titles", ["train"], epochs, weights=stages[0].weights)
                stages.append(self._stage(name, current_weights(self._loop.ranking_model)))
        return stages

    def names_without_clicks(self) -> list[str]:
        """The names of the stages of a training on a catalog alone."""
        names, epochs = [self._name_before_spelling], self._config.title_epochs
        if self._vectors is None and epochs:
            names.append(f"titles as queries, {epochs} epoch{'s' if epochs > 1 else ''}")
        return [*names, SPELLING] if self._config.spelling else names

    @property
    def _name_before_spelling(self) -> str:
        return "random rows" if self._vectors is None else f"start vectors ({self._config.vectors})"

    def _before_spelling(self) -> Stage:
        """Random rows, or start vectors."""
        weights = self._loop.initial_weights
        if self._vectors is not None:
            model = self._loop.model
            weights = weights_of_vectors(self._vectors, model, weights, self._data, self._seed)
        return self._stage(self._name_before_spelling, weights)

    def _after_spelling(self, stage: Stage) -> Stage:
        """The weights after spelling, from those of a stage."""
        model, quiet = self._loop.ranking_model, self._console.quiet
        weights = spelled_weights(model, stage.weights, self._data, self._seed, quiet=quiet)
        return self._stage(SPELLING, weights)

    def _stage(self, name: str, weights: Weights) -> Stage:
        """Ranks the validation queries with some weights and prints the result."""
        metrics: dict[str, float] = {}
        if self._task is not None:
            assign_all(self._loop.ranking_model.weights, weights)
            show = not self._console.quiet
            with progress_of(f"ranking with {name}", None, show, unit=""):
                metrics = self._task.ndcg(score_task(self._loop.scorer, self._task))
            self._console.print(f"{name}: validation NDCG@10 {metrics['ndcg@10']:.3f}")
        return Stage(name, weights, metrics)


def best_stage(stages: Sequence[Stage]) -> Stage:
    """The stage with the highest validation NDCG@10; the last one without validation queries.

    Of equal stages, the first is the best.
    """
    if not stages[-1].metrics:
        return stages[-1]
    return max(stages, key=lambda stage: stage.metrics["ndcg@10"])


def weights_of_vectors(
    vectors: StartVectors, model: Siamese, weights: Weights, data: Preprocessed, seed: int
) -> Weights:
    """The weights of a model, with the rows of whole words from start vectors.

    Args:
        vectors: the start vectors.
        model: the model.
        weights: its initial weights.
        data: the preprocessed directory, with the vocabulary of the model.
        seed: of the random rotation.
    """

    def change(kernel: NDArray[np.float32]) -> NDArray[np.float32]:
        changed = with_start_vectors(kernel, data.vocabulary, *vectors, seed=seed)
        return changed.astype(np.float32)

    return weights_with_changed_first_matrices(model, weights, change)


def spelled_weights(
    model: Siamese, weights: Weights, data: Preprocessed, seed: int, *, quiet: bool
) -> Weights:
    """The weights of a model after `learn_spelling`.

    Args:
        model: the model.
        weights: its weights before.
        data: the preprocessed directory, with the vocabulary of the model.
        seed: of the typing errors.
        quiet: whether to hide the progress bar.
    """
    frequencies = data.document_frequencies.words
    words, counts = [*frequencies], [*frequencies.values()]

    def spell(kernel: NDArray[np.float32]) -> NDArray[np.float32]:
        return learn_spelling(kernel, data.vocabulary, words, counts, seed=seed, quiet=quiet)

    return weights_with_changed_first_matrices(model, weights, spell)


def current_weights(model: Siamese) -> Weights:
    """Copies of the weights of a model."""
    return [keras.ops.convert_to_numpy(weight).copy() for weight in model.weights]
