"""Phrase pairs of aligned words: alignments, frequencies and probabilities."""

from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dssm_tf.baselines import bi_phrases
from dssm_tf.baselines.bi_phrases import extract, phrase_keys, symmetrize
from dssm_tf.baselines.tokens import Tokens
from tests.reference import translation as reference

LINKS = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=8)


def links_of(pairs):
    """Alignments `(pairs, 4, 5)` from the links of each pair."""
    links = np.zeros((len(pairs), 4, 5), dtype=bool)
    for row, pair in enumerate(pairs):
        for j, i in pair:
            links[row, j, i] = True
    return links


@given(st.lists(st.tuples(LINKS, LINKS), min_size=1, max_size=4))
def test_symmetrizing_equals_the_definition_for_each_pair_of_a_block(pairs):
    links = symmetrize(*map(links_of, zip(*pairs, strict=True)))
    assert (links == links_of([reference.symmetrize(*pair) for pair in pairs])).all()


WORDS = {"1": 0, "2": 1, "3": 2}  # a phrase such as "1 3" reads as its key, 13 in base 4
TEXT = st.lists(st.sampled_from([*WORDS]), min_size=1, max_size=6)
TABLES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=18, max_size=18)


def most_probable_links(text, other, table):
    """Yields the index of each word of a text, and of its most probable word in the other text.

    If several words are equally probable, the same word wins, then the first in the text.
    """
    for index, word in enumerate(text):
        probabilities = [table[WORDS[source], WORDS[word]] for source in other]
        best = max(range(len(other)), key=lambda i: (probabilities[i], other[i] == word, -i))
        if probabilities[best] > 0:
            yield index, best


@patch.object(bi_phrases, "_BLOCK_PAIRS", 2)
@patch.object(bi_phrases, "_MAX_WORDS", 5)
@given(
    st.lists(st.tuples(TEXT, TEXT, st.sampled_from([1.0, 2.5])), min_size=1, max_size=6),
    TABLES,
    st.integers(1, 3),
)
def test_phrase_frequencies_equal_the_definition(pairs, tables, longest):
    to_query, to_title = np.reshape(tables, (2, 3, 3))
    counts, totals = Counter(), Counter()
    for query, title, clicks in pairs:
        query, title = query[:5], title[:5]  # `_MAX_WORDS`
        title_links = {(j, i) for i, j in most_probable_links(title, query, to_title)}
        links = reference.symmetrize(set(most_probable_links(query, title, to_query)), title_links)
        for phrases in reference.bi_phrases(query, title, links, longest):
            keys = tuple(int(phrase.replace(" ", ""), 4) for phrase in phrases)
            counts[keys] += clicks
            totals[keys[1]] += clicks
    queries, titles, clicks = zip(*pairs, strict=True)
    title_keys, query_keys, table = extract(
        Tokens.from_texts(queries, WORDS),
        Tokens.from_texts(titles, WORDS),
        np.array(clicks),
        sparse.csr_matrix(to_query),
        sparse.csr_matrix(to_title),
        longest,
    )
    rows, columns, values = sparse.find(table)
    frequencies = dict(
        zip(zip(query_keys[columns], title_keys[rows], strict=True), values, strict=True)
    )
    assert frequencies == pytest.approx({keys: counts[keys] / totals[keys[1]] for keys in counts})


def test_relative_frequencies_by_hand():
    # Two clicks on "hat" for "cap" and six for "hat": P(cap | hat) = 2 / 8.
    ids = {"cap": 0, "hat": 1}
    queries = Tokens.from_texts([["cap"], ["hat"]], ids)
    titles = Tokens.from_texts([["hat"], ["hat"]], ids)
    to_query = sparse.csr_matrix([[0, 0], [0.5, 0.5]])
    title_keys, _, table = extract(
        queries, titles, np.array([2.0, 6.0]), to_query, to_query.T.tocsr(), 3
    )
    assert title_keys.tolist() == [ids["hat"] + 1]
    assert table.toarray()[0] == pytest.approx([2 / 8, 6 / 8])


def test_a_vocabulary_too_large_for_phrase_keys_is_rejected():
    with pytest.raises(ValueError, match="at most 2000000"):
        phrase_keys(np.zeros(1, int), np.zeros(1, int), 1, 3_000_000)
