"""Fits DSE, SSI and PSI to links between queries and titles by margin rank loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.dse.networks import BagPair, ScoreFunction, dense_rows, margin_rank, pair_scores
from dssm_tf.dse.pretraining import Callback
from dssm_tf.dse.rank_loss import rank_loss
from dssm_tf.dse.rbm import Tensor
from dssm_tf.dse.settings import FineTuning
from dssm_tf.dse.tuple_batches import TupleBatch, TupleBatches


@dataclass(frozen=True)
class LinkTask:
    """Queries and titles as bags of words, and the links between them: title answers query.

    Links are bool `(queries, titles)`.

    Args:
        queries: `(queries, words)`.
        titles: `(titles, words)`.
        train: links to learn from.
        known: pairs that are never irrelevant in training.
        ignored: pairs that are neither relevant nor irrelevant in measurements; None means `known`.
        validation: links to choose the model by; None uses the last model.
        weights: relative frequency of each training link, see `TupleBatches`.
    """

    queries: sparse.csr_matrix
    titles: sparse.csr_matrix
    train: sparse.csr_matrix
    known: sparse.csr_matrix
    ignored: sparse.csr_matrix | None = None
    validation: sparse.csr_matrix | None = None
    weights: np.ndarray | None = None

    def loss(self, scores: ScoreFunction, links: sparse.csr_matrix) -> float:
        """Rank loss in percent on links; ignored pairs that are not among them are left out."""
        ignored = self.known if self.ignored is None else self.ignored
        return rank_loss(scores, links, ignored > links)

    def batches(self, batch_size: int, seed: int) -> TupleBatches:
        """Batches of tuples of the training links."""
        return TupleBatches(self.train, self.known, batch_size, self.weights, seed)


def fine_tune(
    model: BagPair,
    task: LinkTask,
    settings: FineTuning,
    *,
    batches: Iterable[TupleBatch] | None = None,
    seed: int = 0,
    callback: Callback = lambda _: None,
) -> list[float]:
    """Fits a pair model to the training links of a task.

    Args:
        model: changed in place.
        task: the data. The weights with the least rank loss on the validation links are restored.
        settings: steps, rates and sizes.
        batches: endless training batches; None uses those of the task.
        seed: seed of the task's batches.
        callback: called after every step with its state as text.

    Returns:
        The loss of every step. Training ends early when every tuple keeps its margin.

    Raises:
        UserError: no tuple exists, or the loss or a weight is not finite. The message has the step
            and the cause.
    """
    batches = task.batches(settings.batch_size, seed) if batches is None else batches
    optimizer = _optimizer(settings)
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function(reduce_retracing=True, autograph=False)
    def step(
        queries: Tensor, titles: Tensor, rows: Tensor, columns: Tensor, mask: Tensor
    ) -> Tensor:
        with tf.GradientTape() as tape:
            scores = ops.take(ops.take(model(queries, titles), rows, axis=0), columns, axis=1)
            loss = margin_rank(scores, mask)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    losses: list[float] = []
    best, best_weights = math.inf, None
    for number, batch in zip(range(1, settings.steps + 1), batches, strict=False):
        # A text that occurs several times in the batch is encoded once.
        queries, rows = np.unique(batch.queries, return_inverse=True)
        titles, columns = np.unique(batch.titles, return_inverse=True)
        inputs = dense_rows(task.queries, queries), dense_rows(task.titles, titles)
        losses.append(float(step(*inputs, rows, columns, batch.is_irrelevant)))
        state = f"loss {losses[-1]:.4f}"
        evaluate = number == settings.steps or number % settings.check_every == 0
        cause = "" if math.isfinite(losses[-1]) else f"the loss is {losses[-1]}"
        # The loss was computed before the update, so the new weights are checked too.
        if evaluate and not all(np.isfinite(weight).all() for weight in model.get_weights()):
            cause = "a weight is not a finite number"
        if cause:
            raise UserError(
                f"fine-tuning diverged at step {number}: {cause}. The learning rate "
                f"{settings.learning_rate:g} is too high; lower it, or set clip_norm."
            )
        if evaluate and task.validation is not None:
            loss = task.loss(pair_scores(model, task.queries, task.titles), task.validation)
            state += f" validation {loss:.2f} %"
            if loss < best:
                best, best_weights = loss, model.get_weights()
        callback(state)
        if len(losses) >= settings.check_every and not any(losses[-settings.check_every :]):
            break  # every tuple keeps its margin, so the gradient is zero
    if best_weights is not None:
        model.set_weights(best_weights)
    return losses


def _optimizer(settings: FineTuning) -> keras.optimizers.Optimizer:
    schedule = keras.optimizers.schedules.CosineDecay(float(settings.learning_rate), settings.steps)
    options = {"weight_decay": settings.weight_decay, "global_clipnorm": settings.clip_norm}
    if settings.optimizer == "adam":
        optimizer = keras.optimizers.Adam(schedule, **options)
    else:
        optimizer = keras.optimizers.SGD(schedule, momentum=settings.momentum, **options)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer
