"""PTM: phrase tables, segmentation by dynamic programming, and the mixture with words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.ptm import PTM
from dssm_tf.baselines.wtm import WTM
from dssm_tf.text.rules import FOLDED
from tests.baselines import cases
from tests.baselines.cases import QUERIES, TITLES
from tests.reference import translation as reference

CLICKS = [*cases.CLICKS, ("black ops", "Call of Duty: Black Ops", 2.0), ("2 reach", "2 reach", 1.0)]


@pytest.fixture(scope="module")
def model():
    return PTM().fit(CLICKS, TITLES)


def as_dicts(table, rows, columns):
    """A sparse table of probabilities as `{row: {column: probability}}`."""
    return {
        name: {
            columns[index]: probability
            for index, probability in zip(row.indices, row.data, strict=True)
        }
        for name, row in zip(rows, table, strict=True)
    }


def phrase_table(model):
    """The phrase translations by their words.

    A phrase's key is a number whose digits are the word ids plus one, in base vocabulary size + 1.
    """

    def phrase(key):
        rest, digit = divmod(int(key), len(model.learned.terms) + 1)
        return [*(phrase(rest) if rest else []), model.learned.terms.words[digit - 1]]

    phrases = (
        [" ".join(phrase(key)) for key in keys]
        for keys in (model.learned.title_phrases, model.learned.query_phrases)
    )
    return as_dicts(model.learned.bi_phrases, *phrases)


WORDS = sorted({word for query, title, _ in CLICKS for word in FOLDED.words(f"{query} {title}")})
PHRASES = [*WORDS, "call of duty", "2 reach"]
TEXT = st.lists(st.sampled_from(PHRASES), max_size=6).map(" ".join).map(str.split)


@given(
    st.lists(TEXT, min_size=1, max_size=3),
    st.lists(TEXT, min_size=1, max_size=3),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([0.05, 0.95]),
)
def test_dynamic_programming_equals_trying_all_segmentations(queries, titles, longest, fraction):
    model = PTM(phrase_weight=1.0, phrase_fraction=fraction, longest=longest).fit(CLICKS, TITLES)
    known = model.learned.terms.words
    tables = as_dicts(model.learned.translations, known, known), phrase_table(model)
    background = dict(zip(known, model._background, strict=True))
    settings = {"mu": model.mu, "self_weight": model.self_weight}
    settings |= {"phrase_fraction": fraction, "longest": longest}
    scores = model.score_matrix(list(map(" ".join, queries)), list(map(" ".join, titles)))
    expected = [
        [
            reference.phrase_likelihood(query, title, *tables, background, **settings)
            for title in titles
        ]
        for query in queries
    ]
    assert scores == pytest.approx(np.array(expected))


def test_the_score_mixes_the_phrases_with_the_word_model(model):
    word_scores = WTM().fit(CLICKS, TITLES).score_matrix(QUERIES, TITLES)
    phrase_scores = model.with_parameters(phrase_weight=1.0).score_matrix(QUERIES, TITLES)
    for weight in (0.0, 0.4):
        mixed = model.with_parameters(phrase_weight=weight).score_matrix(QUERIES, TITLES)
        assert mixed == pytest.approx((1 - weight) * word_scores + weight * phrase_scores)
    assert np.abs(phrase_scores - word_scores).max() > 0.1


def test_rows_of_the_phrase_table_are_distributions(model):
    assert model.learned.bi_phrases.sum(axis=1) == pytest.approx(1)
    # "black ops" is clicked for "black ops", so "cod" is a translation of "call of duty".
    translations = phrase_table(model)["call of duty"]
    assert max(translations, key=translations.get) == "cod"
