"""The base class of runs, exports and compact models: they score titles for queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dssm_tf.text.rules import Key
    from dssm_tf.text.training_log import TrainingLog
    from dssm_tf.text.vocabulary import Vocabulary

Vectors = NDArray[np.float32]


SETTING_NAMES = ("name", "prior_weight", "mean_prior", "cutoff")
"""The attributes of a `TrainedRanker` that are saved in files under their names."""


class RankedTitle(NamedTuple):
    """A title, its score, and its index in the titles passed to `rank`."""

    title: str
    score: float
    position: int


class TrainedRanker(ABC):
    """A trained model that scores raw strings; `dssm_tf.load` returns one.

    The score is a similarity of the two texts plus the weighted log-prior of the title. The
    similarity is the cosine of two vectors (`VectorRanker`), or the similarities of their words
    (`MaxSimRanker`).

    A run, an export and a compact model have the same scores up to float32 rounding. Any string is
    valid, also an empty one or one without a known letter. Several texts may be a list, a tuple, a
    NumPy array or a column of strings; an element that is not a string is a TypeError.

    Attributes:
        name: its name in tables.
        vocabulary: its letter n-grams and text rules.
        prior_weight: weight of the title's log-prior, the log of its fraction of all clicks.
        mean_prior: the mean of `weighted_prior` over the clicked titles.
        cutoff: the lowest similarity of a good match, see `dssm_tf.runtime.good_match`; -1 if
            training had too few validation queries.
        training_log: ids of the queries and pairs that it was trained on; None if unknown. Compact
            models have none.
    """

    name: str
    vocabulary: Vocabulary
    prior_weight: float
    mean_prior: float
    cutoff: float
    training_log: TrainingLog | None = None

    @abstractmethod
    def score_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """Scores every title for every query.

        The work for the last lists of titles is cached, except by compact models that give one
        vector per text, which cache those of words.

        Args:
            queries: raw texts.
            titles: raw texts.

        Returns:
            Scores float32 `(len(queries), len(titles))`.
        """

    @abstractmethod
    def similarity_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """The scores without the prior and remembered clicks; see `score_matrix`."""

    @abstractmethod
    def score_pairs(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """Scores each title for its own query.

        Args:
            queries: raw texts, one for each title, or one for all.
            titles: raw texts.

        Returns:
            Scores float32 `(len(titles),)`.
        """

    @abstractmethod
    def _weighted_priors(self, titles: Sequence[Key]) -> Vectors:
        """The weighted log-priors of normalized titles, `(len(titles),)`."""

    def rank(self, query: str, titles: Iterable[str]) -> list[RankedTitle]:
        """Titles from best to worst.

        Args:
            query: raw text.
            titles: raw texts.

        Returns:
            For each title `(title, score, position)`, with `titles[position]` the title. Titles
            with equal scores keep their order.
        """
        title_list = texts_of("titles", titles)
        scores = self.score(query, title_list)
        order = np.argsort(-scores, kind="stable").tolist()
        return [RankedTitle(title_list[row], float(scores[row]), row) for row in order]

    def score(self, query: str, titles: Iterable[str]) -> Vectors:
        """Scores titles for a query: their similarity plus the weighted log-prior.

        The log-prior is the log of the title's fraction of all clicks; training chooses its
        weight. Scores of different queries are not comparable.

        Args:
            query: raw text.
            titles: raw texts, in any order; repeats allowed, and equal titles have equal scores.

        Returns:
            Scores float32 `(len(titles),)`.
        """
        return self.score_matrix(texts_of("query", [query]), titles)[0]

    def weighted_prior(self, titles: Iterable[str]) -> Vectors:
        """The part of the scores that does not depend on the query, `(len(titles),)`."""
        return self._weighted_priors([self.vocabulary.rules.key(title) for title in titles])


def texts_of(name: str, texts: Iterable[Any]) -> Sequence[str]:
    """Checks that texts are strings and returns a list, or the same tuple (a key of caches).

    Raises:
        TypeError: an element is not a string, or `texts` is a single string.
    """
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"{name} is one {type(texts).__name__}; expected a list of str.")
    sequence = texts if isinstance(texts, tuple) else list(texts)
    for row, text in enumerate(sequence):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{row}] is {text!r:.60}; expected str.")
    return sequence
