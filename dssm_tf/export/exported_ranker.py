"""An export as a `Ranker`: what a server would answer, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.common.model_versions import newest_version
from dssm_tf.data.format import Spec, load_vocabulary
from dssm_tf.evaluation.title_cache import TitleCache
from dssm_tf.export.saved_model import EXTRA, load_export, read_mean_prior
from dssm_tf.model.prior import with_column
from dssm_tf.model.semantic_ranker import Vectors, encode_distinct
from dssm_tf.text.vocabulary import Vocabulary


class ExportedRanker:
    """Scores by the signatures of an export; differs from the trained model by rounding alone.

    Args:
        directory: of a version, or of a model, whose newest version is taken.
        name: what tables call it.

    Attributes:
        mean_prior: see `SemanticRanker`.

    Raises:
        UserError: it is no export, or a file of it is damaged.
    """

    def __init__(self, directory: Path | str, name: str) -> None:
        self.name = name
        version = newest_version(Path(directory))
        self._extra = version / EXTRA
        self.mean_prior = read_mean_prior(version)
        self._model = load_export(directory)  # its variables live as long as it does
        self._signatures = self._model.signatures
        shape = self._signatures["encode_query"].structured_outputs["embeddings"].shape
        self._dimension = int(shape[1])
        self._titles: TitleCache[tuple[Vectors, Vectors, NDArray[np.intp]]] = TitleCache()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The letter trigrams that it knows, as its run had them."""
        return load_vocabulary(self._extra, Spec.load(self._extra))

    def encode_queries(self, queries: Sequence[str], prior: bool = False) -> Vectors:
        """Vectors of queries, see `SemanticRanker.encode_queries`."""
        vectors = self._encode("query", "queries", queries)
        return with_column(vectors, 1.0) if prior else vectors

    def encode_titles(self, titles: Sequence[str], prior: bool = False) -> Vectors:
        """Vectors of titles, see `SemanticRanker.encode_queries`."""
        vectors = self._encode("title", "titles", titles)
        return with_column(vectors, self.weighted_prior(titles)) if prior else vectors

    def weighted_prior(self, titles: Sequence[str]) -> Vectors:
        """What the titles' clicks add to every score, `(len(titles),)`.

        The vector of an empty query is zero: what it scores is the prior.
        """
        found: Vectors = encode_distinct(
            lambda raw: self._signatures["score"](queries=tf.constant([""]), titles=raw)["scores"][
                :, None
            ],
            titles,
            dimension=1,
        )[:, 0]
        return found

    def score(self, query: str, titles: Sequence[str]) -> Vectors:
        """Scores `(len(titles),)`."""
        row: Vectors = self.score_matrix([query], titles)[0]
        return row

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> Vectors:
        """Scores `(len(queries), len(titles))`."""
        vectors, weighted, shared = self._titles.get(titles, self._weigh_titles)
        scores: Vectors = (self.encode_queries(queries) @ vectors.T + weighted)[:, shared]
        return scores

    def _weigh_titles(self, titles: Sequence[str]) -> tuple[Vectors, Vectors, NDArray[np.intp]]:
        """Vectors and weighted priors of the distinct normal forms, and each title's place."""
        distinct, shared = self.vocabulary.rules.distinct(titles)
        return self.encode_titles(distinct), self.weighted_prior(distinct), shared

    def _encode(self, side: str, key: str, texts: Sequence[str]) -> Vectors:
        signature = self._signatures[f"encode_{side}"]
        return encode_distinct(
            lambda raw: signature(**{key: raw})["embeddings"], texts, self._dimension
        )
