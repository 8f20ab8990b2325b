"""A vocabulary that extends an earlier one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.text.growth import check_grown, earlier_ids, grow
from dssm_tf.text.letter_ngrams import bucket
from dssm_tf.text.rules import FOLDED, Rules
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
def test_no_known_trigram_moves_and_new_ones_come_from_where_they_were_read(
    ngrams, counts, buckets, text
):
    rules = Rules(False, hash_buckets=buckets)
    before = Vocabulary(ngrams, rules)
    now = grow(before, counts, 99)
    check_grown(before, now, "RUN")
    came_from = earlier_ids(before, now)
    assert len(came_from) == now.size + 1
    for word in text.split():
        earlier = [came_from[i] for i in now.look_up(word)]
        assert [i for i in earlier if i is not None] == list(before.look_up(word))


def test_a_new_trigram_had_the_id_of_its_bucket():
    rules = Rules(False, hash_buckets=4)
    now = Vocabulary(["cat", "dog"], rules)
    assert earlier_ids(Vocabulary(["cat"], rules), now) == [0, 1, 2 + bucket("dog", 4), 2, 3, 4, 5]


def test_another_order_another_trigram_or_fewer_of_them_is_no_extension():
    before = Vocabulary(["cat", "#ca"], FOLDED)
    for ngrams in (["#ca", "cat", "dog"], ["cat", "dog", "#ca"], ["cat"]):
        with pytest.raises(UserError, match="run preprocess with --vocabulary-from RUN"):
            check_grown(before, Vocabulary(ngrams, FOLDED), "RUN")


def test_other_text_rules_are_named():
    with pytest.raises(UserError) as caught:
        Rules(False, max_words=9, hash_buckets=5).check_same(Rules(False, hash_buckets=5), "RUN")
    assert str(caught.value) == (
        "RUN was made with --max-words 9; now it is --max-words 64. Trigrams depend on these text "
        "rules. Run preprocess with the earlier flags."
    )
