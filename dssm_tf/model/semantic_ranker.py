"""A trained model as a `Ranker`: raw texts in, vectors and scores out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.plain_data import read_json
from dssm_tf.config import Config, load_config
from dssm_tf.config.towers import TowerConfig
from dssm_tf.data.format import Spec, load_vocabulary
from dssm_tf.evaluation.ranker import CACHED_TITLE_LISTS
from dssm_tf.model.prior import TitlePrior
from dssm_tf.model.run_files import CONFIG, RANKING, WEIGHTS, check_run, is_finished, load_titles
from dssm_tf.model.siamese import Siamese
from dssm_tf.runtime.trained_ranker import Vectors
from dssm_tf.runtime.vector_ranker import Side, VectorRanker
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.text_features import TextFeatures


def build_model(
    tower: TowerConfig, shared_towers: bool, vocabulary_size: int, precision: str = "float32"
) -> Siamese:
    """The untrained model of a configuration, with its weights.

    Args:
        tower: the tower's section.
        shared_towers: one tower for queries and titles, or two.
        vocabulary_size: number of trigram ids, padding not counted.
        precision: a Keras dtype policy; training passes `training.precision`. Ranking computes in
            float32, the precision of all weights: in bfloat16, a vector would depend on the CPU and
            on the other texts of its batch.
    """
    query_tower = tower.build(vocabulary_size, name="query_tower", dtype=precision)
    title_tower = None
    if not shared_towers:
        title_tower = tower.build(vocabulary_size, name="title_tower", dtype=precision)
    model = Siamese(query_tower, title_tower, name="siamese")
    model.build()
    return model


class Encoder:
    """Encodes raw texts as unit semantic vectors, each distinct text once.

    Args:
        model: a `Siamese`.
        vocabulary: the one that its towers were trained with.
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
    rows = np.empty((len(distinct), dimension), np.float32)
    for start in range(0, len(distinct), batch_size):
        chunk = distinct[start : start + batch_size]
        raw = tf.constant([text.encode("utf-8", "surrogatepass") for text in chunk])
        rows[start : start + len(chunk)] = encode(raw).numpy()
    row_of_text = {text: row for row, text in enumerate(distinct)}
    return rows[[row_of_text[text] for text in texts]] if texts else rows


class SemanticRanker(VectorRanker):
    """A run as a ranker, by its Keras model.

    The score is the cosine plus `prior_weight` times the title's log-prior, in float32 for any
    precision of the training.

    Args:
        name: its name in tables.
        config: the configuration it was built and trained with.
        model: the trained towers.
        vocabulary: the trigrams of the towers.
        prior: the log-prior of titles.
        prior_weight: weight of the log-prior; with 0 the score is the cosine.
        bm25_weight: see `TrainedRanker`.
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
        bm25_weight: float = 0.5,
        cutoff: float = -1.0,
    ) -> None:
        self.name = name
        self.config = config
        self.model = model
        self.vocabulary = vocabulary
        self.prior = prior
        self.prior_weight = prior_weight
        self.bm25_weight, self.cutoff = bm25_weight, cutoff
        self.encoder = Encoder(model, vocabulary)
        self._titles = lru_cache(CACHED_TITLE_LISTS)(super()._encode_distinct)

    @classmethod
    def load(cls, run: Path | str, name: str | None = None) -> SemanticRanker:
        """Loads a run that `dssm train` wrote. TensorFlow traces the towers here.

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
        spec = Spec.load(run)
        vocabulary = load_vocabulary(run, spec)
        model = build_model(config.tower, config.shared_towers, vocabulary.size)
        try:
            model.load_weights(run / WEIGHTS)
        except Exception as error:  # HDF5 and Keras raise exceptions of almost any class
            reason = str(error).split("\n")[0]
            raise UserError(f"{run / WEIGHTS} cannot be loaded ({reason}).") from None
        ranking = read_json(run / RANKING, "Train the run again.")
        chosen = ranking.get("validation", {})
        prior = TitlePrior(load_titles(run), vocabulary.rules)
        ranker = cls(
            name or config.tower.name, config, model, vocabulary, prior,
            ranking["prior_weight"], chosen.get("bm25_weight", 0.5), chosen.get("cutoff", -1.0),
        )  # fmt: skip
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
        return self.encoder(side, texts)

    def _weighted_priors(self, titles: Sequence[str]) -> Vectors:
        weighted: Vectors = self.prior_weight * self.prior(titles)
        return weighted

    def _encode_distinct(self, titles: Sequence[str]) -> tuple[Vectors, Vectors, NDArray[np.intp]]:
        return self._titles(tuple(titles))
