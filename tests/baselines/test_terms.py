import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.terms import Terms
from dssm_tf.text.rules import FOLDED

TEXTS = st.lists(st.text(alphabet="ab Á-1", max_size=12), max_size=6)


@given(TEXTS, TEXTS)
def test_counts_and_unknown_words_add_up_to_every_word_of_every_text(known, texts):
    terms = Terms.of(known)
    counts, unknown = terms.count(texts), terms.unknown(texts)
    assert counts.shape == (len(texts), len(terms.words))
    for row, text in enumerate(texts):
        tokens = FOLDED.words(text)
        for word, place in terms.ids.items():
            assert counts[row, place] == tokens.count(word)
        assert counts[row].sum() + unknown[row] == len(tokens)


def test_words_stand_in_alphabetical_order_whatever_the_order_of_texts():
    assert Terms.of(["b c", "a"]).words == Terms.of(["a", "c b"]).words == ("a", "b", "c")


def test_rare_words_are_left_out_on_request():
    # "red" is there 3 times, "hat" twice, "shoe" once.
    assert Terms.of(["red red hat", "Red Hat shoe"], min_count=2).words == ("hat", "red")


def test_entries_of_a_row_stand_in_the_order_of_words_and_none_is_there_twice():
    counts = Terms.of(["a b c"]).count(["c a c b"])
    assert counts.indices.tolist() == [0, 1, 2]
    assert counts.data.tolist() == [1.0, 1.0, 2.0]


def test_saved_and_read_the_words_have_the_same_places():
    terms = Terms.of(["one two three"])
    assert Terms.from_json(terms.to_json()).ids == terms.ids


def test_something_else_than_words_is_refused():
    for wrong in ({"a": 1}, ["a", 1], None):
        with pytest.raises(ValueError, match="expected a list of text"):
            Terms.from_json(wrong)


def test_no_word_at_all_is_no_special_case():
    terms = Terms.of([])
    assert terms.count(["a", ""]).shape == (2, 0)
    assert terms.count([]).shape == (0, 0)
    assert (terms.unknown(["a b", ""]) == np.array([2.0, 0.0])).all()
