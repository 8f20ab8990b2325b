"""A run with the score maxsim as a ranker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dssm_tf.model.text_scorer import numpy_maxsim
from dssm_tf.model.trained_run import TrainedRun
from dssm_tf.runtime.maxsim_ranker import GAMMA, MaxSimRanker
from dssm_tf.runtime.trained_ranker import Vectors
from dssm_tf.text.document_frequencies import DocumentFrequencies


class MaxSimRun(MaxSimRanker):
    """A run as a ranker, in NumPy with the weights of its Keras model.

    Args:
        run: a finished run whose score is `maxsim`.
        name: its name in tables; by default `maxsim`.

    Attributes:
        config: the configuration it was built and trained with.
        model: the Keras model.
        prior: the log-prior of titles.
        frequencies: document frequencies of the training data.
    """

    def __init__(self, run: TrainedRun, name: str | None = None) -> None:
        if run.frequencies is None:
            raise ValueError(f"{run.directory} has the score {run.config.score.name}, not maxsim.")
        self.config = run.config
        self.model = run.model
        self.prior = run.prior
        self.frequencies: DocumentFrequencies = run.frequencies
        super().__init__(
            run.settings(name),
            numpy_maxsim(run.model, run.vocabulary, run.frequencies),
            self._weighted_prior_of,
            float(getattr(run.config.loss, "gamma", GAMMA)),
        )

    def _weighted_prior_of(self, titles: Sequence[str]) -> Vectors:
        """Weighted log-priors of titles, float32 `(titles,)`."""
        return np.float32(self.prior_weight) * self.prior(titles)
