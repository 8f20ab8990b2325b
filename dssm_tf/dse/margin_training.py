"""Trains DSE, SSI and PSI: RBMs layer by layer without labels, then pairs by margin rank loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.dse.networks.bag_pair import BagPair
from dssm_tf.dse.networks.dse import DSE
from dssm_tf.dse.rbm import RBM
from dssm_tf.dse.relevance import TupleBatch
from dssm_tf.losses.margin_rank import MarginRank

LARGEST_WEIGHT = 1e3
LOOKS = 10
OPTIMIZERS = ("sgd", "adam")
_DENSE = 1 << 25  # numbers that are held as a dense table, for speed
_ROWS = 1024  # encoded or looked at together

Advance = Callable[[int, str], None]
"""Told how many steps are done and how it goes."""

Rows = Callable[[NDArray[np.int64]], NDArray[np.float32]]
"""Gives texts by their numbers, dense: `(texts, units)`."""


@dataclass(frozen=True)
class Pretraining:
    """How an RBM is taught.

    Args:
        steps: batches of texts, for each RBM: few texts are passed over more often than many.
        batch_size: texts a step.
        learning_rate: epsilon of eq. 13 for binary hidden units.
        gaussian_learning_rate: the same for Gaussian ones, whose activities are not bounded:
            they take a smaller one.
        momentum: share of the last step that is made again.
        weight_decay: pull of W towards zero.
        seed: of the order of the texts.

    Reference: Wu et al. 2014, sec. 2.2 and 4.1.
    """

    steps: int = 500
    batch_size: int = 64
    learning_rate: float = 0.1
    gaussian_learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-4
    seed: int = 0


@dataclass(frozen=True)
class FineTuning:
    """How a pair model is fitted to tuples.

    Args:
        steps: batches of tuples.
        learning_rate: of the first step; it falls to 0 along a cosine, which the paper does not
            say but which ends the noise of the last batches.
        optimizer: `"sgd"`, with momentum, as in the paper; or `"adam"`, which needs fewer steps.
        momentum: of `"sgd"`: share of the last step that is made again.
        weight_decay: pull of the matrices towards zero; biases are left alone.
        clip_norm: length to which a longer gradient is cut; None never cuts.
        check_every: steps between two calls of the check.

    Reference: Wu et al. 2014, sec. 2.3 and 4.1.
    """

    steps: int = 1000
    learning_rate: float = 0.1
    optimizer: str = "sgd"
    momentum: float = 0.9
    weight_decay: float = 1e-4
    clip_norm: float | None = 1.0
    check_every: int = 100

    def __post_init__(self) -> None:
        """Refuses what is no plan."""
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(
                f"FineTuning received optimizer={self.optimizer!r}; "
                f"expected one of {', '.join(OPTIMIZERS)}."
            )


@dataclass(frozen=True)
class TaughtLayer:
    """How well an RBM knew its data on the way, at `LOOKS` equal distances.

    Args:
        reconstruction_error: mean squared, since the last look.
        pseudo_log_likelihood: in nats a text.
    """

    reconstruction_error: tuple[float, ...]
    pseudo_log_likelihood: tuple[float, ...]


def pretrain(
    tower: DSE,
    bags: sparse.csr_matrix,
    settings: Pretraining,
    advance: Advance = lambda *_: None,
    lower: DSE | None = None,
) -> list[TaughtLayer]:
    """Teaches the RBMs of a tower from the bottom up, each on the means of the one below.

    Args:
        tower: changed in place.
        bags: `(texts, words)`, entries from 0 to 1.
        settings: how.
        advance: told of every step; there are `settings.steps` for every RBM.
        lower: a pretrained tower of the same words and widths, whose binary RBMs are taken over
            instead of taught again: they do not know C.

    Returns:
        One entry for every RBM that was taught.

    Raises:
        UserError: an entry is not from 0 to 1, or an RBM diverges: the step and the cause.
    """
    if not (np.isfinite(bags.data).all() and (bags.data >= 0).all() and (bags.data <= 1).all()):
        raise UserError(
            f"RBM inputs go from {bags.data.min():.3g} to {bags.data.max():.3g}; visible units "
            "take 0 to 1. Use binary or normalised features."
        )
    taught: list[TaughtLayer] = []
    below: Rows = _rows_of(bags)
    for layer, machine in enumerate(tower.machines):
        name = f"RBM {layer + 1} of {len(tower.machines)} ({machine.hidden_kind})"
        if lower is not None and layer < len(tower.machines) - 1:
            machine.set_weights(lower.machines[layer].get_weights())
            below = _means(machine, below, bags.shape[0]).__getitem__
            continue
        start = len(taught) * settings.steps
        taught.append(_teach(machine, below, bags.shape[0], settings, name, _from(start, advance)))
        if layer < len(tower.machines) - 1:
            below = _means(machine, below, bags.shape[0]).__getitem__
    return taught


def _rows_of(bags: sparse.csr_matrix) -> Rows:
    if bags.shape[0] * bags.shape[1] <= _DENSE:
        table: NDArray[np.float32] = bags.toarray()
        return table.__getitem__

    def rows(chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        dense: NDArray[np.float32] = bags[chosen].toarray()
        return dense

    return rows


def _from(start: int, advance: Advance) -> Advance:
    return lambda step, state: advance(start + step, state)


def _means(machine: RBM, below: Rows, number: int) -> NDArray[np.float32]:
    """What the next RBM learns: the hidden means of all texts."""
    parts = [np.arange(start, min(number, start + _ROWS)) for start in range(0, number, _ROWS)]
    return np.concatenate([ops.convert_to_numpy(machine(below(part))) for part in parts])


def _teach(
    machine: RBM, rows: Rows, number: int, settings: Pretraining, name: str, advance: Advance
) -> TaughtLayer:
    """Contrastive divergence with momentum and weight decay."""
    gaussian = machine.hidden_kind == "gaussian"
    rate = settings.gaussian_learning_rate if gaussian else settings.learning_rate
    optimizer = keras.optimizers.SGD(float(rate), momentum=settings.momentum)
    parameters = [machine.kernel, machine.hidden_bias, machine.visible_bias]
    optimizer.build(parameters)
    random = np.random.default_rng(settings.seed)
    sample = rows(random.permutation(number)[:_ROWS])
    # A visible unit starts as often on as it is in the data, so that W need not say so.
    often = np.clip(sample.mean(axis=0), 0.01, 0.99)
    machine.visible_bias.assign(np.log(often / (1 - often)))

    @tf.function(reduce_retracing=True)
    def step(visible):
        dreamt = machine.gibbs(visible)
        kernel, hidden_bias, visible_bias = machine.statistics_difference(visible, dreamt)
        decay = settings.weight_decay * machine.kernel
        optimizer.apply([decay - kernel, -hidden_bias, -visible_bias], parameters)
        error = ops.mean(ops.square(visible - dreamt))
        return error, ops.max(ops.abs(machine.kernel))

    errors: list[float] = []
    looks: list[tuple[float, float]] = []
    order = np.empty(0, dtype=np.int64)
    for done in range(1, settings.steps + 1):
        if len(order) < min(settings.batch_size, number):
            order = np.concatenate([order, random.permutation(number)])
        chosen, order = order[: settings.batch_size], order[settings.batch_size :]
        error, largest = (float(value) for value in step(rows(chosen)))
        if not (math.isfinite(error) and largest <= LARGEST_WEIGHT):
            reached = f"{largest:.3g}" if math.isfinite(largest) else "no finite number"
            raise UserError(
                f"{name} diverged at step {done} of {settings.steps}: its largest weight is "
                f"{reached}. The learning rate {rate:g} is too high for its inputs; lower it."
            )
        errors.append(error)
        if done * LOOKS // settings.steps > (done - 1) * LOOKS // settings.steps:
            looks.append((float(np.mean(errors)), float(machine.pseudo_log_likelihood(sample))))
            errors = []
        likelihood = f", log p {looks[-1][1]:.1f}" if looks else ""
        advance(done, f"{name}: error {error:.4f}{likelihood}")
    return TaughtLayer(tuple(look[0] for look in looks), tuple(look[1] for look in looks))


def fine_tune(
    model: BagPair,
    queries: sparse.csr_matrix,
    titles: sparse.csr_matrix,
    batches: Iterable[TupleBatch],
    settings: FineTuning,
    *,
    check: Callable[[], float] | None = None,
    advance: Advance = lambda *_: None,
) -> list[float]:
    """Fits a pair model to tuples by margin rank loss.

    Args:
        model: changed in place.
        queries: `(queries, words)`.
        titles: `(titles, words)`.
        batches: of tuples, without end.
        settings: how.
        check: the rank loss on validation, of which the best model is kept; None keeps the last.
        advance: told of every step.

    Returns:
        The loss of every step; fewer than asked for once every tuple keeps its margin.

    Raises:
        UserError: the loss or a weight is not finite: the step and the cause.
    """
    schedule = keras.optimizers.schedules.CosineDecay(float(settings.learning_rate), settings.steps)
    common = {"weight_decay": settings.weight_decay, "global_clipnorm": settings.clip_norm}
    if settings.optimizer == "adam":
        optimizer = keras.optimizers.Adam(schedule, **common)
    else:
        optimizer = keras.optimizers.SGD(schedule, momentum=settings.momentum, **common)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    variables = model.trainable_variables
    optimizer.build(variables)
    margin = MarginRank()

    @tf.function(reduce_retracing=True)
    def step(asked, answers, rows, columns, labels):
        with tf.GradientTape() as tape:
            scores = ops.take(ops.take(model(asked, answers), rows, axis=0), columns, axis=1)
            loss = margin(labels, scores)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    query_rows, title_rows = _rows_of(queries), _rows_of(titles)
    losses: list[float] = []
    best, kept = math.inf, None
    for done, batch in zip(range(1, settings.steps + 1), batches, strict=False):
        # A text that is several times in the batch is encoded once.
        asked, rows = np.unique(batch.queries, return_inverse=True)
        answers, columns = np.unique(batch.titles, return_inverse=True)
        labels = {
            "mask": batch.counted,
            "correction": np.zeros_like(batch.counted),
            "targets": np.eye(len(batch.counted), dtype=np.float32),
        }
        loss = float(step(query_rows(asked), title_rows(answers), rows, columns, labels))
        if not math.isfinite(loss):
            raise UserError(
                f"fine-tuning diverged at step {done}: the loss is {loss}. The learning rate "
                f"{settings.learning_rate:g} is too high; lower it, or set clip_norm."
            )
        losses.append(loss)
        state = f"loss {loss:.4f}"
        last = done == settings.steps
        if last or done % settings.check_every == 0:
            _refuse_broken(model, done, settings)  # by the update that came after the loss
        if check is not None and (last or done % settings.check_every == 0):
            found = check()
            state += f" validation {found:.2f} %"
            if found < best:
                best, kept = found, model.get_weights()
        advance(done, state)
        if len(losses) >= settings.check_every and not any(losses[-settings.check_every :]):
            break  # every tuple keeps its margin: there is no gradient left
    if kept is not None:
        model.set_weights(kept)
    return losses


def _refuse_broken(model: BagPair, done: int, settings: FineTuning) -> None:
    if not all(np.isfinite(weight).all() for weight in model.get_weights()):
        raise UserError(
            f"fine-tuning diverged at step {done}: a weight is not a finite number. The learning "
            f"rate {settings.learning_rate:g} is too high; lower it, or set clip_norm."
        )


def encode(
    encoder: Callable[[NDArray[np.float32]], object], bags: sparse.csr_matrix
) -> NDArray[np.float32]:
    """Vectors of all bags by `BagPair.query_vectors`, `title_vectors` or a tower."""
    return np.concatenate(
        [
            ops.convert_to_numpy(encoder(bags[start : start + _ROWS].toarray()))
            for start in range(0, bags.shape[0], _ROWS)
        ]
    )
