"""The unigram language model: scores by hand and by definition."""

import math
from collections import Counter
from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.baselines.ulm import ULM
from tests.baselines.cases import CORPUS, TEXT, joined
from tests.reference.query_likelihood import unigram_score

TITLES = ["red shoe", "red red hat", "blue hat box"]


def test_a_score_by_hand():
    # 8 words in all, "red" 3 times, "hat" twice; in "red red hat" with mu = 4:
    # p(red|D) = (2 + 4 * 3/8) / (3 + 4) = 3.5 / 7, p(hat|D) = (1 + 4 * 2/8) / 7 = 2 / 7
    score = ULM(mu=4).fit([], TITLES).score("red hat", TITLES)[1]
    assert score == approx(math.log(3.5 / 7) + math.log(2 / 7))


@given(CORPUS, TEXT, TEXT, st.sampled_from([0.5, 10.0, 2000.0]))
def test_scores_equal_the_definition_inside_and_outside_the_corpus(corpus, query, other, mu):
    collection = Counter(chain.from_iterable(corpus))
    titles = [*corpus, other, []]
    scores = ULM(mu=mu).fit([], joined(corpus)).score(" ".join(query), joined(titles))
    expected = [unigram_score(query, title, collection, mu) for title in titles]
    assert scores == approx(np.array(expected), rel=1e-9, abs=1e-9)
