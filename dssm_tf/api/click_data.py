"""Training with Keras's `fit`: preprocessed clicks as data sets, and the trained model as a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssm_tf.api.settings import read_config
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, refuse_existing
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import DEFAULT_CONFIG, Config

if TYPE_CHECKING:
    import keras

    from dssm_tf.losses import RankingLoss
    from dssm_tf.model.siamese import Siamese
    from dssm_tf.towers.tower import Tower
    from dssm_tf.training.ranking_validation import RankingValidation


class ClickData:
    """Data sets, model, loss and optimizer for `keras.Model.fit`, from a preprocessed directory.

    They equal those of `dssm train` with the same configuration, including its sections `judgments`
    and `teacher`. Other features of `dssm train` are callbacks: `ranking_validation()`,
    `dssm_tf.training.early_stopping.BestWeights`, and `dssm_tf.training.checkpoint.Checkpoint`.
    Two features have no equivalent in `fit`. There is no final training on all records. Validation
    does not choose the initial weights, so `start.spelling: auto` has the same effect as `false`.

    To train on several devices of one machine, create this object, call `build_model` and call
    `model.compile` inside the scope of a `tf.distribute` strategy.

    Args:
        directory: directory that `dssm preprocess` wrote.
        config: a YAML file; the name of a configuration in the package, such as `lstm` or `dssm`; a
            dictionary, such as `{"tower": {"name": "dssm"}}`; or a `dssm_tf.config.Config`. By
            default `maxsim`, or the configuration of `start`.
        overrides: settings that override those of the file or the named configuration, as for
            `dssm train --set`: `["tower.cells=64", "training.batch_size=128"]`.
        start: a finished run to start from, as for `dssm train --from`; `directory` must be from
            `dssm preprocess --vocabulary-from RUN`.
        tower: a function from a vocabulary size to a custom tower, which replaces the
            configuration's; see `dssm_tf.train`.
        loss: a loss for clicks, or its name, which replaces the configuration's.

    Attributes:
        config: all settings.
        vocabulary_size: number of letter n-grams and whole words; a tower's first matrix has a row
            for each of them.
        steps: number of batches per epoch, for `steps_per_epoch`.
        validation_steps: number of batches of the validation split; None without one.

    Raises:
        UserError: the directory or the configuration cannot be used, or they do not fit each other
            or the devices.
    """

    def __init__(
        self,
        directory: Path | str,
        config: Config | Mapping[str, Any] | Path | str | None = None,
        overrides: Sequence[str] = (),
        start: Path | str | None = None,
        *,
        tower: Callable[[int], Tower] | None = None,
        loss: RankingLoss | str | None = None,
    ) -> None:
        if config is None:
            config = DEFAULT_CONFIG if start is None else Path(start) / "config.yaml"
        self.config = read_config(config, overrides)
        load_tensorflow()
        import tensorflow as tf

        from dssm_tf.config.custom_parts import with_custom_parts
        from dssm_tf.data.graded_sources import read_sources
        from dssm_tf.data.preprocessed import Preprocessed
        from dssm_tf.training.batches import training_batches
        from dssm_tf.training.checks import check_batch_sizes, check_data
        from dssm_tf.training.devices import Devices, read_cluster
        from dssm_tf.training.resolve import resolve_config
        from dssm_tf.training.start_vectors import check_start_vectors, with_file_hash
        from dssm_tf.training.warm_start import WarmStart, training_frequencies

        self.config = with_custom_parts(self.config, tower, loss)
        if (workers := read_cluster().workers) > 1:
            raise UserError(
                f"TF_CONFIG lists {workers} workers, but Keras's fit supports only one; use "
                "`dssm train`, or unset TF_CONFIG."
            )
        self.config, self._data = resolve_config(self.config, Preprocessed(Path(directory)))
        config = self.config
        self._devices = Devices(tf.distribute.get_strategy())
        check_data(config.negatives, config.training, self._data, config.lists)
        check_batch_sizes(config.training, config.lists, self._devices.replicas)
        self._warm_start = None
        if start is not None:
            self._warm_start = WarmStart.load(start, config, self._data)
        else:
            check_start_vectors(config.start.vectors)
            config = config.model_copy(update={"start": with_file_hash(config.start)})
            self.config = config
        self._xla = self._devices.use_xla(config.training.xla)
        self._frequencies = training_frequencies(config, self._data, self._warm_start)
        self._sources = read_sources(config.lists, self._data)
        self._batches = training_batches(
            config,
            self._data,
            frequencies=self._frequencies,
            replicas=self._devices.replicas,
            fixed_shapes=self._xla,
            sources=self._sources,
        )
        self.vocabulary_size: int = self._data.vocabulary.size
        self._validation_batches = self._batches.validation()
        self.steps = self._batches.steps
        self.validation_steps = (
            None if self._validation_batches is None else self._validation_batches.steps
        )

    def build_model(self) -> Siamese:
        """Creates the `keras.Model` to train, with its initial weights.

        With the argument `start`, the initial weights come from that earlier run. Otherwise they
        are random, and the settings `training.idf_start` and `start` change them.

        Sets Keras's random seed to `training.seed` first, so that the weights are reproducible. XLA
        compiles the training step only if `training.xla` makes all batches the same shape; on CPUs
        Keras also needs `compile(jit_compile=True)`.

        Returns:
            A model from inputs to scores float32 `(batch, columns)`, such as cosines: the clicked
            title, its negatives, and the in-batch negatives; see `dssm_tf.model.siamese.Siamese`.
        """
        import keras

        from dssm_tf.common.keras_internals import skip_build_step
        from dssm_tf.model.build import build_model
        from dssm_tf.training.model_state import assign_all

        config = self.config
        keras.utils.set_random_seed(config.training.seed)
        with self._devices.strategy.scope():
            model = build_model(
                config,
                self._data.vocabulary.size,
                config.training.precision,
            )
            if self._warm_start is not None:
                assign_all(model.weights, self._warm_start.weights)
            else:
                self._assign_start(model)
        model.supports_jit = self._xla
        model.set_sparse_products(self._devices.use_sparse_products(self._xla))
        skip_build_step(model)
        return model

    def _assign_start(self, model: Siamese) -> None:
        """Changes the random weights of a model by `training.idf_start` and the section `start`."""
        from dssm_tf.training.model_state import assign_all
        from dssm_tf.training.start_vectors import read_start_vectors
        from dssm_tf.training.starts import current_weights, spelled_weights, weights_of_vectors
        from dssm_tf.training.warm_start import idf_scaled_weights

        data, start, seed = self._data, self.config.start, self.config.training.seed
        if self.config.training.idf_start:
            counts = data.count_titles_of_ngrams()
            weights = idf_scaled_weights(model, counts, data.spec.count("titles"))
            assign_all(model.weights, weights)
        vectors = read_start_vectors(start.vectors, data)
        if vectors is not None:
            weights = weights_of_vectors(vectors, model, current_weights(model), data, seed)
            assign_all(model.weights, weights)
        if start.spelling is True:
            weights = spelled_weights(model, current_weights(model), data, seed, quiet=True)
            assign_all(model.weights, weights)

    def loss(self) -> keras.losses.Loss:
        """The loss of the configuration; `compile` takes any other `RankingLoss` too.

        With `judgments` or `teacher` it is a `BySource`, because each source has a separate loss.
        """
        from dssm_tf.training.build import build_loss

        return build_loss(self.config.loss, self.config.lists)

    def optimizer(self, epochs: int) -> keras.optimizers.Optimizer:
        """The optimizer of the configuration; `compile` takes any of Keras's optimizers too.

        Args:
            epochs: number of epochs, for schedules of the learning rate and the momentum.
        """
        from dssm_tf.training.loop import build_optimizer

        return build_optimizer(
            self.config.optimizer,
            self.steps * epochs,
            self.config.training.averaging,
            self._devices,
        )

    def ranking_validation(self) -> RankingValidation:
        """A callback that adds the validation NDCG to the logs of each epoch.

        The queries are those of `dssm train`; without clicks, they are made from titles.

        Raises:
            UserError: the data have no validation queries.
        """
        from dssm_tf.model.build import build_model
        from dssm_tf.model.semantic_ranker import text_scorer
        from dssm_tf.training.ranking_validation import RankingValidation
        from dssm_tf.training.train import validation_task

        config, data = self.config, self._data
        task = validation_task(config.validation, data, self._warm_start, self._sources)
        if task is None and not data.nonempty_splits:
            raise UserError(
                f"{data.directory} has no clicks, and no title with three different words to make "
                "a validation query of; train without ranking_validation()."
            )
        if task is None:
            raise UserError(
                f"{data.directory} contains no validation records; preprocess with a larger "
                "--validation-fraction."
            )
        ranking_model = build_model(config, data.vocabulary.size)
        scorer = text_scorer(ranking_model, data.vocabulary, self._frequencies)
        return RankingValidation(task, ranking_model, scorer)

    def training(self, epochs: int, initial_epoch: int = 0) -> Any:
        """Batches of the training split, for `fit` with `steps_per_epoch=clicks.steps`.

        Args:
            epochs: total number of epochs. The order of the records in an epoch depends on
                `training.seed` and on the index of the epoch.
            initial_epoch: number of epochs that were trained before, as in `fit`.

        Returns:
            A `tf.data.Dataset` (distributed under a strategy) with `steps` elements for each of
            `epochs - initial_epoch` epochs. An element is `(inputs, labels, weights)`. `inputs` has
            texts, `candidates` int32 `(batch, 1 + negatives)`, and `in_batch` int32 `(count,)` if
            `negatives.in_batch` is set, see `dssm_tf.model.siamese.Siamese`. `labels` has `mask`
            `(batch, columns)`, `correction` and `targets` of that shape or `(1, columns)`, where
            `columns` includes the in-batch titles, and `source` int32 `(batch,)` if there are
            several sources. `weights` is float32 `(batch,)`.
        """
        return self._devices.read(self._batches, self.config.training.seed, initial_epoch, epochs)

    def validation(self) -> Any:
        """Batches of the validation split, with negatives as in training, for `validation_data`.

        Returns:
            One pass over the split, with elements as in `training`, for
            `validation_steps=clicks.validation_steps`; None without a validation split.
        """
        if self._validation_batches is None:
            return None
        return self._devices.read(self._validation_batches, None)

    def save(self, model: Siamese, out: Path | str) -> None:
        """Writes a trained model as a run, for `dssm_tf.load`, `dssm export` and other commands.

        Chooses the weight of the log-prior on the validation split, as `ranking.prior` specifies.
        `config.yaml` has this object's configuration, with the number of epochs of the last `fit`.
        The model card has the loss and the optimizer that the model was compiled with, as Keras
        serializes them.

        Args:
            model: a trained model from `build_model`.
            out: directory of the run; it must not exist.

        Raises:
            UserError: `out` exists, the model was not compiled, or its weights are not those of a
                model from `build_model`.
        """
        import keras

        from dssm_tf.model.build import build_model
        from dssm_tf.model.prior import TitlePrior
        from dssm_tf.model.run_files import MODEL_CARD
        from dssm_tf.model.semantic_ranker import text_scorer
        from dssm_tf.training.model_state import assign_all
        from dssm_tf.training.prior_weight import tune_prior_weight
        from dssm_tf.training.run_directory import Result, finish_run, start_run
        from dssm_tf.training.train import validation_task

        out, data = Path(out), self._data
        refuse_existing(out)
        if not model.compiled:
            raise UserError("the model was not compiled; save a model that `fit` has trained.")
        epochs = _metrics_of_epochs(model)
        settings = {"refit": False, "epochs": len(epochs) or self.config.training.epochs}
        training = self.config.training.model_copy(update=settings)
        config = self.config.model_copy(update={"training": training})
        ranking_model = build_model(config, data.vocabulary.size)
        try:
            weights = [keras.ops.convert_to_numpy(weight) for weight in model.weights]
            assign_all(ranking_model.weights, weights)
        except ValueError as error:  # too few, or of other shapes
            reason = " ".join(str(error).split())
            raise UserError(f"{reason} Save a model that `build_model` created.") from error
        task = validation_task(config.validation, data, self._warm_start, self._sources)
        titles = data.iter_titles() if self._warm_start is None else self._warm_start.titles
        weight, metrics = tune_prior_weight(
            config.ranking.prior,
            TitlePrior(titles, data.rules),
            task,
            text_scorer(ranking_model, data.vocabulary, self._frequencies),
        )
        result = Result(len(epochs), len(epochs), epochs, weight, metrics)
        result.set_sources(self._sources)
        result.validation_description = "" if task is None else task.description
        with atomic_directory(out) as folder:
            start_run(config, data, folder, self._warm_start)
            finish_run(ranking_model, config, result, data, folder, self._warm_start)
            compiled = json.dumps(dict(model.get_compile_config()), indent=2, default=str)
            with open(folder / MODEL_CARD, "a", encoding="utf-8") as card:
                card.write(_COMPILED.format(compiled))


def _metrics_of_epochs(model: Siamese) -> list[dict[str, float]]:
    """The metrics of each epoch of the last `fit`; none if the model was not trained."""
    history = getattr(model, "history", None)
    epoch_count = len(getattr(history, "epoch", ()))
    # With `validation_freq`, only some epochs have validation metrics, so these are left out.
    metrics = {
        name: values
        for name, values in getattr(history, "history", {}).items()
        if len(values) == epoch_count
    }
    return [
        dict(zip(metrics, map(float, epoch), strict=True))
        for epoch in zip(*metrics.values(), strict=True)
    ]


_COMPILED = """
## Compiled with

Trained by Keras's `fit` from Python. The weights are those that `fit` ended with. This loss and
this optimizer were used instead of those of the configuration:

```json
{}
```
"""
