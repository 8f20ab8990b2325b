"""Words of a query that the corpus lacks, and the ones that may have been meant."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.server.corpus_words import CorpusWords, Suggestion, likeness

TITLES = ["Grand Canyon", "Grand Prix", "the grand hotel", "Cannon Ball", "Australia", "union"]


def test_a_word_is_known_in_any_spelling_of_its_title():
    known = CorpusWords(TITLES)
    assert "grand" in known
    assert "canyon" in known
    assert "canion" not in known
    assert "Grand" not in known  # words come as the rules of the package read them


def test_likeness_is_the_share_of_trigrams_that_both_have():
    # #au aus ust str tra rai ail ili lia ia# and #au aus ust str tra ral ali lia ia#: 7 in common
    # of 10 and 9.
    assert likeness("austrailia", "australia") == approx(2 * 7 / 19)
    # Repetitions count: #aa aaa aaa aa# and #aa aaa aa#.
    assert likeness("aaaa", "aaa") == approx(2 * 3 / 7)


@given(one=st.text("abc", min_size=1, max_size=6), other=st.text("abc", min_size=1, max_size=6))
def test_likeness_is_symmetric_and_whole_for_a_word_itself(one, other):
    assert likeness(one, other) == likeness(other, one)
    assert 0 <= likeness(one, other) <= likeness(one, one) == 1


def test_the_likest_words_are_suggested_and_no_others():
    known = CorpusWords(TITLES)
    assert known.nearest("austrailia") == [Suggestion("australia", 1)]
    # union shares #nion# with it, but fewer letters in order.
    assert [one.word for one in known.nearest("canion")] == ["cannon", "canyon", "union"]
    assert [one.word for one in known.nearest("canion", most=1)] == ["cannon"]
    assert known.nearest("grnad") == []
    assert known.nearest("zzz") == []
    assert known.nearest("grands") == [Suggestion("grand", 3)]


def test_looking_for_a_word_adds_none():
    known = CorpusWords(TITLES)
    before = len(known._holding)
    known.nearest("xylophone")
    assert len(known._holding) == before
