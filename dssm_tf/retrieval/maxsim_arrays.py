"""Computes the words and the arrays of a search index for models with the score maxsim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.retrieval.index_arrays import Arrays
from dssm_tf.runtime.maxsim import QUERY, TITLE
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.postings import Postings, TitleTerms
from dssm_tf.runtime.search_rules import NO_RULES
from dssm_tf.runtime.similar_words import SimilarWords
from dssm_tf.runtime.text_vectors import TextVectors
from dssm_tf.tables.judgments import CorpusTitle

_TITLES_PER_REPORT = 10_000
_WORDS_PER_REPORT = 1_000

Progress = Callable[[float, str], None]
"""Called with the finished fraction and the current step."""


def compute_arrays(
    model: MaxSimRanker,
    corpus: Sequence[CorpusTitle],
    similar_words: int | None,
    progress: Progress,
) -> tuple[list[str], Arrays]:
    """Computes the words of a corpus and the arrays of its index.

    Args:
        model: the trained model.
        corpus: titles to index. Equal titles tie, in the order of the corpus.
        similar_words: the largest number of similar words to store for each word. None stores
            none, and each search compares with all words.
        progress: called with the finished fraction and the current step.

    Returns:
        The distinct words of the titles, by row; the arrays.

    Raises:
        UserError: no title has a word.
    """
    vocabulary, maxsim = model.vocabulary, model.maxsim
    keys, title_of_entry = vocabulary.rules.distinct(
        _with_progress(
            (entry.title for entry in corpus), len(corpus), "finding equal titles:", 0.0, progress
        )
    )
    progress(0.35, "sorting titles")
    order = sorted(range(len(keys)), key=lambda row: tie_key(keys[row]))
    titles = [keys[row] for row in order]
    rank = np.empty(len(titles), np.int64)
    rank[order] = np.arange(len(titles))
    title_of_entry = rank[title_of_entry]

    texts = _with_progress(titles, len(titles), "splitting", 0.45, progress)
    terms = TitleTerms.from_texts(map(vocabulary.words, texts))
    if not terms.row_of:
        raise UserError(f"None of the {len(corpus)} titles has a word; use another corpus.")
    progress(0.8, "building postings")
    words = list(terms.row_of)
    features = maxsim.words(words)
    title_words, title_starts = _distinct_terms(terms.rows, terms.titles, len(words), len(titles))
    pair_keys, pair_rows, pair_titles = _pairs(terms, maxsim.frequencies.pairs)
    title_pairs, title_pair_starts = _distinct_terms(
        pair_rows, pair_titles, len(pair_keys), len(titles)
    )
    word_postings = Postings(title_words, title_starts, len(words))
    pair_postings = Postings(title_pairs, title_pair_starts, len(pair_keys))
    pair_names = [
        f"{words[key // len(words)]} {words[key % len(words)]}" for key in pair_keys.tolist()
    ]
    pair_weights = maxsim.pair_weights(pair_names)[:, TITLE].astype(np.float64)
    word_weights = np.ascontiguousarray(features.weights[:, TITLE], np.float32)
    similar_rows, similarities = _similar_words(
        SimilarWords(maxsim.with_rules(NO_RULES), words, similar_words, features.vectors),
        words,
        progress,
    )
    totals = word_postings.sums(word_weights) + pair_postings.sums(pair_weights)
    text_vectors, text_scales = _text_vectors(maxsim.text_vectors, words, word_postings)
    arrays = Arrays(
        word_starts=word_postings.starts,
        word_titles=word_postings.titles,
        pair_starts=pair_postings.starts,
        pair_titles=pair_postings.titles,
        title_starts=title_starts,
        title_words=title_words,
        title_pair_starts=title_pair_starts,
        title_pairs=title_pairs,
        doc_starts=np.searchsorted(np.sort(title_of_entry), np.arange(len(titles) + 1)),
        docs=np.argsort(title_of_entry, kind="stable").astype(np.int32),
        pair_keys=pair_keys,
        vectors=features.vectors.astype(np.float32),
        similar_rows=similar_rows,
        similarities=similarities,
        query_weights=np.ascontiguousarray(features.weights[:, QUERY], np.float32),
        word_weights=word_weights,
        pair_weights=pair_weights,
        inverse_totals=(maxsim.side_weights[TITLE] / np.where(totals > 0, totals, 1)).astype("f4"),
        priors=model.weighted_prior(titles).astype(np.float32),
        text_vectors=text_vectors,
        text_scales=text_scales,
    )
    return words, arrays


def _text_vectors(
    model: TextVectors | None, words: Sequence[str], postings: Postings
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The arrays `text_vectors` and `text_scales`, see `Arrays`.

    Args:
        model: the text vectors of the model; None if it has none.
        words: the words of the titles, by row.
        postings: the titles of each word.
    """
    if model is None:
        no_vectors = np.zeros((len(words), 0), np.float32)
        return no_vectors, np.zeros(postings.title_count, np.float32)
    vectors = model.weighted_words(words, TITLE).astype(np.float32)
    scales = np.zeros(postings.title_count, np.float32)  # a title without words has no vector
    for titles, sums in postings.blocks_of_sums(vectors):
        scales[titles] = model.scales(sums)
    return vectors, scales


