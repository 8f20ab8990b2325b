"""The score maxsim: each word of a query finds its most similar word of a title, and the reverse.

The definition, for all code that computes the score:

Words. The words of a text are those of `Vocabulary.words`, in order. A repeated word counts once.
The pairs of a text are the distinct pairs of neighboring words in the list of all its words, also
across the fields of a title. A pair is one string, the two words joined by a space; no word
contains a space. Only known pairs count: those that occur in at least two titles of the training
data, see `DocumentFrequencies`.

Word vectors. Each word `w` has ids, `Vocabulary.look_up(w)`: its letter n-grams with repetition,
and its own id if it has one. `kernel` has a trained vector for each id. `e(w)` is the sum
of the vectors of a word's ids, divided by its Euclidean norm. A word without ids has the zero
vector and is similar to no word, not even to itself.

    sim(w, v) = max(0, e(w) . e(v) - threshold) / (1 - threshold)

Weights. `idf(w) = ln(N / max(df(w), 0.5))`, with N the number of titles and df(w) the number of
titles with `w`; a word that no title has counts as half a title. `idf(p) = ln(N / df(p))`.

    a(w) = softplus(idf(w) / 5 + mean of importance[id, 0])     for a query's words
    b(v) = softplus(idf(v) / 5 + mean of importance[id, 1])     for a title's words
    a(p) = softplus(idf(p) / 5 + pair_bias[0])                  for a query's pairs
    b(p) = softplus(idf(p) / 5 + pair_bias[1])                  for a title's pairs

Each mean is over the ids of the word; it is 0 for a word without ids.

Score. `q` and `t` are the distinct words, then the distinct pairs, of query and title. The query
side has the weight `k0 = |side_weights[0]|`, the title side `k1 = |side_weights[1]|`.

    score(q, t) = k0 * (sum over words w in q of a(w) * max over v in t of sim(w, v)
                        + sum over pairs p in both of a(p))
                     / (sum over words w in q of a(w) + sum over pairs p in q of a(p))
                + k1 * (sum over words v in t of b(v) * max over w in q of sim(w, v)
                        + sum over pairs p in both of b(p))
                     / (sum over words v in t of b(v) + sum over pairs p in t of b(p))

With the setting `sides: query`, `k1` is 0. A text without words has score 0 with every text. A
ranker adds the title's weighted log-prior.

Text vectors. With the setting `text_cosine` above 0, each word has a second vector and two second
weights. The vector is computed like e(w), from the rows of `text_kernel`. The weights are computed
like a(w) and b(v), from `text_importance`. The vector of a text is the sum of the second vectors of
its distinct words, each times its second weight, divided by the Euclidean norm of the sum; it is
zero if no word has an id. Then

    text_cosine * (vector of q) . (vector of t)

is added to score(q, t). It compares what no single word shows, such as the kind of a product.

Rules by hand replace sim(w, v) and sim(v, w) for some words, see `search_rules`. They do not change
text vectors.

`InvertedIndex` computes the scores of all titles, without an approximation. The threshold makes
most similarities zero, so only the titles of the few hundred words that are similar to a word of
the query are read for the two sides. Two other computations are approximate: the first step of a
search index, and a search engine. They match each word of the query with its 16 most similar words,
see `similar_words`, and leave the text vectors out. Then a search index computes the exact scores
of the 200 best titles. For a search engine, `SearchEngineClient.rescored` adds the cosine to the
first hits.

References: Khattab and Zaharia 2020 (late interaction, the maximum of similarities), Zhang et al.
2020 (BERTScore: both sides, words weighted by IDF), Xiong et al. 2017 and Nalisnick et al. 2016
(similarities of word vectors, input and output weights), Huang et al. 2013 (word hashing), Metzler
and Croft 2005 (neighboring words as terms).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.hashed_words import CACHED_WORDS, IDF_DIVISOR, Floats, HashedWords, softplus
from dssm_tf.runtime.postings import Postings, TitleTerms
from dssm_tf.runtime.search_rules import NO_RULES, SearchRules
from dssm_tf.runtime.text_vectors import TextVectors
from dssm_tf.runtime.trained_ranker import Vectors
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.vocabulary import Vocabulary

QUERY, TITLE = 0, 1
"""Columns of weights."""

_CACHED_SIMILAR = 2_000  # query words whose similar title words are cached by an index

_NO_ROWS, _NO_SIMILARITIES = np.zeros(0, np.intp), np.zeros(0, np.float32)


class MaxSim(HashedWords):
    """A trained model with the score maxsim: vectors and weights of words, and weights of pairs.

    It caches the vectors of words; several threads may use it.

    Args:
        vocabulary: letter n-grams and their ids.
        frequencies: document frequencies of words and pairs in the training data.
        kernel: `(1 + ids, dimension)`, rows by id; row 0 is not read.
        importance: `(1 + ids, 2)`, the importance of each id in queries and in titles.
        side_weights: `(2,)`, of the query side and the title side; their signs do not count.
        pair_bias: `(2,)`, the importance of all pairs in queries and in titles.
        threshold: cosines up to this value are similarity 0; at least 0 and below 1.
        text_vectors: vectors of texts whose cosine is added to the score; None without this part.
        cached_words: number of words whose vectors are cached. An `InvertedIndex` caches the
            similar words of at most as many query words.

    Attributes:
        search_rules: rules by hand; none unless `with_rules` set them.
    """

    search_rules: SearchRules = NO_RULES

    def __init__(
        self,
        vocabulary: Vocabulary,
        frequencies: DocumentFrequencies,
        kernel: Floats,
        importance: Floats,
        side_weights: Floats,
        pair_bias: Floats,
        threshold: float,
        text_vectors: TextVectors | None = None,
        cached_words: int = CACHED_WORDS,
    ) -> None:
        super().__init__(vocabulary, frequencies, kernel, importance, cached_words)
        self.side_weights = np.abs(np.asarray(side_weights, np.float64))
        self.pair_bias = np.asarray(pair_bias, np.float64)
        self.threshold = threshold
        self.text_vectors = text_vectors

    @property
    def text_dimension(self) -> int:
        """The number of numbers of a text vector; 0 without text vectors."""
        return 0 if self.text_vectors is None else self.text_vectors.dimension

    def query_weight(self, word: str, mean_importance: float) -> float:
        """The weight of a word of a query.

        Args:
            word: the word.
            mean_importance: the mean importance of its ids in queries; 0 for a word without ids.
        """
        idf = self.frequencies.word_idf(word)
        return float(softplus(idf / IDF_DIVISOR + mean_importance))

    def pair_weights(self, pairs: Sequence[str]) -> Floats:
        """The weights a and b of known pairs, `(pairs, 2)`."""
        idf = np.array(list(map(self.frequencies.pair_idf, pairs)), np.float64)
        return softplus(idf[:, None] / IDF_DIVISOR + self.pair_bias)

    def pair_weight(self, pair: str, side: int) -> float:
        """One of the `pair_weights` of a pair, faster.

        Args:
            pair: a known pair.
            side: `QUERY` or `TITLE`.
        """
        idf = self.frequencies.pair_idf(pair)
        return float(softplus(idf / IDF_DIVISOR + self.pair_bias[side]))

    def similarities(self, cosines: Floats) -> Floats:
        """Similarities from cosines of word vectors: 0 up to the threshold, and 1 for 1."""
        return np.maximum(cosines - self.threshold, 0) / (1 - self.threshold)

    def with_rules(self, rules: SearchRules) -> MaxSim:
        """The same model with other rules by hand; both share the cache of vectors."""
        model = copy(self)
        model.search_rules = rules
        return model

    def rule_similarities(
        self, word: str, row_of: Mapping[str, int]
    ) -> tuple[NDArray[np.intp], Vectors]:
        """The rows of words whose similarity to a word is set by a rule, and these similarities.

        Args:
            word: the word.
            row_of: the row of each other word.
        """
        rules = self.search_rules.of_word(word, self.vocabulary.rules.own_fields)
        known = [(row_of[other], similarity) for other, similarity in rules if other in row_of]
        if not known:
            return _NO_ROWS, _NO_SIMILARITIES
        return (
            np.array([row for row, _ in known], np.intp),
            np.array([similarity for _, similarity in known], np.float32),
        )


class TitlePostings(NamedTuple):
    """Titles by their words and pairs, without anything that depends on a model's weights.

    Attributes:
        titles: number of titles.
        row_of_word: the row of each word in `words`.
        words: the titles of each word.
        row_of_pair: the row of each pair in `pairs`.
        pairs: the titles of each pair.
    """

    titles: int
    row_of_word: dict[str, int]
    words: Postings
    row_of_pair: dict[str, int]
    pairs: Postings

    @classmethod
    def from_titles(
        cls, titles: Sequence[Sequence[str]], frequencies: DocumentFrequencies
    ) -> TitlePostings:
        """The postings of titles.

        Args:
            titles: the words of each distinct title, in order.
            frequencies: decides which pairs count.
        """
        words = TitleTerms.from_texts(map(dict.fromkeys, titles))
        pairs = TitleTerms.from_texts(map(frequencies.pairs_of, titles))
        return cls(
            len(titles),
            words.row_of,
            Postings(words.rows, words.starts, len(words.row_of)),
            pairs.row_of,
            Postings(pairs.rows, pairs.starts, len(pairs.row_of)),
        )


class InvertedIndex:
    """Scores all titles for a query.

    Several threads may use it.

    Args:
        model: the trained model.
        postings: the titles.
    """

    def __init__(self, model: MaxSim, postings: TitlePostings) -> None:
        self._model = model
        self._title_count, self._row_of_word, self._words, self._row_of_pair, self._pairs = postings
        self._text_matrix = self._weighted_text_vectors()
        self._vectors, weights = model.words(list(self._row_of_word))
        self._title_weights = weights[:, TITLE]
        pair_weights = model.pair_weights(list(self._row_of_pair))[:, TITLE]
        totals = self._words.sums(self._title_weights) + self._pairs.sums(pair_weights)
        self._inverse_totals = model.side_weights[TITLE] / np.where(totals > 0, totals, 1)
        # The cache holds no reference to this index: a cycle would keep both in memory.
        find = partial(_similar_words, model, self._vectors, self._row_of_word)
        self._similar_words = lru_cache(min(_CACHED_SIMILAR, model.cached_words))(find)

    def _weighted_text_vectors(self) -> Vectors | None:
        """The text vectors of all titles times `text_cosine`, `(titles, dimension of texts)`.

        None if the model has no text vectors.
        """
        if (text_vectors := self._model.text_vectors) is None:
            return None
        words = text_vectors.weighted_words(list(self._row_of_word), TITLE)
        vectors = self._words.vector_sums(words)
        vectors *= text_vectors.scales(vectors)[:, None]
        return vectors

    @classmethod
    def from_titles(cls, model: MaxSim, titles: Sequence[Sequence[str]]) -> InvertedIndex:
        """An index of titles, each the list of its words in order."""
        return cls(model, TitlePostings.from_titles(titles, model.frequencies))

    def __len__(self) -> int:
        return self._title_count

    def scores(self, query: Sequence[str]) -> Vectors:
        """The scores of all titles for a query, without the prior.

        Args:
            query: the words of the query, in order.

        Returns:
            float32 `(titles,)`.
        """
        return self.score_matrix([query])[0]

    def score_matrix(self, queries: Sequence[Sequence[str]]) -> Vectors:
        """The scores of all titles for several queries, without the prior.

        With text vectors, scores depend on the other queries and titles in the last bits.

        Args:
            queries: the words of each query, in order.

        Returns:
            float32 `(queries, titles)`.
        """
        scores = np.zeros((len(queries), self._title_count), np.float32)
        text_vectors = self._model.text_vectors
        if self._text_matrix is not None and text_vectors is not None and len(queries):
            # For several queries, one matrix product takes a fraction of the time of several.
            query_vectors = [text_vectors.of_text(query, QUERY) for query in queries]
            np.matmul(np.stack(query_vectors), self._text_matrix.T, out=scores)
        for row, query in enumerate(queries):
            scores[row] += self._word_scores(query)
        return scores

    def _word_scores(self, query: Sequence[str]) -> Vectors:
        """The scores without text vectors, `(titles,)`; see `scores`."""
        words, pairs = list(dict.fromkeys(query)), self._model.frequencies.pairs_of(query)
        if not words or not self._title_count:
            return np.zeros(self._title_count, np.float32)
        weights = self._model.words(words).weights[:, QUERY]
        pair_weights = self._model.pair_weights(pairs)
        query_side, title_side = self._word_sums(words, weights)
        for pair, (query_weight, title_weight) in zip(pairs, pair_weights, strict=True):
            if (row := self._row_of_pair.get(pair)) is not None:
                titles = self._pairs.titles_of_term(row)
                query_side[titles] += query_weight
                title_side[titles] += title_weight
        total = weights.sum(dtype=np.float64) + pair_weights[:, QUERY].sum()
        query_side *= self._model.side_weights[QUERY] / total if total > 0 else 0.0
        scores: Vectors = (query_side + title_side * self._inverse_totals).astype(np.float32)
        return scores

    def _word_sums(self, words: Sequence[str], weights: Floats) -> tuple[Floats, Floats]:
        """The weights of matched words times their similarities, summed for each title.

        Args:
            words: the distinct words of a query.
            weights: their weights.

        Returns:
            The sums over the words of the query, and over those of the title, both `(titles,)`.
        """
        similar = [self._similar_words(word) for word in words]
        rows, similarities = map(np.concatenate, zip(*similar, strict=True))
        titles, counts = self._words.titles_of_terms(rows)
        contributions = np.repeat(self._title_contributions(rows, similarities), counts)
        sums = np.bincount(titles, contributions, self._title_count)
        title_side = sums.astype(np.float64, copy=False)
        query_side, best = np.zeros((2, self._title_count), np.float32)
        ends = np.cumsum([len(word_rows) for word_rows, _ in similar])
        posting_ends = np.append(0, np.cumsum(counts))[ends]
        word_titles = np.split(titles, posting_ends[:-1])
        word_similarities = np.split(np.repeat(similarities, counts), posting_ends[:-1])
        for weight, titles, values in zip(weights, word_titles, word_similarities, strict=True):
            best.fill(0)
            best[titles] = values  # they increase, so the last of a title's values is the largest
            query_side += weight * best
        return query_side, title_side

    def _title_contributions(self, rows: NDArray[np.intp], similarities: Vectors) -> Vectors:
        """The contribution of each entry to the title side: the word's weight times the similarity.

        Of the entries of one title word, all but the most similar get 0.

        Args:
            rows: rows of title words, `(entries,)`, one query word's after another's.
            similarities: similarities of the query word and the title word, `(entries,)`.
        """
        best = np.zeros(len(self._title_weights), np.float32)
        np.maximum.at(best, rows, similarities)
        entries = np.flatnonzero(similarities == best[rows])
        # Two query words can be equally similar to a title word; the last one counts.
        entry_of_row = np.empty(len(best), np.intp)
        entry_of_row[rows[entries]] = entries
        entries = entry_of_row[rows[entries]]
        contributions = np.zeros_like(similarities)
        contributions[entries] = similarities[entries] * self._title_weights[rows[entries]]
        return contributions


def _similar_words(
    model: MaxSim, vectors: Floats, row_of_word: Mapping[str, int], word: str
) -> tuple[NDArray[np.intp], Vectors]:
    """The title words that are similar to a word, as rows and similarities, increasing.

    Args:
        model: the trained model.
        vectors: unit vectors of the title words, `(words, dimension)`.
        row_of_word: the row of each title word.
        word: the word.
    """
    similarities = model.similarities(vectors @ model.words([word]).vectors[0]).astype(np.float32)
    rule_rows, rule_similarities = model.rule_similarities(word, row_of_word)
    similarities[rule_rows] = rule_similarities
    rows = np.flatnonzero(similarities)
    rows = rows[np.argsort(similarities[rows])]
    return rows, similarities[rows]
