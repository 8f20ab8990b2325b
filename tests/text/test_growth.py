"""A vocabulary that extends an earlier one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.text.growth import check_grown, earlier_ids, grow
from dssm_tf.text.letter_ngrams import bucket
from dssm_tf.text.rules import FOLDED, TextRules
from dssm_tf.text.vocabulary import Vocabulary

_NGRAMS = st.text("abc", min_size=3, max_size=3)


def test_new_trigrams_follow_the_known_ones_by_frequency():
    known = Vocabulary(["cat", "#ca"], FOLDED)
    counts = {"#ca": 9, "dog": 2, "#do": 5, "at#": 2, "og#": 1}
    # 5 first, then the two of 2 in code point order; "og#" is rarer than 2.
    assert grow(known, counts, 99, min_count=2).ngrams == ("cat", "#ca", "#do", "at#", "dog")
    assert grow(known, counts, 3).ngrams == ("cat", "#ca", "#do")
    assert grow(known, counts, 1).ngrams == known.ngrams


@given(
    st.lists(_NGRAMS, unique=True),
    st.dictionaries(_NGRAMS, st.integers(1, 9)),
    st.integers(0, 3),
    st.text("abc d", max_size=30),
)
def test_known_trigrams_keep_their_ids_and_new_ones_map_to_their_earlier_ids(
    ngrams, counts, buckets, text
):
    rules = TextRules(False, hash_buckets=buckets)
    before = Vocabulary(ngrams, rules)
    now = grow(before, counts, 99)
    check_grown(before, now, "RUN")
    ids_before = earlier_ids(before, now)
    assert len(ids_before) == now.size + 1
    for word in text.split():
        earlier = [ids_before[i] for i in now.look_up(word)]
        assert [i for i in earlier if i is not None] == list(before.look_up(word))


def test_the_earlier_id_of_a_new_trigram_is_that_of_its_bucket():
    rules = TextRules(False, hash_buckets=4)
    now = Vocabulary(["cat", "dog"], rules)
    assert earlier_ids(Vocabulary(["cat"], rules), now) == [0, 1, 2 + bucket("dog", 4), 2, 3, 4, 5]


def test_each_kind_of_letter_ngrams_has_a_maximum_of_its_own():
    rules = TextRules(False, letter_ngrams=("pairs", "trigrams"))
    known = Vocabulary(["cat", "#ca", "#cat#", "ca"], rules)
    counts = {"dog": 9, "do": 7, "og": 8, "#do": 3, "#d": 1}
    # Two more pairs and one more trigram; a whole word counts as neither.
    assert grow(known, counts, 3).ngrams == (*known.ngrams, "dog", "og", "do")
    assert grow(known, counts, 2).ngrams == (*known.ngrams, "og")
    assert grow(known, counts, 1).ngrams == known.ngrams


def test_the_error_names_kinds_of_letter_ngrams_that_differ():
    rules = TextRules(False, letter_ngrams=("pairs", "trigrams"))
    with pytest.raises(UserError, match="--letter-ngrams pairs,trigrams; now it is --letter-ngram"):
        rules.check_same(FOLDED, "RUN")


def test_a_vocabulary_with_another_order_or_fewer_trigrams_is_not_an_extension():
    before = Vocabulary(["cat", "#ca"], FOLDED)
    for ngrams in (["#ca", "cat", "dog"], ["cat", "dog", "#ca"], ["cat"]):
        with pytest.raises(UserError, match="run preprocess with --vocabulary-from RUN"):
            check_grown(before, Vocabulary(ngrams, FOLDED), "RUN")


def test_the_error_names_text_rules_that_differ():
    with pytest.raises(UserError) as caught:
        TextRules(False, max_words=9, hash_buckets=5).check_same(
            TextRules(False, hash_buckets=5), "RUN"
        )
    assert str(caught.value) == (
        "RUN was made with --max-words 9; now it is --max-words 64. Letter n-grams depend on these "
        "text rules. Run preprocess with the earlier flags."
    )