def _with_progress(
    titles: Iterable[Any], total: int, step: str, start: float, progress: Progress
) -> Iterator[Any]:
    """Yields titles, and reports their iteration as 35 % of the work.

    Args:
        titles: the titles.
        total: their number.
        step: the current step, such as `comparing`.
        start: the fraction of the work that was finished before.
        progress: see `compute_arrays`.
    """
    for count, title in enumerate(titles):
        if count % _TITLES_PER_REPORT == 0:
            progress(start + 0.35 * count / total, f"{step} {count:,} of {total:,} titles")
        yield title


def _similar_words(
    similar: SimilarWords, words: Sequence[str], progress: Progress
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The similar words of all words of a catalog: `similar_rows` and `similarities`, see `Arrays`.

    Args:
        similar: finds similar words.
        words: the words of the catalog.
        progress: see `compute_arrays`.
    """
    width = 0 if similar.limit is None else min(similar.limit, len(words))
    similar_rows = np.zeros((len(words), width), np.int32)
    similarities = np.zeros((len(words), width), np.float32)
    if width:
        for row, (rows, values) in enumerate(similar.of_each(words)):
            if row % _WORDS_PER_REPORT == 0:
                state = f"comparing {row:,} of {len(words):,} words"
                progress(0.8 + 0.2 * row / len(words), state)
            similar_rows[row, : len(rows)], similarities[row, : len(rows)] = rows, values
    return similar_rows, similarities


def _pairs(
    terms: TitleTerms, known_pairs: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """The known pairs of titles, with repetition.

    Args:
        terms: the words of titles, in order.
        known_pairs: pairs with a document frequency; all other pairs are ignored.

    Returns:
        The keys of the pairs, see `Arrays.pair_keys`; the row of each pair and its title, int32.
    """
    words = len(terms.row_of)
    row_of = terms.row_of.get
    rows = [tuple(map(row_of, pair.split(" "))) for pair in known_pairs]
    candidates = np.array([row for row in rows if None not in row], np.int64).reshape(-1, 2)
    titles = terms.titles
    neighbors = titles[1:] == titles[:-1]
    rows_of_words = terms.rows.astype(np.int64)
    keys = (rows_of_words[:-1] * words + rows_of_words[1:])[neighbors]
    is_known = np.isin(keys, candidates[:, 0] * words + candidates[:, 1])
    pair_keys, pair_rows = np.unique(keys[is_known], return_inverse=True)
    return pair_keys, pair_rows.astype(np.int32), titles[1:][neighbors][is_known]


def _distinct_terms(
    rows: NDArray[np.int32], titles: NDArray[np.int32], term_count: int, title_count: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The distinct terms of each title.

    Args:
        rows: rows of terms, `(entries,)`.
        titles: the title of each entry.
        term_count: the number of terms.
        title_count: the number of titles.

    Returns:
        Rows, ascending for each title; the start of each title's rows, and the end.
    """
    distinct = np.unique(titles.astype(np.int64) * max(term_count, 1) + rows)
    counts = np.bincount(distinct // max(term_count, 1), minlength=title_count)
    return (distinct % max(term_count, 1)).astype(np.int32), np.append(0, np.cumsum(counts))
