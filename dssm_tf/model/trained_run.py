"""Reads the directory of a finished run: configuration, vocabulary, Keras model, prior."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config, load_config
from dssm_tf.data.format import Spec, load_vocabulary
from dssm_tf.model.build import build_model
from dssm_tf.model.prior import TitlePrior
from dssm_tf.model.run_files import (
    CONFIG,
    FREQUENCIES,
    RANKING,
    WEIGHTS,
    check_run,
    is_finished,
    load_titles,
    read_ranking,
)
from dssm_tf.model.siamese import Siamese
from dssm_tf.model.weights_file import check_weights_file
from dssm_tf.runtime.compact_files import LARGEST_WEIGHT, number_problem
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """The content of a finished run.

    Args:
        directory: the run's directory.
        config: the configuration that it was trained with.
        vocabulary: letter n-grams and text rules.
        model: the Keras model, in float32.
        prior: the log-prior of titles.
        ranking: content of `ranking.json`: `prior_weight`, and `validation` with other settings.
        frequencies: document frequencies, if the score compares words; else None.
    """

    directory: Path
    config: Config
    vocabulary: Vocabulary
    model: Siamese
    prior: TitlePrior
    ranking: dict[str, Any]
    frequencies: DocumentFrequencies | None

    @classmethod
    def read(cls, run: Path | str) -> TrainedRun:
        """Reads and checks a directory that `dssm train` wrote.

        Raises:
            UserError: the directory is missing, unfinished or damaged.
        """
        run = Path(run)
        if not (run / CONFIG).exists():
            raise UserError(f"{run} has no {CONFIG}; give a directory that `dssm train` wrote.")
        if not is_finished(run):
            raise UserError(f"{run} is not finished. Run the same `dssm train` again to resume.")
        check_run(run)
        config = load_config(run / CONFIG)
        vocabulary = load_vocabulary(run, Spec.load(run))
        check_weights_file(run / WEIGHTS, config, vocabulary.size)
        model = build_model(config, vocabulary.size)
        try:
            model.load_weights(run / WEIGHTS)
        except MemoryError:
            raise  # the machine has too little for a good file
        except Exception as error:  # HDF5 and Keras raise exceptions of almost any class
            reason = str(error).split("\n")[0]
            raise UserError(f"{run / WEIGHTS} cannot be loaded ({reason}).") from None
        for weight in model.weights:
            array = np.asarray(weight.numpy(), np.float32)
            if problem := number_problem({weight.path: array}, LARGEST_WEIGHT):
                raise UserError(f"{run / WEIGHTS}: {problem}. Train the run again.")
        frequencies = None
        if config.score.reads_words:
            frequencies = DocumentFrequencies.load(run / FREQUENCIES)
        return cls(
            run,
            config,
            vocabulary,
            model,
            TitlePrior(load_titles(run), vocabulary.rules),
            read_ranking(run / RANKING),
            frequencies,
        )

    def settings(self, name: str | None = None) -> dict[str, Any]:
        """The values of `dssm_tf.runtime.trained_ranker.SETTING_NAMES`.

        Args:
            name: the model's name; by default that of the tower, or of a score that reads words.
        """
        prior_weight = self.ranking["prior_weight"]
        return {
            "name": name or self.config.model_name,
            "prior_weight": prior_weight,
            "mean_prior": prior_weight * self.prior.mean,
            "cutoff": self.ranking.get("validation", {}).get("cutoff", -1.0),
        }
