import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dssm_tf.baselines.bi_phrases import (
    PairBlock,
    align,
    consistent_phrases,
    extract,
    pair_blocks,
    phrase_keys,
    symmetrise,
)
from dssm_tf.baselines.terms import Terms
from tests.reference import translation as reference


def links_of(places, height, width):
    """A `(1, height, width)` alignment from its links."""
    links = np.zeros((1, height, width), dtype=bool)
    for j, i in places:
        links[0, j, i] = True
    return links


def places_of(links):
    """The links of one pair as a set."""
    return {(int(j), int(i)) for j, i in np.argwhere(links[0])}


def phrases_of(query, title, links, longest):
    """The bi-phrases of one pair as sorted texts."""
    terms = Terms([*query, *title])
    block = PairBlock(
        np.array([0]),
        np.array([[terms.ids[word] for word in query]]),
        np.array([[terms.ids[word] for word in title]]),
    )
    found = []
    for m, n, _, js, is_ in consistent_phrases(links, block, longest):
        for j, i in zip(js, is_, strict=True):
            found.append((" ".join(query[j : j + m]), " ".join(title[i : i + n])))
    return sorted(found)


LINKS = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=8)


@given(st.lists(st.tuples(LINKS, LINKS), min_size=1, max_size=4))
def test_symmetrising_equals_the_definition_for_each_pair_of_a_block(pairs):
    query_links = np.concatenate([links_of(first, 4, 5) for first, _ in pairs])
    title_links = np.concatenate([links_of(second, 4, 5) for _, second in pairs])
    found = symmetrise(query_links, title_links)
    for row, pair in enumerate(pairs):
        assert places_of(found[row : row + 1]) == reference.symmetrise(*pair)


def test_phrases_of_a_worked_alignment():
    # q: cheap - low(0), cost(1); hat - hat(2). "cheap" alone is linked to both "low" and "cost",
    # so it goes with neither of them alone.
    links = links_of([(0, 0), (0, 1), (1, 2)], 2, 3)
    assert phrases_of(["cheap", "hat"], ["low", "cost", "hat"], links, 3) == [
        ("cheap", "low cost"),
        ("cheap hat", "low cost hat"),
        ("hat", "hat"),
    ]
    assert phrases_of(["cheap", "hat"], ["low", "cost", "hat"], links, 2) == [
        ("cheap", "low cost"),
        ("hat", "hat"),
    ]


def test_phrases_end_where_the_text_ends_and_not_in_the_padding():
    # Two pairs of one block: two words against two, and one against one.
    block = PairBlock(np.arange(2), np.array([[0, 1], [0, -1]]), np.array([[2, 3], [2, -1]]))
    links = np.concatenate([links_of([(0, 0), (1, 1)], 2, 2), links_of([(0, 0)], 2, 2)])
    found = [
        (query_words, title_words)
        for query_words, title_words, rows, _, _ in consistent_phrases(links, block, 3)
        for _ in np.flatnonzero(rows == 1)
    ]
    assert found == [(1, 1)]


@given(LINKS, st.integers(1, 3), st.integers(1, 4), st.integers(1, 5))
def test_phrases_equal_the_definition(places, longest, height, width):
    query, title = [f"q{j}" for j in range(height)], [f"t{i}" for i in range(width)]
    places = {(j, i) for j, i in places if j < height and i < width}
    found = phrases_of(query, title, links_of(places, height, width), longest)
    assert found == reference.bi_phrases(query, title, places, longest)


def test_alignment_takes_the_likeliest_words_and_pads_nothing():
    # Words 0, 1 of queries; 2, 3 of titles. The second pair is one word against one.
    to_query = sparse.csr_matrix(([0.9, 0.1, 0.8], ([2, 2, 3], [0, 1, 1])), shape=(4, 4))
    to_title = sparse.csr_matrix(([1.0, 0.7, 0.3], ([0, 1, 1], [2, 3, 2])), shape=(4, 4))
    block = PairBlock(np.arange(2), np.array([[0, 1], [1, -1]]), np.array([[2, 3], [2, -1]]))
    found = align(block, to_query, to_title)
    assert places_of(found[:1]) == {(0, 0), (1, 1)}
    assert places_of(found[1:]) == {(0, 0)}


def test_of_equally_likely_words_the_same_word_is_linked_else_the_first():
    terms = Terms(["black", "new", "ops"])
    table = sparse.csr_matrix(np.full((3, 3), 1 / 3))
    black, new, ops = (terms.ids[word] for word in ("black", "new", "ops"))
    block = PairBlock(
        np.arange(2), np.array([[ops], [ops]]), np.array([[black, ops], [new, black]])
    )
    to_nothing = sparse.csr_matrix((3, 3))
    found = align(block, table, to_nothing)  # one direction links nothing: its words stay free
    assert places_of(found[:1]) == {(0, 1)}
    assert places_of(found[1:]) == {(0, 0)}


def test_blocks_hold_every_pair_once(monkeypatch):
    monkeypatch.setattr("dssm_tf.baselines.bi_phrases._PAIRS", 4)
    queries = [" ".join("ab"[: 1 + n % 2]) for n in range(9)]
    titles = [" ".join("abcde"[: 1 + n % 5]) for n in range(9)]
    terms = Terms("abcde")
    rows = []
    for block in pair_blocks(terms.tokens(queries), terms.tokens(titles)):
        assert len(block.pairs) <= 4
        for pair, query, title in zip(*block, strict=True):
            assert "".join(terms.words[w] for w in query if w >= 0) == queries[pair].replace(
                " ", ""
            )
            assert "".join(terms.words[w] for w in title if w >= 0) == titles[pair].replace(" ", "")
            rows.append(int(pair))
    assert sorted(rows) == list(range(9))


def test_relative_frequencies_by_hand():
    # Two clicks on "hat" for "cap" and six for "hat": P(cap | hat) = 2 / 8.
    queries, titles = ["cap", "hat", "shoe"], ["hat", "hat", "shoe"]
    terms = Terms.of([*queries, *titles])
    rows, columns = [terms.ids["hat"]] * 2 + [terms.ids["shoe"]], ["cap", "hat", "shoe"]
    to_query = sparse.csr_matrix(
        ([0.5, 0.5, 1.0], (rows, [terms.ids[word] for word in columns])), shape=(3, 3)
    )
    title_keys, _, table = extract(
        terms.tokens(queries),
        terms.tokens(titles),
        np.array([2.0, 6.0, 1.0]),
        to_query,
        to_query.T.tocsr(),
        3,
    )
    assert title_keys.tolist() == [terms.ids["hat"] + 1, terms.ids["shoe"] + 1]
    assert table.toarray() == pytest.approx(
        np.array([[2 / 8, 6 / 8, 0], [0, 0, 1]])  # cap, hat, shoe
    )


def test_keys_tell_lengths_and_orders_apart():
    ids = np.array([0, 0, 1, 0])
    keys = [
        int(phrase_keys(ids, np.array([start]), length, 2)[0])
        for start, length in ((0, 1), (0, 2), (0, 3), (1, 2), (2, 1), (2, 2), (1, 3))
    ]
    assert len(set(keys)) == len(keys)
    with pytest.raises(ValueError, match="at most 2000000"):
        phrase_keys(ids, np.array([0]), 1, 3_000_000)
