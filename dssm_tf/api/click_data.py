"""Preprocessed clicks as Keras's `fit` takes them, and what `fit` trained as a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, refuse_existing
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import Config, find_config, load_config, parse_config

if TYPE_CHECKING:
    import keras

    from dssm_tf.model.siamese import Siamese


class ClickData:
    """A preprocessed directory for `keras.Model.fit`: data sets, model, loss and optimizer.

    They are those of `dssm train`, under the same configuration, its sections `judgments` and
    `teacher` included. What that adds to `fit`, to keep
    the best epoch by validation NDCG, to go on after a kill and to refit on all records, is the
    caller's. Make it, the model and `model.compile` inside a strategy's scope to train on several
    devices of one machine.

    Args:
        directory: what `dssm preprocess` wrote.
        config: a YAML file; the name of a configuration that comes with the package, such as
            `lstm` or `dssm`; the keys of one, such as `{"tower": {"name": "dssm"}}`; or a
            `dssm_tf.config.Config`. That of `start`, or else `dssm`, if not given.
        overrides: settings over a file's or a named configuration's, as `dssm train --set` takes
            them: `["tower.cells=64", "training.batch_size=128"]`.
        start: a finished run to go on from, as `dssm train --from` does; the directory is then of
            `dssm preprocess --vocabulary-from RUN`.

    Attributes:
        config: all settings.
        steps: batches of an epoch, for `steps_per_epoch`.
        validation_steps: batches of the validation part; None where there is none.

    Raises:
        UserError: directory or configuration are unusable, or do not suit each other or the
            devices.
    """

    def __init__(
        self,
        directory: Path | str,
        config: Config | Mapping[str, Any] | Path | str | None = None,
        overrides: Sequence[str] = (),
        start: Path | str | None = None,
    ) -> None:
        if config is None:
            config = "dssm" if start is None else Path(start) / "config.yaml"
        self.config = _read_config(config, overrides)
        load_tensorflow()
        import tensorflow as tf

        from dssm_tf.data.preprocessed import Preprocessed
        from dssm_tf.graded.sources import read_sources
        from dssm_tf.training.devices import Devices, read_cluster, reuse_memory, use_xla
        from dssm_tf.training.fitting import training_batches
        from dssm_tf.training.train import check_devices, check_settings, settled
        from dssm_tf.training.warm_start import WarmStart

        reuse_memory()
        if (workers := read_cluster()[1]) > 1:
            raise UserError(
                f"TF_CONFIG names {workers} workers, for which Keras's fit does not work; "
                "use `dssm train`, or unset TF_CONFIG."
            )
        self.config, self._data = settled(self.config, Preprocessed(Path(directory)))
        self._devices = Devices(tf.distribute.get_strategy())
        check_settings(self.config, self._data)
        check_devices(self.config, self._devices)
        self._start = None if start is None else WarmStart.load(start, self.config, self._data)
        self._xla = use_xla(self.config, self._devices)
        self._sources = read_sources(self.config, self._data)
        self._batches = training_batches(
            self.config, self._data, self._devices.parts, self._xla, self._sources
        )
        self._held_out = self._batches.held_out()
        self.steps = self._batches.steps
        self.validation_steps = None if self._held_out is None else self._held_out.steps

    def build_model(self) -> Siamese:
        """The model to train, a `keras.Model`, with its first weights: random, or of `start`.

        Keras's random seed is set to `training.seed` first, so that the weights repeat. Steps are
        compiled by XLA only where `training.xla` has batches of one size; on CPUs Keras also wants
        `jit_compile=True`.

        Returns:
            Inputs to cosines float32 `(batch, 1 + negatives)`; see
            `dssm_tf.model.siamese.Siamese`. It does not take `metrics=`, of which Keras has none
            that know which candidates count.
        """
        import keras

        from dssm_tf.model.semantic_ranker import build_model
        from dssm_tf.training.keeper import put
        from dssm_tf.training.keras_internals import build_nothing_more

        keras.utils.set_random_seed(self.config.training.seed)
        with self._devices.strategy.scope():
            model = build_model(
                self.config, self._data.vocabulary.size, self.config.training.precision
            )
            if self._start is not None:
                put(model.weights, self._start.weights)
        model.supports_jit = self._xla
        build_nothing_more(model)
        return model

    def loss(self) -> keras.losses.Loss:
        """The loss of the configuration; any other `RankingLoss` will do as well.

        Not with `judgments` or `teacher`, whose rows have losses of their own; with
        `training.nested_lengths` as the loss of a `NestedLengths`.
        """
        from dssm_tf.training.fitting import configured_loss

        return configured_loss(self.config)

    def optimizer(self, epochs: int) -> keras.optimizers.Optimizer:
        """The optimizer of the configuration; any of Keras's will do as well.

        Args:
            epochs: how many there will be, for the momentum schedule of `nesterov`.
        """
        from dssm_tf.training.fitting import configured_optimizer

        return configured_optimizer(self.config, self._devices.parts, self.steps * epochs)

    def training(self, epochs: int, first: int = 0) -> Any:
        """Batches of the training part, for `fit` with `steps_per_epoch=clicks.steps`.

        Args:
            epochs: in the end; each is shuffled by `training.seed` and its number alone.
            first: epochs already done, where `fit` goes on (its `initial_epoch`).

        Returns:
            A `tf.data.Dataset`, distributed under a strategy, of `steps * (epochs - first)`
            elements `(inputs, labels, weights)`: text batches and `candidates` int32
            `(batch, 1 + negatives)`; `mask`, `correction` and `targets`, each of the same
            shape, and `source` int32 `(batch,)` where there are several; float32 `(batch,)`.
        """
        return self._devices.read(self._batches, self.config.training.seed, first, epochs)

    def validation(self) -> Any:
        """Batches of the validation part, with rivals as in training, for `validation_data`.

        Returns:
            A pass over it as `training` has it, for `validation_steps=clicks.validation_steps`;
            None where there is no validation part.
        """
        return None if self._held_out is None else self._devices.read(self._held_out, None)

    def save(self, model: Siamese, out: Path | str) -> None:
        """Writes a trained model as a run, for `dssm_tf.load`, `dssm export` and the rest.

        The weight of the log-prior is chosen on the validation part, as `ranking.prior` says.
        `config.yaml` is that of the data, with the epochs of the last `fit`; the model card has the
        loss and the optimizer that the model was compiled with, as Keras writes them.

        Args:
            model: of `build_model`, trained.
            out: the run's directory, new.

        Raises:
            UserError: `out` exists, or the model was not compiled, or is not of this configuration.
        """
        import keras

        from dssm_tf.model.prior import TitlePrior
        from dssm_tf.model.run_files import MODEL_CARD
        from dssm_tf.model.semantic_ranker import Encoder, build_model
        from dssm_tf.training.keeper import put
        from dssm_tf.training.run_directory import Result, finish_run, start_run
        from dssm_tf.training.train import held_out
        from dssm_tf.training.validation import weigh_prior

        out, data = Path(out), self._data
        refuse_existing(out)
        if not model.compiled:
            raise UserError("the model was not compiled; save one that `fit` has trained.")
        metrics = getattr(getattr(model, "history", None), "history", {})
        epochs = [
            dict(zip(metrics, map(float, epoch), strict=True))
            for epoch in zip(*metrics.values(), strict=True)
        ]
        done = {"refit": False, "epochs": len(epochs) or self.config.training.epochs}
        training = self.config.training.model_copy(update=done)
        config = self.config.model_copy(update={"training": training})
        ranked = build_model(config, data.vocabulary.size)
        try:
            put(ranked.weights, [keras.ops.convert_to_numpy(one) for one in model.weights])
        except ValueError as error:  # too few, or of other shapes
            reason = " ".join(str(error).split())
            raise UserError(f"{reason} Save what `build_model` made.") from error
        task = held_out(config, data, self._start, self._sources)
        titles = data.titles if self._start is None else self._start.titles
        encode = Encoder(ranked, data.vocabulary)
        prior = TitlePrior(titles, data.rules)
        weight, ndcg = weigh_prior(config, prior, task, encode)
        result = Result(len(epochs), len(epochs), epochs, weight, ndcg)
        result.learned_from(self._sources)
        result.validated = "" if task is None else task.about
        with atomic_directory(out) as folder:
            start_run(config, data, folder, self._start)
            finish_run(ranked, config, result, data, folder, self._start)
            compiled = json.dumps(model.get_compile_config(), indent=2, default=str)
            with open(folder / MODEL_CARD, "a", encoding="utf-8") as card:
                card.write(_COMPILED.format(compiled))


_COMPILED = """
## Compiled with

Trained by Keras's `fit` from Python; the best epoch was not looked for. The loss and the optimizer
were these, whatever the configuration says:

```json
{}
```
"""


def _read_config(
    config: Config | Mapping[str, Any] | Path | str, overrides: Sequence[str]
) -> Config:
    if isinstance(config, (str, Path)):
        return load_config(find_config(str(config)), overrides)
    if overrides:
        raise UserError(
            f"overrides {list(overrides)!r:.80} are for a configuration's file or name; put them "
            "among the keys."
        )
    return config if isinstance(config, Config) else parse_config(dict(config))
