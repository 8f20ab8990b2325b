"""Latent Dirichlet allocation of titles, by the collapsed Gibbs sampler of tomotopy."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

import numpy as np

from dssm_tf.baselines.base import AboveZero, Click, Count
from dssm_tf.baselines.topic_model import TopicModel
from dssm_tf.common.errors import UserError, install
from dssm_tf.common.progress import progress_of

_SWEEPS = 10  # between two moves of the bar


class LDA(TopicModel):
    """A topic model of titles sampled from its posterior, mixed with the unigram model.

    Learned from the distinct titles of the corpus and the log, each once;
    queries are not used. `TopicModel` says how it scores: Wei and Croft's
    mixture with their `lambda` as `1 - weight`. They take a title's `p(z|D)`
    from the sampler; here it is the expected one under the sampled topics
    (see `fold_in`), so that a title has one score, in the corpus or not. Their
    `alpha = 50 / topics` is meant for articles: titles of five to ten words
    would hardly move it.

    Args:
        alpha: concentration of each topic in a title's mixture, above 0.
        beta: concentration of each word in a topic, above 0.
        iterations: sweeps of the sampler over all words, which runs in one thread to be
            repeatable.

    Raises:
        UserError: in `fit`, tomotopy is not installed.

    Reference: Wei and Croft 2006; Griffiths and Steyvers 2004.
    """

    name = "lda"
    alpha: AboveZero = 0.1
    beta: AboveZero = 0.01
    iterations: Count = 500

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        texts = self._collect(clicks, titles)
        model = load_tomotopy().LDAModel(
            k=self.topics, alpha=self.alpha, eta=self.beta, seed=self.seed
        )
        model.optim_interval = 0  # the concentrations stay as given
        for tokens in filter(None, map(self.terms.split, texts)):
            model.add_doc(tokens)
        with progress_of(self.name, self.iterations, self.progress) as task:
            for done in range(0, self.iterations, _SWEEPS):
                sweeps = min(_SWEEPS, self.iterations - done)
                model.train(sweeps, workers=1)
                task.update(done + sweeps, f"{model.ll_per_word:.3f} nats a word")
        topics = np.array([model.get_topic_word_dist(topic) for topic in range(self.topics)])
        # tomotopy numbers the words in its own order, and in single precision.
        rows = [self.terms.ids[word] for word in model.used_vocabs]
        self.query_words = np.empty((len(self.terms), self.topics))
        self.query_words[rows] = topics.T
        self.query_words /= self.query_words.sum(axis=0)
        self.topic_prior = self.alpha


def load_tomotopy() -> ModuleType:
    """The module `tomotopy`.

    Raises:
        UserError: it is not installed.
    """
    try:
        with warnings.catch_warnings():
            # Its types warn at import that they lack a `__module__`, which is no news to anybody
            # and fails the import where warnings are errors.
            warnings.simplefilter("ignore", DeprecationWarning)
            return importlib.import_module("tomotopy")
    except ImportError as error:
        raise UserError(
            f"lda samples with tomotopy, which is not installed: {install('baselines')}."
        ) from error
