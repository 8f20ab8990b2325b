"""Cross-validation for small logs: one training per fold; each query is held out in one fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.config.training import TrainingConfig
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.prior import TitlePrior
from dssm_tf.model.text_scorer import TextScores
from dssm_tf.training.early_stopping import monitored_value
from dssm_tf.training.loop import TrainingLoop
from dssm_tf.training.prior_weight import PRIOR_WEIGHTS
from dssm_tf.training.run_directory import Result
from dssm_tf.training.validation import (
    GRADED_BY_CLICKS,
    NDCG_NAMES,
    Matrix,
    ValidationTask,
    Values,
    mean_with_ci,
)


class BuildLoop(Protocol):
    """Builds the training of one fold."""

    def __call__(self, fold: Preprocessed, *, directory: Path, patience: int) -> TrainingLoop:
        """Builds a loop on a fold's data, with a directory for its checkpoints."""


@dataclass(frozen=True)
class _FoldTask(ValidationTask):
    """The held-out queries of a fold. It records the NDCG of each query after each epoch.

    Args:
        bonuses: weighted log-priors of the titles, `(titles,)` each; the first has weight 0.
        values: the NDCG of each epoch, `(bonuses, queries, cutoffs)`.
    """

    bonuses: Sequence[Matrix] = ()
    values: list[Values] = field(default_factory=list)

    def metrics_with_ci(self, scores: TextScores, bonus: Matrix | float = 0.0) -> dict[str, float]:
        """Metrics without a bonus; records the NDCG with each bonus."""
        del bonus
        self.values.append(self.per_query(scores, self.bonuses))
        return mean_with_ci(self.values[-1][0])


def choose_epochs_by_folds(
    training: TrainingConfig,
    prior_weight: float | Literal["auto"],
    max_titles: int,
    data: Preprocessed,
    build_loop: BuildLoop,
    console: Console,
    weights: Sequence[NDArray[np.float32]] | None = None,
) -> Result:
    """Trains once per fold for all epochs, and picks the epoch with the best mean over all queries.

    Each query is held out in one fold. An interrupted cross-validation starts again.

    Args:
        training: section `training`, with `folds`.
        prior_weight: `ranking.prior`: a fixed weight of the log-prior, or `auto`.
        max_titles: largest number of titles that a validation query ranks.
        data: the preprocessed directory; its splits are ignored.
        build_loop: builds the training of a fold.
        console: prints the progress.
        weights: weights that each training starts from; None for the initial ones.

    Raises:
        UserError: there are fewer queries than folds, or a weight is not finite.
    """
    folds = training.folds or 1
    if len(data.clicked) < folds:
        raise UserError(
            f"training.folds: {folds} folds of {len(data.clicked)} queries; expected at least one "
            "query per fold."
        )
    prior_weights = PRIOR_WEIGHTS if prior_weight == "auto" else (0.0, prior_weight)
    values, histories = [], []
    for index in range(folds):
        fold = data.fold(index, folds)
        task = ValidationTask.from_clicks(fold, fold.count("validation"), max_titles)
        console.print(
            f"fold {index + 1}/{folds}: {fold.count('train'):,} pairs, "
            f"{len(task.queries):,} queries held out"
        )
        prior = TitlePrior(fold.iter_titles(), fold.rules)(task.titles)
        bonuses = [np.float32(weight) * prior for weight in prior_weights]
        fold_task = _FoldTask(**vars(task), bonuses=bonuses)
        with TemporaryDirectory(prefix="dssm-fold-") as directory:
            # No fold stops early: the mean over all folds needs every epoch.
            loop = build_loop(fold, directory=Path(directory), patience=training.epochs)
            best_weights = loop.fit("fit", ["train"], loop.max_epochs, fold_task, weights)
            histories.append(best_weights.history)
        values.append(np.stack(fold_task.values))
    # (epochs, weights of the prior, queries of all folds, cutoffs)
    result = _choose(np.concatenate(values, axis=2), histories, training.monitor, prior_weights)
    result.validation_description = (
        f"Each query of the log was held out once, in {folds} trainings. The number of epochs is "
        f"the one with the best mean over all queries. {GRADED_BY_CLICKS}"
    )
    return result


def _choose(
    values: Values,
    histories: Sequence[Sequence[Mapping[str, float]]],
    monitor: str,
    prior_weights: Sequence[float],
) -> Result:
    """Picks the epoch and the weight of the prior.

    Args:
        values: NDCG `(epochs, weights of the prior, queries, cutoffs)`; the first weight is 0.
        histories: the metrics of each epoch, for each fold.
        monitor: `training.monitor`.
        prior_weights: weights of the prior. If there are two, the second is a fixed weight and is
            used.
    """
    history = [
        {name: fmean(fold[name] for fold in metrics_of_folds) for name in ("loss", "val_loss")}
        | mean_with_ci(values[epoch, 0])
        for epoch, metrics_of_folds in enumerate(zip(*histories, strict=True))
    ]
    best = int(np.argmax([monitored_value(epoch, monitor) for epoch in history]))
    for index, epoch_metrics in enumerate(history):
        epoch_metrics["best"] = float(index == best)
    means = values[best].mean(axis=(1, 2))
    # Of equal means, `argmax` takes the first, which has the smallest weight.
    chosen_weight = 1 if len(prior_weights) == 2 else int(means.argmax())
    metrics = mean_with_ci(values[best, chosen_weight])
    metrics |= {f"similarity {name}": history[best][name] for name in NDCG_NAMES}
    metrics["queries"] = float(values.shape[2])
    return Result(
        len(history), best + 1, history, prior_weights[chosen_weight], metrics, refitted=True
    )
