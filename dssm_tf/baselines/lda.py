"""Latent Dirichlet allocation of titles, by the collapsed Gibbs sampler of tomotopy."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import ClassVar

import numpy as np
from pydantic import Field, PositiveFloat

from dssm_tf.baselines.base import Click, LearnedShapes
from dssm_tf.baselines.topic_model import TopicModel, Topics, collect
from dssm_tf.common.errors import UserError, install_command
from dssm_tf.common.field_types import PositiveInt
from dssm_tf.common.progress import progress_of

_SWEEPS_PER_UPDATE = 10  # sweeps per update of the progress bar


class LDA(TopicModel[Topics]):
    """A topic model of titles, whose topics are sampled from the posterior.

    It learns from the distinct titles of the corpus and the log. Each counts once, and queries are
    not used. The score, defined in `TopicModel`, is Wei and Croft's mixture of a unigram model and
    topics; `topic_weight` is `1 - lambda` of their paper.

    Wei and Croft take a title's `p(z|D)` from the sampler. Here it is estimated with the sampled
    topics fixed (see `fold_in`), so titles inside and outside the corpus are scored in the same
    way. Their `alpha = 50 / topics` is for articles; it would dominate in titles of five to ten
    words.

    Raises:
        UserError: in `fit`, tomotopy is not installed.

    Reference: Wei and Croft 2006; Griffiths and Steyvers 2004.
    """

    name = "lda"
    learned_type = Topics
    learned_shapes: ClassVar[LearnedShapes] = {
        "background": ("terms",),
        "query_word_probabilities": ("terms", "topics"),
    }

    alpha: PositiveFloat = Field(
        default=0.1, description="Concentration of each topic in a title's mixture."
    )
    beta: PositiveFloat = Field(default=0.01, description="Concentration of each word in a topic.")
    iterations: PositiveInt = Field(
        default=500,
        description="Sweeps of the sampler over all words, in one thread to be repeatable.",
    )

    def _topic_prior(self) -> float:
        return self.alpha

    def _fit(self, clicks: list[Click], titles: list[str]) -> Topics:
        collection = collect(clicks, titles, self.name)
        terms = collection.terms
        model = load_tomotopy().LDAModel(
            k=self.topics, alpha=self.alpha, eta=self.beta, seed=self.seed
        )
        model.optim_interval = 0  # the concentrations do not change
        for words in filter(None, map(terms.split, collection.titles)):
            model.add_doc(words)
        with progress_of(self.name, self.iterations, self._show_progress) as task:
            for done in range(0, self.iterations, _SWEEPS_PER_UPDATE):
                sweeps = min(_SWEEPS_PER_UPDATE, self.iterations - done)
                model.train(sweeps, workers=1)
                task.update(done + sweeps, f"{model.ll_per_word:.3f} nats per word")
        topics = np.array([model.get_topic_word_dist(topic) for topic in range(self.topics)])
        # tomotopy has another order of words, and probabilities in single precision.
        rows = [terms.ids[word] for word in model.used_vocabs]
        query_word_probabilities = np.empty((len(terms), self.topics))
        query_word_probabilities[rows] = topics.T
        query_word_probabilities /= query_word_probabilities.sum(axis=0)
        return Topics(terms, collection.background, query_word_probabilities)


def load_tomotopy() -> ModuleType:
    """Imports the module `tomotopy`.

    Raises:
        UserError: tomotopy is not installed.
    """
    try:
        with warnings.catch_warnings():
            # Importing tomotopy raises warnings, which would be errors with `-W error`.
            warnings.simplefilter("ignore", DeprecationWarning)
            return importlib.import_module("tomotopy")
    except ImportError as error:
        raise UserError(
            f"lda samples with tomotopy, which is not installed: {install_command('baselines')}."
        ) from error
