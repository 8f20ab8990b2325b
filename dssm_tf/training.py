"""Trains a configured model on preprocessed clicks; the only file that knows `tf.distribute`."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from dssm_tf.checkpoint import Checkpoint
from dssm_tf.config import Config, load_config
from dssm_tf.data.dataset import BatchOptions, ClickBatches
from dssm_tf.data.records import explain_damage, verify_records
from dssm_tf.data.schema import (
    FEATURE_SPEC,
    TITLES,
    VOCABULARY,
    FeatureSpec,
    load_titles,
    load_vocabulary,
)
from dssm_tf.errors import UserError
from dssm_tf.files import atomic_write
from dssm_tf.losses import ClickSoftmax
from dssm_tf.model_card import write_model_card
from dssm_tf.optimizers import ScheduledNesterov, make_optimizer
from dssm_tf.prior import TitlePrior
from dssm_tf.progress import TrainingProgress
from dssm_tf.semantic_ranker import CONFIG, RANKING, WEIGHTS, Encoder, build_model
from dssm_tf.siamese import Siamese
from dssm_tf.validation import ValidationTask, cosines

HISTORY = "history.json"
VERSIONS = "versions.json"
_XLA_PAYS_FROM = 60_000  # pairs over all epochs; compiling costs about ten seconds


@dataclass
class Result:
    """What a training run ended with.

    Args:
        epochs: epochs trained.
        best_epoch: the epoch whose weights were kept, from 1.
        history: one dict of metrics an epoch.
        prior_weight: weight of the log-prior of titles.
        ndcg: validation NDCG of the kept weights with that prior.
        seconds: wall time of this process's part of the training.
    """

    epochs: int
    best_epoch: int
    history: list[dict[str, float]]
    prior_weight: float
    ndcg: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Workers:
    """The processes that share each step, from `TF_CONFIG`."""

    index: int = 0
    count: int = 1

    @classmethod
    def from_environment(cls) -> Workers:
        """Reads `TF_CONFIG`; one worker where it is not set.

        Raises:
            UserError: it is not JSON with a cluster of workers and this task.
        """
        raw = os.environ.get("TF_CONFIG")
        if not raw:
            return cls()
        try:
            settings = json.loads(raw)
            count = len(settings["cluster"]["worker"])
            task = settings["task"]
            if task["type"] != "worker" or not 0 <= int(task["index"]) < count:
                raise ValueError(f"task {task} is not one of the {count} workers")
            return cls(int(task["index"]), count)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"TF_CONFIG is not usable ({error}); expected JSON with cluster.worker, a list "
                "of HOST:PORT, and task with type `worker` and index."
            ) from None

    @property
    def chief(self) -> bool:
        """Whether this process writes the files."""
        return self.index == 0


def train(config: Config, data: Path, out: Path, *, quiet: bool = False) -> Result:
    """Trains a model and writes the run's directory.

    A run that was interrupted, at any moment, goes on when called again with the same
    arguments, to the same result.

    Args:
        config: the model and how to train it.
        data: directory that preprocess wrote.
        out: the run: configuration, vocabulary, weights, history, versions, model card.
        quiet: no progress on the terminal.

    Raises:
        UserError: data or configuration are unusable, `out` is finished or of another
            configuration, or the loss stopped being a number.
    """
    started = monotonic()
    data, out = Path(data), Path(out)
    workers = Workers.from_environment()
    strategy = _strategy(workers)  # first: it configures TensorFlow's collectives
    spec = FeatureSpec.load(data)
    if not spec.records.get("train"):
        raise UserError(f"{data} holds no training records; give preprocess a longer log.")
    if config.negatives.recorded > spec.negatives:
        raise UserError(
            f"negatives.recorded: {config.negatives.recorded} asked for, {data} holds "
            f"{spec.negatives} a pair; run preprocess with --negatives "
            f"{config.negatives.recorded}."
        )
    if not config.negatives.recorded and not config.negatives.in_batch:
        raise UserError("negatives: recorded is 0 and in_batch is false; the click needs rivals.")
    vocabulary = load_vocabulary(data, spec)
    splits = tuple(split for split in ("train", "validation") if spec.records.get(split))
    for split in splits:
        verify_records(data, split, spec)
    if workers.chief:
        _start_run(config, data, out)

    keras.utils.set_random_seed(config.training.seed)
    replicas = strategy.num_replicas_in_sync // workers.count
    batches = _batches(config, data, splits)
    steps = {split: one.steps for split, one in batches.items()}
    with _quiet_scope(strategy):
        model = build_model(config, vocabulary.size)
        optimizer = make_optimizer(
            config.optimizer.name,
            config.optimizer.learning_rate,
            steps["train"] * config.training.epochs,
            config.optimizer.clip_norm,
            _averaging(config) | config.optimizer.options,
        )
        if isinstance(optimizer, ScheduledNesterov) and strategy.num_replicas_in_sync > 1:
            optimizer.replicas = strategy.num_replicas_in_sync
            optimizer.sum_over_replicas = _all_reduce_sum
        model.compile(
            optimizer=optimizer,
            loss=ClickSoftmax(config.gamma),
            jit_compile=_use_xla(config, spec.records["train"], workers),
        )
        optimizer.build(model.trainable_variables)
        _warm_up(model, batches["train"], workers.count * replicas)

    checkpoint = Checkpoint(out / "state" / "checkpoint.npz")
    task = None
    if "validation" in splits:
        task = ValidationTask.load(data, config.validation.queries, config.validation.titles)
    keeper = _Keeper(config, task, Encoder(model, vocabulary), checkpoint, workers.chief)
    first = keeper.resume(model)
    if first < config.training.epochs and not keeper.finished:
        callbacks: list[keras.callbacks.Callback] = [keeper]
        if workers.chief:
            callbacks.append(
                keras.callbacks.TensorBoard(out / "logs", write_graph=False, profile_batch=0)
            )
            callbacks.append(TrainingProgress(steps["train"], config.training.epochs, quiet))

        def dataset(split: str, start: int, stop: int) -> Any:
            return _distributed(
                strategy, batches[split], workers, replicas, config.training.seed, start, stop
            )

        validation = dataset("validation", 0, 0) if task is not None else None
        with explain_damage(data, splits):
            _fit(
                model,
                strategy,
                workers,
                dataset("train", first, config.training.epochs),
                validation,
                steps,
                first,
                config.training.epochs,
                callbacks,
            )
    result = keeper.finish(model, vocabulary, data, config)
    result.seconds = monotonic() - started
    if workers.chief:
        _write_run(model, config, result, spec, out)
    return result


def _fit(
    model: Siamese,
    strategy: tf.distribute.Strategy,
    workers: Workers,
    training: Any,
    validation: Any,
    steps: dict[str, int],
    first: int,
    epochs: int,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    if workers.count > 1:
        _fit_several_workers(model, strategy, training, validation, steps, first, epochs, callbacks)
        return
    model.fit(
        training,
        initial_epoch=first,
        epochs=epochs,
        steps_per_epoch=steps["train"],
        validation_data=validation,
        validation_steps=steps.get("validation"),
        callbacks=callbacks,
        verbose=0,
        shuffle=False,
    )


def _fit_several_workers(
    model: Siamese,
    strategy: tf.distribute.Strategy,
    training: Any,
    validation: Any,
    steps: dict[str, int],
    first: int,
    epochs: int,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    """`fit` for MultiWorkerMirroredStrategy.

    Keras 3's own takes the distributed data set for a generator and then reduces the metrics
    of a step along an axis they do not have (keras issue 20585); its `train_step` works.
    """
    listeners = keras.callbacks.CallbackList(
        callbacks, model=model, epochs=epochs, steps=steps["train"]
    )

    @tf.function(reduce_retracing=True)
    def train_step(batches):
        strategy.run(model.train_step, args=(next(batches),))

    @tf.function(reduce_retracing=True)
    def test_step(batches):
        strategy.run(model.test_step, args=(next(batches),))

    model.stop_training = False
    iterator = iter(training)
    listeners.on_train_begin()
    for epoch in range(first, epochs):
        model.reset_metrics()
        listeners.on_epoch_begin(epoch)
        for step in range(steps["train"]):
            listeners.on_train_batch_begin(step)
            train_step(iterator)
            # Reading a metric adds it up over the workers, so every one of them reads.
            listeners.on_train_batch_end(step, _numbers(model.get_metrics_result()))
        logs = _numbers(model.get_metrics_result())
        if validation is not None:
            model.reset_metrics()
            held_out = iter(validation)
            for _ in range(steps["validation"]):
                test_step(held_out)
            found = _numbers(model.get_metrics_result())
            logs |= {f"val_{name}": value for name, value in found.items()}
        listeners.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    model.optimizer.finalize_variable_values(model.trainable_weights)
    listeners.on_train_end()


def _numbers(logs: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in logs.items()}


def _averaging(config: Config) -> dict[str, Any]:
    """Options of the optimiser that keep moving averages of the weights."""
    momentum = config.training.averaging
    return {"use_ema": True, "ema_momentum": momentum} if momentum else {}


def _strategy(workers: Workers) -> tf.distribute.Strategy:
    if workers.count > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) > 1:
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.get_strategy()


def _quiet_scope(strategy: tf.distribute.Strategy) -> AbstractContextManager[Any]:
    plain = strategy is tf.distribute.get_strategy()
    return nullcontext() if plain else strategy.scope()


def _all_reduce_sum(gradients: list[Any]) -> list[Any]:
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)


def _use_xla(config: Config, pairs: int, workers: Workers) -> bool:
    choice = config.training.xla
    if workers.count > 1:
        if choice is True:
            raise UserError(
                "training.xla: true cannot be used with several workers, whose collectives XLA "
                "does not compile; use auto or false."
            )
        return False
    if choice == "auto":
        gpu = bool(tf.config.list_physical_devices("GPU"))
        return gpu or pairs * config.training.epochs >= _XLA_PAYS_FROM
    return choice


def _batches(config: Config, data: Path, splits: tuple[str, ...]) -> dict[str, ClickBatches]:
    options = BatchOptions(
        batch_size=config.training.batch_size,
        negatives=config.negatives.recorded,
        in_batch=config.negatives.in_batch,
        logq=config.negatives.logq,
        click_weight=config.training.click_weight,
        length_buckets=config.training.length_buckets,
        shuffle_buffer=config.training.shuffle_buffer,
    )
    shapes = ClickBatches(data, "train", options).plan_shapes()
    return {split: ClickBatches(data, split, options, shapes) for split in splits}


def _distributed(
    strategy: tf.distribute.Strategy,
    batches: ClickBatches,
    workers: Workers,
    replicas: int,
    seed: int,
    start: int,
    stop: int,
) -> Any:
    """Epochs `start` to `stop` of shuffled batches; one pass in order when both are 0."""

    def dataset(_: Any = None) -> tf.data.Dataset:
        if stop:
            return batches.epochs(seed, start, stop, workers.index, workers.count, replicas)
        return batches.epoch(None, workers.index, workers.count, replicas)

    if strategy.num_replicas_in_sync == 1:
        return dataset()
    return strategy.distribute_datasets_from_function(dataset)


def _warm_up(model: Siamese, batches: ClickBatches, parts: int) -> None:
    """Builds loss and metrics on one local batch.

    Keras otherwise guesses their shapes from averages over replicas, which turns ids to floats.
    """
    inputs, offsets, weights = next(iter(batches.epoch(workers=parts)))
    model.compute_loss(inputs, offsets, model(inputs), weights, training=False)


class _Keeper(keras.callbacks.Callback):
    """After each epoch: ranks the validation queries, keeps the best, saves, may stop."""

    def __init__(
        self,
        config: Config,
        task: ValidationTask | None,
        encode: Encoder,
        checkpoint: Checkpoint,
        chief: bool,
    ) -> None:
        super().__init__()
        self._config = config.training
        self._task = task
        self._encode = encode
        self._checkpoint = checkpoint
        self._chief = chief
        self._best: list[np.ndarray] = []
        self._history: list[dict[str, float]] = []
        self._best_epoch = 0

    @property
    def finished(self) -> bool:
        """Whether patience ran out."""
        waited = len(self._history) - self._best_epoch
        return bool(self._history) and waited >= self._config.patience

    def resume(self, model: Siamese) -> int:
        """Restores the last finished epoch; returns how many are done."""
        restored = self._checkpoint.restore(model)
        if restored is None:
            return 0
        self._best, progress = restored
        self._history = progress["history"]
        self._best_epoch = progress["best_epoch"]
        return len(self._history)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Stops on a loss that is not a number, before it reaches a checkpoint."""
        loss = float((logs or {}).get("loss", 0.0))
        if not np.isfinite(loss):
            raise UserError(
                f"the loss became {loss} at epoch {len(self._history) + 1}, step {batch + 1}; "
                "lower optimizer.learning_rate, or set optimizer.clip_norm. "
                "The last finished epoch is kept."
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Measures, keeps, saves."""
        logs = logs if logs is not None else {}
        with self._averages():
            self._measure(logs)
        logs["best"] = float(self._best_epoch == len(self._history))
        if self._chief:
            progress = {"history": self._history, "best_epoch": self._best_epoch}
            self._checkpoint.save(self.model, self._best, progress)
        if self.finished:
            self.model.stop_training = True

    def _measure(self, logs: dict[str, Any]) -> None:
        if self._task is not None:
            logs.update(self._task.ndcg(cosines(self._encode, self._task)))
        self._history.append({name: float(value) for name, value in logs.items()})
        if self._is_best():
            self._best_epoch = len(self._history)
            self._best = [np.array(weight) for weight in self.model.weights]

    @contextmanager
    def _averages(self) -> Iterator[None]:
        """Puts the moving averages in the weights' place for a while, where there are any."""
        if not self.model.optimizer.use_ema:
            yield
            return
        averages = self.model.optimizer._model_variables_moving_average
        trained = [np.array(weight) for weight in self.model.trainable_variables]
        for weight, average in zip(self.model.trainable_variables, averages, strict=True):
            weight.assign(average)
        yield
        for weight, value in zip(self.model.trainable_variables, trained, strict=True):
            weight.assign(value)

    def _is_best(self) -> bool:
        if not self._best_epoch:
            return True
        name: str = self._config.monitor
        sign = 1.0
        if self._task is None or name == "loss":
            name, sign = ("val_loss" if self._task is not None else "loss"), -1.0
        now, best = (self._history[i][name] for i in (-1, self._best_epoch - 1))
        return sign * now > sign * best

    def finish(self, model: Siamese, vocabulary: Any, data: Path, config: Config) -> Result:
        """Puts the best weights back and weighs the prior."""
        for weight, value in zip(model.weights, self._best, strict=True):
            weight.assign(value)
        chosen = config.ranking.prior
        weight, ndcg = 0.0 if chosen == "auto" else float(chosen), {}
        if self._task is not None:
            matrix = cosines(self._encode, self._task)
            log_prior = TitlePrior(load_titles(data))(self._task.titles)
            if chosen == "auto":
                weight, _ = self._task.best_prior_weight(matrix, log_prior)
            ndcg = self._task.ndcg(matrix + weight * log_prior)
        return Result(len(self._history), self._best_epoch, self._history, weight, ndcg)


def _start_run(config: Config, data: Path, out: Path) -> None:
    """Makes the run's directory, or checks that it is this run, unfinished."""
    if (out / CONFIG).exists():
        if (out / RANKING).exists():
            raise UserError(f"{out} holds a finished run; choose another --out, or remove it.")
        before = load_config(out / CONFIG)
        if before != config:
            raise UserError(
                f"{out} holds an unfinished run of another configuration "
                f"({_first_difference(before, config)}); choose another --out, or remove it."
            )
        if FeatureSpec.load(out) != FeatureSpec.load(data):
            raise UserError(
                f"{out} holds an unfinished run on other data; choose another --out, or remove it."
            )
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not a run; choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    for name in (FEATURE_SPEC, VOCABULARY, TITLES):
        with atomic_write(out / name, "wb") as file:
            file.write((data / name).read_bytes())
    with atomic_write(out / CONFIG) as file:
        file.write(config.dump())


def _first_difference(a: Config, b: Config) -> str:
    def flat(prefix: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            return {prefix: value}
        parts = (flat(f"{prefix}.{key}".lstrip("."), one) for key, one in value.items())
        return {key: one for part in parts for key, one in part.items()}

    old, new = (flat("", one.model_dump(mode="json")) for one in (a, b))
    for key in [*old, *new]:
        if old.get(key) != new.get(key):
            return f"{key} was {old.get(key)!r}, now {new.get(key)!r}"
    return "equal"


def _write_run(
    model: Siamese, config: Config, result: Result, spec: FeatureSpec, out: Path
) -> None:
    aside = out / f".{WEIGHTS}"
    model.save_weights(aside)
    aside.replace(out / WEIGHTS)
    _write_json(out / HISTORY, result.history)
    _write_json(out / VERSIONS, _versions())
    write_model_card(out, model, config, result, spec)
    shutil.rmtree(out / "state", ignore_errors=True)
    # Last: a run with this file is finished.
    _write_json(
        out / RANKING,
        {
            "prior_weight": result.prior_weight,
            "best_epoch": result.best_epoch,
            "validation": result.ndcg,
        },
    )


def _write_json(path: Path, value: Any) -> None:
    with atomic_write(path) as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def _versions() -> dict[str, str]:
    packages = ("dssm-tf", "tensorflow", "keras", "numpy", "apache-beam")
    found: dict[str, str] = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except ModuleNotFoundError:
            found[package] = "not installed"
    return found
