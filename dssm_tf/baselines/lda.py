"""Latent Dirichlet allocation of titles, by the collapsed Gibbs sampler of tomotopy."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from dssm_tf.baselines.base import Click
from dssm_tf.baselines.collection import Collection
from dssm_tf.baselines.topic_model import TopicModel, training_titles
from dssm_tf.common.errors import UserError, install
from dssm_tf.common.progress import progress_of
from dssm_tf.text.rules import FOLDED

if TYPE_CHECKING:
    from typing_extensions import Self

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
        topics: how many; the papers have 100 and 500.
        alpha: concentration of each topic in a title's mixture, above 0.
        beta: concentration of each word in a topic, above 0.
        iterations: sweeps of the sampler over all words.
        mu: words of the collection that every title is padded with, above 0.
        weight: of the topics against the words of the title, from 0 to 1.
        seed: of the sampler, which runs in one thread to be repeatable.
        progress: shows a bar on the error stream while fitting.

    Reference: Wei and Croft 2006; Griffiths and Steyvers 2004.
    """

    name = "lda"

    def __init__(
        self,
        topics: int = 100,
        *,
        alpha: float = 0.1,
        beta: float = 0.01,
        iterations: int = 500,
        mu: float = 30.0,
        weight: float = 0.3,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        super().__init__(topics, mu, weight, seed, progress)
        if not (alpha > 0 and beta > 0):
            raise ValueError(f"alpha is {alpha} and beta is {beta}; expected both above 0.")
        self.alpha = alpha
        self.beta = beta
        self.iterations = iterations

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Samples the topics of the titles of the corpus and the log.

        Raises:
            UserError: there is no word in the titles, or tomotopy is not installed.
        """
        texts, terms = training_titles(clicks, titles, "LDA")
        tomotopy = load_tomotopy()
        model = tomotopy.LDAModel(k=self.topics, alpha=self.alpha, eta=self.beta, seed=self.seed)
        model.optim_interval = 0  # the concentrations stay as given
        for text in texts:
            if tokens := FOLDED.words(text):
                model.add_doc(tokens)
        with progress_of("lda", self.iterations, self.progress) as task:
            for done in range(0, self.iterations, _SWEEPS):
                sweeps = min(_SWEEPS, self.iterations - done)
                model.train(sweeps, workers=1)
                task.update(done + sweeps, f"{model.ll_per_word:.3f} nats a word")
        topics = np.array([model.get_topic_word_dist(topic) for topic in range(self.topics)])
        # tomotopy numbers the words in its own order, and in single precision.
        places = [terms.ids[word] for word in model.used_vocabs]
        query_words = np.empty((len(terms), self.topics))
        query_words[places] = topics.T.astype(np.float64)
        query_words /= query_words.sum(axis=0)
        prior = np.full(self.topics, self.alpha)
        self._set(Collection.of(terms, texts), query_words, query_words, prior)
        return self


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
