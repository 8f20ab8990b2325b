"""What `fit` did to a model, in the words of a configuration."""

from __future__ import annotations

from typing import Any

import keras

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config, parse_config
from dssm_tf.losses import LOSSES
from dssm_tf.losses.ranking_loss import NestedLengths, RankingLoss
from dssm_tf.model.semantic_ranker import build_model
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.checkpoint import put
from dssm_tf.training.optimizers import ScheduledNesterov, make_optimizer


def history(model: Siamese) -> list[dict[str, float]]:
    """The metrics of the last `fit`, one dict an epoch; empty where there was none."""
    found = getattr(model, "history", None)
    metrics = {} if found is None else found.history
    return [
        {name: float(value) for name, value in zip(metrics, epoch, strict=True)}
        for epoch in zip(*metrics.values(), strict=True)
    ]


def float32_copy(config: Config, model: Siamese, vocabulary_size: int) -> Siamese:
    """A model to rank with: the weights of a trained one in float32, off its devices.

    Raises:
        UserError: the model is of another configuration or vocabulary.
    """
    ranked = build_model(config, vocabulary_size)
    values = [keras.ops.convert_to_numpy(one) for one in model.weights]
    shapes = [tuple(one.shape) for one in ranked.weights]
    if shapes != [one.shape for one in values]:
        raise UserError(
            f"the model has weights of the shapes {[one.shape for one in values]!r:.120}, the "
            f"configuration's has {shapes!r:.120}; save what `build_model` made."
        )
    put(ranked.weights, values)
    return ranked


def fitted_config(config: Config, model: Siamese, epochs: int) -> Config:
    """The configuration with the loss and the optimizer that a model was compiled with.

    What a configuration has no words for, such as a loss of one's own, stays as it was.

    Args:
        config: what the data were read by.
        model: compiled.
        epochs: of the last `fit`; 0 where there was none.

    Raises:
        UserError: the model was not compiled.
    """
    if not model.compiled:
        raise UserError("the model was not compiled; save one that `fit` has trained.")
    raw: dict[str, Any] = config.model_dump(mode="json")
    raw["training"] |= {"refit": False, "epochs": epochs or config.training.epochs}
    loss = model.loss.loss if isinstance(model.loss, NestedLengths) else model.loss
    if isinstance(loss, RankingLoss) and loss.name in LOSSES:
        raw["loss"] = {"name": loss.name, **loss.parameters}
    if (optimizer := _optimizer(model.optimizer)) is not None:
        raw["optimizer"] = optimizer
        averages = model.optimizer.use_ema
        raw["training"]["averaging"] = model.optimizer.ema_momentum if averages else 0.0
    return parse_config(raw)


def _optimizer(optimizer: keras.optimizers.Optimizer) -> dict[str, Any] | None:
    """The section of an optimizer, None for one that no configuration makes.

    Its options are the settings that differ from the class's own.
    """
    nesterov = isinstance(optimizer, ScheduledNesterov)
    name = "nesterov" if nesterov else type(optimizer).__name__.lower()
    # .01 in float32 is .00999999978.
    rate = float(f"{keras.ops.convert_to_numpy(optimizer.learning_rate):.7g}")
    try:
        usual = make_optimizer(name, rate, 1).get_config()
    except ValueError:
        return None
    settings = optimizer.get_config()
    clip = settings["clip_norm" if nesterov else "global_clipnorm"]
    elsewhere = {
        "name", "learning_rate", "clip_norm", "global_clipnorm", "total_updates",
        "use_ema", "ema_momentum",
    }  # fmt: skip
    options = {
        key: value
        for key, value in settings.items()
        if key not in elsewhere and value != usual.get(key)
    }
    return {"name": name, "learning_rate": rate, "clip_norm": clip, "options": options}
