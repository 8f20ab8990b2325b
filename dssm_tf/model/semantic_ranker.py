"""A ranker for runs whose model has a vector per text: raw texts in, vectors and scores out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.common.forks import ForkCheck
from dssm_tf.config import Config
from dssm_tf.evaluation.ranker import CACHED_TITLE_LISTS
from dssm_tf.model.prior import TitlePrior
from dssm_tf.model.siamese import Siamese
from dssm_tf.model.text_scorer import TextScorer, VectorScores, WordScorer
from dssm_tf.model.trained_run import TrainedRun
from dssm_tf.runtime.trained_ranker import Vectors
from dssm_tf.runtime.vector_ranker import Side, VectorRanker, no_vectors
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.text_features import TextFeatures


class Encoder:
    """Encodes raw texts as unit semantic vectors, each distinct text once.

    Args:
        model: a `Siamese`.
        vocabulary: the vocabulary that its towers were trained with.
        batch_size: texts encoded at once.

    Attributes:
        functions: for `query` and `title`, a `tf.function` from string `(texts,)` to vectors
            `(texts, dimension)`, traced once.
    """

    def __init__(self, model: Siamese, vocabulary: Vocabulary, batch_size: int = 1024) -> None:
        self.batch_size = batch_size
        self.features = TextFeatures(vocabulary)

        def compiled(function: Callable[[tf.Tensor], Any]) -> Any:
            spec = [tf.TensorSpec([None], tf.string)]
            return tf.function(function, input_signature=spec, autograph=False)

        features = compiled(self.features.__call__)  # one graph for both towers
        queries = compiled(lambda texts: model.encode_query(features(texts)))
        titles = queries
        if not model.shared:
            titles = compiled(lambda texts: model.encode_title(features(texts)))
        self.functions = {"query": queries, "title": titles}
        self.dimension = model.query_tower.dimension

    def __call__(self, side: str, texts: Sequence[str]) -> Vectors:
        """Vectors float32 `(len(texts), dimension)` of `side` `query` or `title`."""
        return encode_distinct(self.functions[side], texts, self.dimension, self.batch_size)

    def compare(self, queries: Sequence[str], titles: Sequence[str]) -> VectorScores:
        """Vectors of queries and titles, whose cosines are scores; see `TextScorer`."""
        return VectorScores(self("query", queries), self("title", titles))


def text_scorer(
    model: Siamese, vocabulary: Vocabulary, frequencies: DocumentFrequencies | None = None
) -> TextScorer:
    """Scores raw texts by the current weights of a model.

    Args:
        model: a `Siamese`.
        vocabulary: the vocabulary that it is trained with.
        frequencies: document frequencies of the training data, if the score reads words.
    """
    if frequencies is None:
        return Encoder(model, vocabulary)
    return WordScorer(model, vocabulary, frequencies)


def encode_distinct(
    encode: Callable[[tf.Tensor], tf.Tensor],
    texts: Sequence[str],
    dimension: int,
    batch_size: int = 1024,
) -> Vectors:
    """Encodes each distinct text once, in batches of texts of similar length.

    Args:
        encode: string `(texts,)` to vectors `(texts, dimension)`.
        texts: raw texts.
        dimension: length of a vector.
        batch_size: texts encoded at once.

    Returns:
        Vectors float32 `(len(texts), dimension)`.
    """
    distinct = list(dict.fromkeys(texts))
    # Sorted by length, because a batch is as wide as its longest text.
    distinct.sort(key=len)
    index_of_text = {text: index for index, text in enumerate(distinct)}
    distinct_index = np.array([index_of_text[text] for text in texts], np.int64)
    order = np.argsort(distinct_index, kind="stable")
    # Each batch is written directly to the rows of its texts, without a second array.
    vectors = np.empty((len(texts), dimension), np.float32)
    for start in range(0, len(distinct), batch_size):
        chunk = distinct[start : start + batch_size]
        raw = tf.constant([text.encode("utf-8", "surrogatepass") for text in chunk])
        bounds = [start, start + len(chunk)]
        first, last = np.searchsorted(distinct_index, bounds, sorter=order)
        rows = order[first:last]
        vectors[rows] = encode(raw).numpy()[distinct_index[rows] - start]
    return vectors


class SemanticRanker(VectorRanker):
    """A run as a ranker, by its Keras model.

    The score is the cosine plus `prior_weight` times the title's log-prior, in float32 for any
    precision of the training.

    Args:
        name: its name in tables.
        config: the configuration it was built and trained with.
        model: the trained towers.
        vocabulary: the letter n-grams of the towers.
        prior: the log-prior of titles.
        prior_weight: weight of the log-prior; with 0 the score is the cosine.
        cutoff: see `TrainedRanker`.

    Attributes:
        encoder: encodes texts as vectors, without the prior.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        model: Siamese,
        vocabulary: Vocabulary,
        prior: TitlePrior,
        prior_weight: float,
        cutoff: float = -1.0,
    ) -> None:
        self.name = name
        self.config = config
        self.tower_name = config.tower.name
        self.model = model
        self.vocabulary = vocabulary
        self.prior = prior
        self.prior_weight = prior_weight
        self.cutoff = cutoff
        self.encoder = Encoder(model, vocabulary)
        self._check_not_forked = ForkCheck()
        self._cached_encode = lru_cache(CACHED_TITLE_LISTS)(super()._encode_distinct)

    @classmethod
    def load(cls, run: Path | str, name: str | None = None) -> SemanticRanker:
        """Loads a run that `dssm train` wrote. TensorFlow traces the towers here.

        Raises:
            UserError: the directory is missing, unfinished or damaged.
        """
        content = TrainedRun.read(run)
        if content.config.score.reads_words:
            raise no_vectors(run)
        return cls.from_run(content, name)

    @classmethod
    def from_run(cls, run: TrainedRun, name: str | None = None) -> SemanticRanker:
        """The ranker of a run whose score reads vectors of texts."""
        settings = run.settings(name)
        ranker = cls(
            settings["name"],
            run.config,
            run.model,
            run.vocabulary,
            run.prior,
            settings["prior_weight"],
            settings["cutoff"],
        )
        for encode in (ranker.encode_queries, ranker.encode_titles):
            encode(["a"])  # otherwise the first text would take a second longer
        return ranker

    @property
    def features(self) -> TextFeatures:
        """Turns raw texts into text batches for this model."""
        return self.encoder.features

    @property
    def mean_prior(self) -> float:  # type: ignore[override]
        """The mean of `weighted_prior` over the titles that were clicked."""
        return self.prior_weight * self.prior.mean

    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        self._check_not_forked(self.name)
        return self.encoder(side, texts)

    def _weighted_priors(self, titles: Sequence[str]) -> Vectors:
        weighted: Vectors = self.prior_weight * self.prior(titles)
        return weighted

    def _encode_distinct(self, titles: Sequence[str]) -> tuple[Vectors, Vectors, NDArray[np.intp]]:
        return self._cached_encode(tuple(titles))
