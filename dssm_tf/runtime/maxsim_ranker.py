"""A ranker by the score maxsim, for runs and compact models alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.maxsim import InvertedIndex, MaxSim
from dssm_tf.runtime.remembered_clicks import RememberedClicks
from dssm_tf.runtime.search_rules import SearchRules
from dssm_tf.runtime.trained_ranker import SETTING_NAMES, TrainedRanker, Vectors, texts_of
from dssm_tf.runtime.word_matches import WordMatches, word_matches

if TYPE_CHECKING:
    from dssm_tf.text.rules import Key

GAMMA = 10.0
"""The factor of the softmax of a model whose loss has none."""

_CACHED_TITLE_LISTS = 8  # number of lists of titles whose indexes are cached


class _TitleIndex(NamedTuple):
    """Distinct titles: their postings and their keys."""

    postings: InvertedIndex
    keys: Sequence[Key]


class MaxSimRanker(TrainedRanker):
    """A trained model that compares texts word by word; see `dssm_tf.runtime.maxsim`.

    The inverted indexes of the last lists of titles are cached. Several threads may use it.

    Args:
        settings: the values of `SETTING_NAMES`.
        maxsim: vectors and weights of words.
        weighted_priors: a function from normalized titles to their weighted log-priors.
        gamma: the factor of the training's softmax.

    Attributes:
        remembered_clicks: clicks of frequent queries, which scores include; None unless
            `with_remembered_clicks` set them.
    """

    remembered_clicks: RememberedClicks | None = None

    def __init__(
        self,
        settings: Mapping[str, Any],
        maxsim: MaxSim,
        weighted_priors: Callable[[Sequence[Key]], Vectors],
        gamma: float = GAMMA,
    ) -> None:
        for name in SETTING_NAMES:
            setattr(self, name, settings[name])
        self.vocabulary = maxsim.vocabulary
        self.maxsim = maxsim
        self.gamma = gamma
        self._priors_of = weighted_priors
        self._cached_index = lru_cache(_CACHED_TITLE_LISTS)(self._build_index)

    def with_rules(self, rules: SearchRules) -> MaxSimRanker:
        """The same model with other rules by hand."""
        ranker = copy(self)
        ranker.maxsim = self.maxsim.with_rules(rules)
        ranker._cached_index = lru_cache(_CACHED_TITLE_LISTS)(ranker._build_index)
        return ranker

    def with_remembered_clicks(self, remembered_clicks: RememberedClicks | None) -> MaxSimRanker:
        """The same model with other remembered clicks, or without any."""
        ranker = copy(self)
        ranker.remembered_clicks = remembered_clicks
        return ranker

    def remembered_score(self, query: str, titles: Iterable[str]) -> NDArray[np.float64]:
        """The part of the scores that remembered clicks add, `(len(titles),)`."""
        index, priors, row_of_title = self._index(titles)
        if self.remembered_clicks is None:
            return np.zeros(len(row_of_title))
        scores = self._scores_without_clicks([query], index, priors)[0]
        return self._added_by_clicks(query, index, scores)[row_of_title]

    def clicks_of(self, query: str, title: str) -> tuple[int, int]:
        """The remembered clicks of a query on one title, and on all titles."""
        remembered_clicks = self.remembered_clicks
        clicks = remembered_clicks and remembered_clicks.of_query(self.vocabulary.words(query))
        if not clicks:
            return 0, 0
        on_title = clicks.clicks[clicks.titles == self.vocabulary.rules.id(title)]
        return int(on_title.sum()), int(clicks.clicks.sum())

    @property
    def search_rules(self) -> SearchRules:
        """The rules by hand. Scores include those about words; only indexes apply the others."""
        return self.maxsim.search_rules

    def score_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """Scores every title for every query, float32 `(len(queries), len(titles))`.

        Args:
            queries: raw texts.
            titles: raw texts; pass the same tuple again to reuse its index quickly.
        """
        index, priors, row_of_title = self._index(titles)
        return self._scores(queries, index, priors).take(row_of_title, axis=1)

    def similarity_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """The scores without prior and remembered clicks, float32 `(queries, titles)`."""
        index, _, row_of_title = self._index(titles)
        return self._scores_without_clicks(queries, index, 0.0).take(row_of_title, axis=1)

    def score_pairs(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """Scores each title for its own query, float32 `(len(titles),)`.

        Args:
            queries: raw texts, one for each title, or one for all.
            titles: raw texts.
        """
        queries = texts_of("queries", queries)
        index, priors, row_of_title = self._index(titles)
        query_of_title = np.broadcast_to(np.array(queries, object), len(row_of_title))
        scores = np.zeros(len(row_of_title), np.float32)
        for query in dict.fromkeys(queries):
            is_of_query = query_of_title == query
            scores_of_rows = self._scores([query], index, priors)[0]
            scores[is_of_query] = scores_of_rows[row_of_title[is_of_query]]
        return scores

    def word_matches(self, query: str, title: str) -> WordMatches:
        """The parts of the score of a query and a title, without the prior."""
        return word_matches(self.maxsim, *map(self.vocabulary.words, (query, title)))

    def _scores_without_clicks(
        self, queries: Iterable[str], index: _TitleIndex, priors: Vectors | float
    ) -> Vectors:
        """Scores of distinct titles without remembered clicks, `(queries, titles of the index)`.

        Args:
            queries: raw texts.
            index: index of the distinct titles.
            priors: the weighted log-priors of these titles; 0 to leave them out.
        """
        texts = texts_of("queries", queries)
        scores = index.postings.score_matrix([*map(self.vocabulary.words, texts)])
        scores += priors
        return scores

    def _scores(self, queries: Iterable[str], index: _TitleIndex, priors: Vectors) -> Vectors:
        """Scores of distinct titles, `(queries, titles of the index)`."""
        texts = texts_of("queries", queries)
        scores = self._scores_without_clicks(texts, index, priors)
        if self.remembered_clicks is not None:
            for row, query in enumerate(texts):
                scores[row] += self._added_by_clicks(query, index, scores[row])
        return scores

    def _added_by_clicks(
        self, query: str, index: _TitleIndex, scores: Vectors
    ) -> NDArray[np.float64]:
        """The part that remembered clicks add to the scores of distinct titles."""
        if self.remembered_clicks is None:
            return np.zeros(len(scores))
        words = self.vocabulary.words(query)
        return self.remembered_clicks.added_to_titles(words, index.keys, scores)

    def _index(self, titles: Iterable[str]) -> tuple[_TitleIndex, Vectors, NDArray[np.intp]]:
        """The cached result of `_build_index`, which checks the titles."""
        # The check takes longer than a search, so a tuple is only checked when it is indexed.
        if not isinstance(titles, tuple):
            titles = tuple(texts_of("titles", titles))
        return self._cached_index(titles)

    def _build_index(
        self, titles: tuple[str, ...]
    ) -> tuple[_TitleIndex, Vectors, NDArray[np.intp]]:
        """An index and the priors of the distinct titles, and the row of each title among them.

        Titles with the same normalized text are one title of the index, so their scores are equal.
        """
        keys, row_of_title = self.vocabulary.rules.distinct(texts_of("titles", titles))
        postings = InvertedIndex.from_titles(self.maxsim, list(map(self.vocabulary.words, keys)))
        return _TitleIndex(postings, keys), self._weighted_priors(keys), row_of_title

    def _weighted_priors(self, titles: Sequence[Key]) -> Vectors:
        return self._priors_of(titles)
