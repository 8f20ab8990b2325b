"""Builds a training loop and its components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import keras

from dssm_tf.config import Config
from dssm_tf.config.lists import ListsConfig
from dssm_tf.config.losses import LossConfig
from dssm_tf.data.graded_sources import SOURCES, GradedSource
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.losses import BySource
from dssm_tf.model.build import build_model
from dssm_tf.model.semantic_ranker import text_scorer
from dssm_tf.training.batches import training_batches
from dssm_tf.training.devices import Devices
from dssm_tf.training.loop import LoopOptions, TrainingLoop
from dssm_tf.training.model_state import assign_all
from dssm_tf.training.warm_start import WarmStart, idf_scaled_weights, training_frequencies


def build_loop(
    config: Config,
    data: Preprocessed,
    *,
    devices: Devices,
    options: LoopOptions,
    sources: Sequence[GradedSource] = (),
    warm_start: WarmStart | None = None,
) -> TrainingLoop:
    """Builds a training loop and its batches, models and loss.

    Args:
        config: the resolved configuration; see `resolve_config`.
        data: the preprocessed directory.
        devices: the devices to train on.
        options: output and callbacks of the loop.
        sources: graded lists to train on besides clicks.
        warm_start: the earlier run that the training starts from. None starts from random weights,
            scaled if `training.idf_start` is set.
    """
    training = config.training
    keras.utils.set_random_seed(training.seed)
    xla = devices.use_xla(training.xla)
    frequencies = training_frequencies(config, data, warm_start)
    batches = training_batches(
        config,
        data,
        frequencies=frequencies,
        replicas=devices.replicas,
        fixed_shapes=xla,
        sources=sources,
    )
    size = data.vocabulary.size
    first_weights = None if warm_start is None else warm_start.weights
    with devices.strategy.scope():
        model = build_model(config, size, training.precision)
        if warm_start is None and training.idf_start:
            first_weights = idf_scaled_weights(
                model, data.count_titles_of_ngrams(), data.spec.count("titles")
            )
        if first_weights is not None:
            assign_all(model.weights, first_weights)
    # The same model in float32, which the validation and the saved run use.
    ranking_model = build_model(config, size)
    if first_weights is not None:
        assign_all(ranking_model.weights, first_weights)
    for built in (model, ranking_model):
        built.set_sparse_products(devices.use_sparse_products(xla))
    return TrainingLoop(
        model,
        ranking_model,
        text_scorer(ranking_model, data.vocabulary, frequencies),
        batches,
        build_loss(config.loss, config.lists),
        config.optimizer,
        training,
        devices,
        xla,
        options,
    )


def build_loss(config: LossConfig, lists: Mapping[str, ListsConfig]) -> keras.losses.Loss:
    """The loss of the clicks; with graded lists, a `BySource` with one loss per source.

    Args:
        config: the section `loss`, for clicks.
        lists: the sections of graded lists, by source.
    """
    click_loss = config.build()
    if not lists:
        return click_loss
    list_losses = {name: section.loss.build() for name, section in lists.items()}
    # One loss per possible source, so that a source has the same index in every run.
    return BySource([list_losses.get(name, click_loss) for name in SOURCES])
