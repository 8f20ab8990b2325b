"""Searches in the index of a maxsim model return the model's scores."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.retrieval.hits import NO_GOOD_MATCH_NOTE, NO_QUERY_WORD_NOTE, NO_SIMILAR_WORD_NOTE
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.runtime.similar_words import SimilarWords
from tests.retrieval.maxsim.conftest import CORPUS, QUERIES, corpus_of, hits_of, ids, ranker_of
from tests.runtime.maxsim_models import WORDS, any_text, example_model, oracle, random_model

pytest.importorskip("numba")


def prior_by_length(titles):
    return -0.01 * np.array([len(title) for title in titles], np.float32)


# --------------------------------------------------------------------------- scores and order


@settings(max_examples=60, deadline=None)
@given(
    titles=st.lists(any_text, min_size=1, max_size=12).filter(any),
    query=any_text,
    seed=st.integers(0, 99),
    threshold=st.sampled_from([0.0, 0.2, 0.7]),
    allowed=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_with_all_similar_words_a_search_equals_the_formula_for_each_title(
    titles, query, seed, threshold, allowed
):
    model = random_model([*titles, " ".join(WORDS)], seed=seed, threshold=threshold)
    words = [model.vocabulary.words(title) for title in titles]
    expected, query_words = oracle(model, [*words, query.split()]), query.split()
    priors = prior_by_length(titles)

    def word_score(row):
        """The score without the cosine of text vectors; with 0, a title is not ranked."""
        title = words[row]
        return expected.score(query_words, title) - expected.cosine_part(query_words, title)

    index = MaxSimIndex.build(ranker_of(model, prior_by_length), corpus_of(titles), None)
    received = hits_of(index, query, k=20, allowed=index.filter(allowed[: len(titles)]))
    scores = {
        f"d{row}": expected.score(query_words, words[row]) + priors[row]
        for row in range(len(titles))
        if allowed[row] and word_score(row) > 1e-6
    }
    returned = {hit.doc_id: hit.score for hit in received}
    # A title whose only similarity is within rounding of the threshold may be there or not.
    for doc_id in {*scores} ^ {*returned}:
        row = int(doc_id[1:])
        assert allowed[row]
        assert word_score(row) == approx(0, abs=1e-5)
    assert {name: returned[name] for name in scores if name in returned} == approx(
        {name: scores[name] for name in scores if name in returned}, abs=2e-5
    )
    assert [hit.score for hit in received] == sorted(returned.values(), reverse=True)


@pytest.mark.parametrize("similar_words", [1, 16, None])
def test_scores_equal_the_model_s(ranker, similar_words):
    index = MaxSimIndex.build(ranker, CORPUS, similar_words)
    titles = {entry.doc_id: entry.title for entry in CORPUS}
    for query in QUERIES:
        hits = hits_of(index, query, k=20)
        assert hits
        expected = ranker.score(query, [titles[hit.doc_id] for hit in hits])
        assert [hit.score for hit in hits] == approx(expected, abs=1e-6)
        similarities = ranker.similarity_matrix([query], [titles[hit.doc_id] for hit in hits])[0]
        assert [hit.score - hit.prior for hit in hits] == approx(similarities, abs=1e-6)
        for hit in hits:
            assert hit.matches.score + hit.prior == approx(hit.score, abs=1e-5)


def test_only_the_rescored_titles_need_the_full_formula(ranker):
    index = MaxSimIndex.build(ranker, CORPUS, similar_words=1, rescored=1)
    all_titles = MaxSimIndex.build(ranker, CORPUS)
    for query in QUERIES:
        (first,) = hits_of(index, query, k=1)
        expected = {hit.doc_id: hit.score for hit in hits_of(all_titles, query, k=20)}
        assert first.score == expected[first.doc_id]
        # As many titles are rescored as are asked for.
        assert len(hits_of(index, query, k=3)) >= min(3, len(hits_of(index, query, k=20)))


def test_the_prior_decides_between_titles_of_equal_words():
    def priors(titles):
        return np.array([0.5 if title == "shoe red" else 0.0 for title in titles], np.float32)

    model = random_model()
    model.frequencies.pairs.clear()
    corpus = corpus_of(["red shoe", "shoe red"])
    without = hits_of(MaxSimIndex.build(ranker_of(model), corpus), "shoe")
    assert without[0].score == without[1].score
    first, second = hits_of(MaxSimIndex.build(ranker_of(model, priors), corpus), "shoe")
    assert (first.doc_id, second.doc_id) == ("d1", "d0")
    assert first.score == approx(second.score + 0.5)
    assert (first.prior, second.prior) == (0.5, 0.0)


def test_ties_are_in_the_order_of_tie_key_and_equal_titles_in_that_of_the_corpus():
    model = random_model()
    model.frequencies.pairs.clear()
    titles = ["red shoe", "shoe, red", "Red Shoe!", "shoe red red"]
    index = MaxSimIndex.build(ranker_of(model), corpus_of(titles))
    hits = hits_of(index, "red shoe")
    assert len({hit.score for hit in hits}) == 1
    keys = ["red shoe", "shoe red", "red shoe", "shoe red red"]
    assert ids(hits) == [f"d{row}" for row in sorted(range(4), key=lambda row: tie_key(keys[row]))]
    assert ids(hits_of(index, "red shoe", k=2)) == ids(hits)[:2]
    reverse = MaxSimIndex.build(ranker_of(model), corpus_of(titles[::-1]))
    assert [hit.score for hit in hits_of(reverse, "red shoe")] == [hit.score for hit in hits]


@pytest.mark.parametrize("rescored", [1, 4, 11])
def test_of_more_ties_than_are_rescored_the_first_ones_are_returned(rescored):
    model = random_model()
    model.frequencies.pairs.clear()
    orders = itertools.product(["red", "shoe"], repeat=5)
    titles = [" ".join(words) for words in orders if len({*words}) == 2]  # 30 of the same words
    index = MaxSimIndex.build(ranker_of(model), corpus_of(titles), rescored=rescored)
    hits = hits_of(index, "red shoes", k=rescored)
    assert [hit.title for hit in hits] == sorted(titles, key=tie_key)[:rescored]


def test_a_filter_leaves_the_scores_of_the_other_entries(index):
    everything = hits_of(index, "red shoe", k=20)
    for keep in (ids(everything)[1::2], ["d1"], []):
        allowed = index.filter([entry.doc_id in keep for entry in CORPUS])
        expected = [hit for hit in everything if hit.doc_id in keep]
        assert hits_of(index, "red shoe", k=20, allowed=allowed) == expected
    with pytest.raises(ValueError, match=r"shape \(2,\); expected a value for each of the 11"):
        index.filter([True, False])


def test_many_titles_are_ranked_as_all_titles_are_scored():
    # More titles than two blocks of the compiled loop, and more candidates than are kept.
    rng = np.random.default_rng(0)
    words = np.array(["red", "shoe", "box", "lid", "blue", "green", "men", "running", "onion"])
    titles = [" ".join(rng.choice(words, 4)) + f" {row}" for row in range(20_000)]
    model = random_model([*titles[:50], " ".join(words)], dimension=8, text_cosine=0)
    ranker = ranker_of(model, prior_by_length)
    index = MaxSimIndex.build(ranker, corpus_of(titles), None, rescored=300)
    for query in ("red shoe", "boxx of onions", "green running lid 77"):
        scores = np.sort(ranker.score(query, tuple(titles)))[::-1]
        assert [hit.score for hit in hits_of(index, query, k=10)] == approx(scores[:10], abs=1e-6)


def test_the_cosine_of_text_vectors_is_added_to_the_best_titles_of_the_first_step():
    rng = np.random.default_rng(1)
    words = np.array(["red", "shoe", "box", "lid", "blue", "green", "men", "running", "onion"])
    titles = [" ".join(rng.choice(words, 5, replace=False)) + f" {row}" for row in range(500)]
    corpus = [*titles[:50], " ".join(words)]
    with_cosine = ranker_of(random_model(corpus, text_cosine=2.0), prior_by_length)
    without = ranker_of(random_model(corpus, text_cosine=0), prior_by_length)
    index = MaxSimIndex.build(with_cosine, corpus_of(titles), None, rescored=30)
    for query in ("red shoe", "boxx of onions", "green running lid 77"):
        first = np.argsort(-without.score(query, tuple(titles)), kind="stable")[:30]
        scores = with_cosine.score(query, tuple(titles))
        expected = np.sort(scores[first])[::-1]
        assert [hit.score for hit in hits_of(index, query, k=30)] == approx(expected, abs=2e-6)
        assert np.delete(scores, first).max() > expected[-1]  # a title that is not rescored


# --------------------------------------------------------------------------- unusual texts


def test_a_query_without_words_finds_nothing_and_says_so(index):
    for query in ("", " ?! ", "\0"):
        result = index.search(query)
        assert (result.note, result.rankings) == (NO_QUERY_WORD_NOTE, {"semantic": []})


def test_words_of_unknown_letters_find_nothing_and_say_so(index):
    result = index.search("日本 \udcff")
    assert (result.note, result.rankings) == (NO_SIMILAR_WORD_NOTE, {"semantic": []})


def test_a_pair_of_words_without_letter_ngrams_matches():
    titles = ["zz qq", "qq zz", "red zz qq"]
    model = random_model(["red shoe"])
    frequencies = type(model.frequencies).from_titles([title.split() for title in titles])
    model.frequencies = frequencies
    index = MaxSimIndex.build(ranker_of(model), corpus_of(titles))
    expected = oracle(model, [title.split() for title in titles])
    received = {hit.doc_id: hit.score for hit in hits_of(index, "zz qq")}
    assert received == approx(
        {f"d{row}": expected.score(["zz", "qq"], titles[row].split()) for row in (0, 2)}, abs=1e-6
    )


def test_titles_without_words_are_never_found(index):
    empty = {entry.doc_id for entry in CORPUS if not entry.title}
    for query in QUERIES:
        assert empty.isdisjoint(ids(hits_of(index, query, k=20)))


def test_a_corpus_without_words_is_an_error(ranker):
    with pytest.raises(UserError, match="None of the 2 titles has a word"):
        MaxSimIndex.build(ranker, corpus_of(["", "?!"]))


def test_poor_results_have_a_note(ranker, index):
    assert ranker.cutoff == 0.1
    assert index.search("red shoe").note == ""
    ranker.cutoff = 2.0
    try:
        assert index.search("red shoe").note == ""  # a title has all words
        assert index.search("reds shoes").note == NO_GOOD_MATCH_NOTE
    finally:
        ranker.cutoff = 0.1


def test_the_prior_does_not_make_a_good_match_and_k_does_not_matter(ranker):
    index = MaxSimIndex.build(ranker, CORPUS)
    hits = hits_of(index, "reds shoez", k=10)
    similarities = sorted(hit.score - hit.prior for hit in hits)
    cutoff = ranker.cutoff
    try:
        for k in (1, 3, 10):
            # The most similar of the first ten titles decides, also if it is not shown.
            ranker.cutoff = similarities[-1] - 1e-6
            assert index.search("reds shoez", k).note == ""
            ranker.cutoff = similarities[-1] + 1e-6
            assert index.search("reds shoez", k).note == NO_GOOD_MATCH_NOTE
    finally:
        ranker.cutoff = cutoff


def test_the_parts_of_a_score_are_named():
    titles = ["red shoe box lid", "box of shoes"]
    index = MaxSimIndex.build(ranker_of(example_model()), corpus_of(titles))
    (hit, other) = hits_of(index, "crimson shoe box")
    # The worked example of docs/maxsim.md: 0.896 + 0.3 * 0.663; the pair adds
    # 0.293 / 4.119 + 0.3 * 0.293 / 4.796 = 0.09.
    assert hit.score == approx(1.095, abs=5e-4)
    # Words of the query: (1.718 * .75 + .950 + 1.159) / 4.119 without the pair, .825; of the title
    # .3 * (1.037 * .75 + .950 + 1.159) / 4.796 = .181.
    assert hit.score_breakdown() == (
        "score 1.095, query words +0.825, title words +0.181, pairs +0.089, crimson → red .75"
    )
    parts = hit.title_parts("crimson shoe box", str.split)
    assert parts == [("red", True), ("shoe", True), ("box", True), ("lid", False)]
    assert "shoe unmatched" in other.score_breakdown()


# --------------------------------------------------------------------------- similar words


@pytest.mark.parametrize("limit", [1, 3, 16, 1000])
def test_the_table_has_the_similar_words_of_each_word(ranker, limit):
    index = MaxSimIndex.build(ranker, CORPUS, limit)
    table = index.arrays.similar_rows
    assert table.shape == (len(index.words), min(limit, len(index.words)))
    similar = SimilarWords(ranker.maxsim, index.words, limit)
    for word, row, similarities in zip(index.words, table, index.arrays.similarities, strict=True):
        expected_rows, expected = similar.of_word(word)
        assert row[: len(expected_rows)].tolist() == expected_rows.tolist()
        np.testing.assert_array_equal(similarities[: len(expected)], expected)
        assert not similarities[len(expected) :].any()


def test_only_words_that_no_title_has_are_compared_with_all_words(ranker, monkeypatch):
    index, expected = (MaxSimIndex.build(ranker, CORPUS) for _ in range(2))
    similar_words, compared = index.ranking._queries._similar_words, []
    compare = similar_words.of_vector
    monkeypatch.setattr(
        similar_words,
        "of_vector",
        lambda word, vector: compared.append(word) or compare(word, vector),
    )
    for query in ("red shoe", "shoez red", "box of lids"):
        assert hits_of(index, query) == hits_of(expected, query)
    assert compared == [
        word for word in ("red", "shoe", "shoez", "box", "of", "lids") if word not in index.words
    ]
    assert "shoez" in compared
    assert "red" not in compared


def test_several_threads_can_search_at_once(index):
    expected = {query: hits_of(index, query) for query in QUERIES}
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda query: (query, hits_of(index, query)), QUERIES * 50))
    for query, hits in results:
        assert hits == expected[query]
