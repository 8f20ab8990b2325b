import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.ptm import PTM
from dssm_tf.baselines.wtm import WTM
from tests.baselines.learned import phrase_translations, translations
from tests.reference import translation as reference

TITLES = ["call of duty black ops", "black box", "duty calls", "modern warfare 3", "hat"]
CLICKS = [
    ("cod black ops", "call of duty black ops", 3.0),
    ("black ops", "call of duty black ops", 2.0),
    ("black ops", "black ops", 4.0),
    ("mw 3", "modern warfare 3", 2.0),
    ("modern warfare", "modern warfare 3", 1.0),
    ("box", "black box", 1.0),
]
QUERIES = ["black ops", "cod", "mw 3 unseen box", "unseen", "", "duty of black"]


@pytest.fixture(scope="module")
def model():
    return PTM().fit(CLICKS, TITLES)


def word_table(model):
    """The word translations as dicts."""
    return {word: translations(model, word) for word in model.terms.words}


def phrase_table(model, titles):
    """The phrase translations of all phrases of some titles as dicts."""
    phrases = {
        " ".join(title.split()[a:b])
        for title in titles
        for a, b in reference.spans(len(title.split()), model.longest)
    }
    return {phrase: phrase_translations(model, phrase) for phrase in phrases}


WORDS = sorted({word for text in [*TITLES, *(q for q, *_ in CLICKS)] for word in text.split()})
TEXT = st.lists(st.sampled_from(WORDS), max_size=6)


@given(
    st.lists(TEXT, min_size=1, max_size=3),
    st.lists(TEXT, min_size=1, max_size=3),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([0.05, 0.95]),
)
def test_dynamic_programming_equals_trying_all_segmentations(queries, titles, longest, share):
    model = PTM(phrase_weight=1.0, phrase_share=share, longest=longest).fit(CLICKS, TITLES)
    background = dict(zip(model.terms.words, model._background, strict=True))
    joined = [" ".join(title) for title in titles]
    words, phrases = word_table(model), phrase_table(model, joined)
    scores = model.score_matrix([" ".join(query) for query in queries], joined)
    for query, row in zip(queries, scores, strict=True):
        expected = [
            reference.phrase_likelihood(
                query,
                title,
                words,
                phrases,
                background,
                mu=model.mu,
                self_weight=model.self_weight,
                phrase_share=share,
                longest=longest,
            )
            for title in titles
        ]
        assert row == pytest.approx(expected)


def test_the_score_mixes_the_phrases_with_the_word_model(model):
    words = WTM().fit(CLICKS, TITLES).score_matrix(QUERIES, TITLES)
    phrases = model.with_parameters(phrase_weight=1.0).score_matrix(QUERIES, TITLES)
    for weight in (0.0, 0.4):
        mixed = model.with_parameters(phrase_weight=weight).score_matrix(QUERIES, TITLES)
        assert mixed == pytest.approx((1 - weight) * words + weight * phrases)
    assert np.abs(phrases - words).max() > 0.1


def test_rows_of_the_phrase_table_sum_to_one(model):
    assert model.bi_phrases.sum(axis=1) == pytest.approx(1)
    # "cod" has nothing else to come from once "black ops" is explained by another pair.
    assert next(iter(phrase_translations(model, "call of duty"))) == "cod"
    assert phrase_translations(model, "duty call") == {}
    assert phrase_translations(model, "") == phrase_translations(model, "unseen") == {}


def test_unreachable_words_are_left_out(model):
    pure = model.with_parameters(phrase_weight=1.0)
    assert (pure.score_matrix(["unseen", "", "?!"], TITLES) == 0).all()
    assert pure.score("unseen box", TITLES) == pytest.approx(pure.score("box", TITLES))


def test_texts_beyond_a_hundred_words_are_learned_from_their_start():
    long = " ".join(f"w{n}" for n in range(300))
    model = PTM().fit([("hat", long, 1.0), *CLICKS], [*TITLES, long])
    assert np.isfinite(model.score_matrix(["hat", long], [*TITLES, long])).all()
