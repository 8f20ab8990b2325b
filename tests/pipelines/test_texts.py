"""Functions on columns of texts equal the rules for single texts."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.tables.text_columns import explode_words, fingerprints, normal_forms
from dssm_tf.text.fields import SEPARATOR
from dssm_tf.text.rules import FOLDED, TextRules
from dssm_tf.text.stable_hash import fingerprint64
from dssm_tf.text.vocabulary import Vocabulary

TEXT = st.one_of(
    st.text(st.characters(codec="utf-8")),
    st.text(st.characters(codec="ascii")),
    st.sampled_from(["Ice  Cream!", "Leixões", f"Halo{SEPARATOR}Sony 4{SEPARATOR}", "İ", "ß"]),
)
RULES = st.builds(
    TextRules,
    max_words=st.integers(1, 4),
    max_letters=st.integers(1, 5),
    hash_buckets=st.sampled_from([0, 7]),
    keep_accents=st.booleans(),
    own_fields=st.integers(1, 3),
)


@given(st.lists(TEXT), RULES)
def test_normal_forms_and_their_fingerprints_are_those_of_each_text(texts, rules):
    forms = normal_forms(pl.Series(texts, dtype=pl.String), rules)
    assert forms.to_list() == [rules.key(text) for text in texts]
    hashes = fingerprints(forms).to_list()
    assert hashes == [fingerprint64(form) % 2**64 for form in forms]


@given(st.lists(TEXT), RULES)
def test_words_are_those_of_each_text(texts, rules):
    forms = [form for text in texts if (form := rules.key(text))]
    flat, counts = explode_words(pl.Series(forms, dtype=pl.String), rules)
    expected = [Vocabulary([], rules).words(form) for form in forms]
    assert flat.to_list() == [word for words in expected for word in words]
    assert counts.tolist() == [*map(len, expected)]


@pytest.mark.parametrize("start", [0, 3])
def test_a_sliced_column_is_read_where_it_begins(start):
    texts = pl.Series(["A b", "Ç", "d!", "E", "f␟G"])
    assert normal_forms(texts[start:], FOLDED).to_list() == ["a b", "c", "d", "e", "f␟g"][start:]
