"""Checks data, settings and devices before a training starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from math import inf
from pathlib import Path
from types import MappingProxyType

import keras
import numpy as np
import pyarrow as pa

from dssm_tf.common.errors import UserError, install_command
from dssm_tf.config.lists import ListsConfig
from dssm_tf.config.optimizer import ScheduleConfig
from dssm_tf.config.training import NegativesConfig, TrainingConfig
from dssm_tf.data.preprocessed import Preprocessed


def check_data(
    negatives: NegativesConfig,
    training: TrainingConfig,
    data: Preprocessed,
    lists: Mapping[str, ListsConfig] = MappingProxyType({}),
) -> None:
    """Raises UserError if there are no training records, or no negatives for them.

    Args:
        negatives: the section of the negatives.
        training: the section of the training; its `clicks` is whether to train on clicks.
        data: the preprocessed directory.
        lists: the sections of graded lists to train on.
    """
    if not data.nonempty_splits:
        _check_titles(negatives, training, data, has_lists=bool(lists))
        return
    if not data.count("train"):
        raise UserError(f"{data.directory} has no training records; give preprocess a longer log.")
    recorded = data.spec.negatives
    if negatives.recorded > recorded:
        raise UserError(
            f"negatives.recorded: received {negatives.recorded}, but {data.directory} has "
            f"{recorded} per pair; run preprocess with --negatives {negatives.recorded}."
        )
    clicked_titles = len(np.unique(data.splits["train"].titles[:, 0]))
    # A title as a query has the other titles as negatives.
    titles_as_queries = training.title_queries > 0 and negatives.in_batch and clicked_titles > 1
    if not training.clicks or titles_as_queries or _has_negatives(negatives, data):
        return
    if negatives.in_batch or negatives.fresh:
        raise UserError(
            f"{data.directory} has nothing to learn from: it has {clicked_titles} clicked "
            f"title{'s' * (clicked_titles != 1)} in its training split, and no pair of a query and "
            "a title has a negative. Give preprocess a longer log, or a --corpus and set "
            "negatives.fresh."
        )
    raise UserError(
        "negatives: there are none. Recorded negatives are 0 or missing, and no others are "
        "configured. Set negatives.in_batch or negatives.fresh, or run preprocess "
        "with --negatives-from log."
    )


def _check_titles(
    negatives: NegativesConfig, training: TrainingConfig, data: Preprocessed, *, has_lists: bool
) -> None:
    """Raises UserError if a directory without clicks cannot be trained on with these settings.

    Args:
        negatives: the section of the negatives.
        training: the section of the training.
        data: the preprocessed directory.
        has_lists: whether there are graded lists to train on.
    """
    no_clicks = f"{data.directory} has no clicks, because it was made without a click log"
    if training.folds:
        raise UserError(
            f"training.folds: {training.folds} folds divide the queries of a log, but {no_clicks}; "
            "set training.folds=null."
        )
    if training.monitor == "val_loss" and not has_lists:
        raise UserError(
            "training.monitor: val_loss is the loss of validation clicks or judgments, but "
            f"{no_clicks}; set training.monitor=ndcg@10, or give --judgments."
        )
    if not training.title_queries:
        if has_lists:
            return
        raise UserError(
            f"{no_clicks}; set training.title_queries=1 to train on its titles as their own "
            "queries, or give --judgments or --teacher."
        )
    if not (negatives.in_batch or negatives.fresh):
        raise UserError(
            "negatives: titles as queries have no recorded negatives; set negatives.in_batch=true "
            "or negatives.fresh."
        )
    titles = int(np.count_nonzero(data.words("titles").value_lengths().to_numpy()))
    if titles < 2 and not has_lists:
        raise UserError(
            f"{data.directory} has nothing to learn from: it has {titles} title and no clicks, and "
            "a title that is its own query needs other titles as negatives. Give preprocess a "
            "larger --corpus."
        )


def _has_negatives(negatives: NegativesConfig, data: Preprocessed) -> bool:
    """Whether a training pair can have a negative: a title that was not clicked for its query."""
    if negatives.mined:
        return True
    train = data.splits["train"]
    if (train.titles[:, 1 : 1 + negatives.recorded] >= 0).any():
        return True
    clicked = data.clicked.take(pa.array(np.unique(train.query)))
    titles = clicked.flatten().to_numpy()
    lengths = clicked.value_lengths().to_numpy()
    if negatives.fresh and lengths.min() < len(data.title_counts[0]):
        return True
    if not negatives.in_batch:
        return False
    # A batch has the clicked titles of other queries of the split.
    positives = np.unique(train.titles[:, 0])
    queries = np.repeat(np.arange(len(lengths)), lengths)[np.isin(titles, positives)]
    return bool(np.bincount(queries, minlength=len(lengths)).min() < len(positives))


def check_learned(
    history: Sequence[Mapping[str, float]],
    untrained: Mapping[str, float],
    untrained_loss: Callable[[], float],
    learning_rate: float,
    start: str = "the untrained model",
) -> None:
    """Raises UserError if each epoch is worse than the untrained model.

    An epoch is worse if its NDCG@10 is lower, and either its 95 % interval is below the untrained
    model's NDCG@10 or its validation loss is above the untrained model's. With few validation
    queries the interval is wide, and NDCG alone may be lower by chance. If no validation query has
    negatives, both losses are 0, and only the interval is decisive. Without a validation,
    nothing is checked.

    Args:
        history: the metrics of each epoch.
        untrained: the validation metrics before the first step.
        untrained_loss: computes the validation loss before the first step, if it is needed. If
            that is infinite, only the interval is decisive.
        learning_rate: the learning rate of the training, for the message.
        start: the model before the first step, for the message.
    """
    validated = [epoch for epoch in history if "ndcg@10" in epoch]
    if not validated or not untrained:
        return
    best = max(epoch["ndcg@10"] for epoch in validated)
    if best >= untrained["ndcg@10"]:
        return
    losses = ""
    if max(epoch["high ndcg@10"] for epoch in validated) >= untrained["ndcg@10"]:
        lowest_loss = min(epoch.get("val_loss", -inf) for epoch in validated)
        loss_before = untrained_loss()
        if lowest_loss <= loss_before:
            return
        losses = (
            f", with a validation loss of at least {lowest_loss:.4f} instead of {loss_before:.4f}"
        )
    raise UserError(
        "training failed: each epoch ranks the validation queries worse (NDCG@10 at most "
        f"{best:.3f}) than {start} ({untrained['ndcg@10']:.3f}){losses}. Choose "
        f"another optimizer.learning_rate (it was {learning_rate:g}) or more validation queries, "
        "and another --out."
    )


def check_callbacks(
    callbacks: Sequence[keras.callbacks.Callback], schedule: ScheduleConfig
) -> None:
    """Raises UserError if a callback cannot be used, or does not fit the learning-rate schedule.

    Args:
        callbacks: the user's callbacks.
        schedule: the optimizer's section `schedule`.
    """
    if isinstance(callbacks, keras.callbacks.Callback) or not isinstance(callbacks, Sequence):
        raise UserError(
            f"callbacks is a {type(callbacks).__name__}; expected a list of Keras callbacks."
        )
    for callback in callbacks:
        name = type(callback).__name__
        if not isinstance(callback, keras.callbacks.Callback):
            raise UserError(
                f"callbacks contains a {name}; expected instances of keras.callbacks.Callback."
            )
        if isinstance(callback, keras.callbacks.BackupAndRestore):
            raise UserError(
                "callbacks: BackupAndRestore would overwrite the weights of a resumed run; leave "
                "it out. The same call of train resumes an interrupted run."
            )
        sets_rate = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)
        if isinstance(callback, sets_rate) and schedule.name != "constant":
            raise UserError(
                f"callbacks: {name} sets the learning rate, and so does optimizer.schedule "
                f"({schedule.name}); use only one of them."
            )


def check_batch_sizes(
    training: TrainingConfig, lists: Mapping[str, ListsConfig], replicas: int
) -> None:
    """Raises UserError if a batch cannot be divided equally among the devices.

    Args:
        training: has the batch size of clicks.
        lists: graded lists by section, each with a batch size.
        replicas: devices that share a step.
    """
    sizes = {"training": training.batch_size}
    sizes |= {name: section.batch_size for name, section in lists.items()}
    for section, size in sizes.items():
        if size % replicas:
            raise UserError(
                f"{section}.batch_size: {size} cannot be divided among {replicas} devices; choose "
                f"a multiple of {replicas}."
            )


def check_tensorboard(directory: Path | None) -> None:
    """Raises UserError if TensorBoard's files cannot be written to a directory."""
    if directory is None:
        return
    if find_spec("tensorboard") is None:
        command = install_command("tensorboard")
        raise UserError(f"--tensorboard needs the package tensorboard: {command}")
    if directory.exists() and not directory.is_dir():
        raise UserError(f"--tensorboard {directory} is a file; give a directory.")
