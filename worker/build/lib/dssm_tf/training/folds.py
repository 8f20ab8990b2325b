"""The number of epochs of a small log: by holding every query out once, in several trainings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.prior import TitlePrior
from dssm_tf.training.fitting import Fitting
from dssm_tf.training.result import Result
from dssm_tf.training.validation import (
    BY_CLICKS,
    NDCG_NAMES,
    PRIOR_WEIGHTS,
    Matrix,
    ValidationTask,
    Values,
    Vectors,
    with_ends,
)


@dataclass(frozen=True)
class _FoldTask(ValidationTask):
    """The held-out queries of a fold, which also remembers each query's NDCG.

    Args:
        bonuses: weighted log-priors of the titles, the first by 0.
        values: of each epoch, `(bonuses, queries, cutoffs)`.
    """

    bonuses: Sequence[Matrix] = ()
    values: list[Values] = field(default_factory=list)

    def measured(self, vectors: Vectors, bonus: Matrix | float = 0.0) -> dict[str, float]:
        """By the cosine alone; notes NDCG with each bonus."""
        self.values.append(self.per_query(vectors, self.bonuses))
        return with_ends(self.values[-1][0])


def choose_by_folds(
    config: Config,
    data: Preprocessed,
    fitting: Callable[[Config, Preprocessed, Path], Fitting],
    quiet: bool,
) -> Result:
    """Trains once a fold, for all epochs, and picks the epoch whose mean over all queries is best.

    Each fold holds other queries out, and no query is held out twice. Interrupted, it begins again.

    Args:
        config: with `training.folds`.
        data: what preprocess wrote; queries of its validation part are treated as all others.
        fitting: makes a training of a configuration, data and a directory for its state.
        quiet: no word about which fold it is.

    Raises:
        UserError: there are fewer queries than folds, or a fold learns nothing, see `Keeper`.
    """
    training, folds = config.training, config.training.folds or 1
    if len(data.clicked) < folds:
        raise UserError(
            f"training.folds: {folds} folds of {len(data.clicked)} queries; expected at least one "
            "query a fold."
        )
    patient = {"training": training.model_copy(update={"patience": training.epochs})}
    fixed = config.ranking.prior
    weights = PRIOR_WEIGHTS if fixed == "auto" else (0.0, fixed)
    values, histories = [], []
    for number in range(folds):
        fold = data.fold(number, folds)
        task = ValidationTask.of(fold, fold.count("validation"), config.validation.titles)
        if not quiet:
            Console().print(
                f"fold {number + 1}/{folds}: {fold.count('train'):,} pairs, "
                f"{len(task.queries):,} queries held out",
                highlight=False,
            )
        prior = TitlePrior(fold.titles, fold.rules)(task.titles)
        noted = _FoldTask(**vars(task), bonuses=[np.float32(one) * prior for one in weights])
        with TemporaryDirectory(prefix="dssm-fold-") as state:
            trained = fitting(config.model_copy(update=patient), fold, Path(state))
            histories.append(trained.fit("fit", ["train"], training.epochs, noted).history)
        values.append(np.stack(noted.values))
    # (epochs, weights of the prior, queries of all folds, cutoffs)
    result = _choice(np.concatenate(values, axis=2), histories, training.monitor, weights)
    result.validated = (
        f"Each query of the log was held out once, in {folds} trainings, whose best epoch by the "
        f"mean over all queries is the number of epochs here. {BY_CLICKS}"
    )
    return result


def _choice(
    values: Values,
    histories: Sequence[Sequence[Mapping[str, float]]],
    monitor: str,
    weights: Sequence[float],
) -> Result:
    """Picks epoch and weight.

    Args:
        values: NDCG `(epochs, weights of the prior, queries, cutoffs)`; the first weight is 0.
        histories: of each fold.
        monitor: of `TrainingConfig`.
        weights: of the prior; a single one beside 0 is not chosen but given.
    """
    history = [
        {name: fmean(one[name] for one in of) for name in ("loss", "val_loss")}
        | with_ends(values[epoch, 0])
        for epoch, of in enumerate(zip(*histories, strict=True))
    ]
    name, sign = ("val_loss", -1) if monitor == "loss" else (monitor, 1)
    best = int(np.argmax([sign * one[name] for one in history]))
    for number, one in enumerate(history):
        one["best"] = float(number == best)
    means = values[best].mean(axis=(1, 2))
    chosen = 1 if len(weights) == 2 else int(means.argmax())  # the smaller of equals
    by_cosine = {f"cosine {name}": history[best][name] for name in NDCG_NAMES}
    ndcg = with_ends(values[best, chosen]) | by_cosine | {"queries": float(values.shape[2])}
    return Result(len(history), best + 1, history, weights[chosen], ndcg, refitted=True)
