"""IBM model 1: expectation-maximization equals the reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.ibm1 import translate
from dssm_tf.baselines.terms import Terms
from tests.reference import translation as reference

TEXT = st.lists(st.sampled_from("abcde"), min_size=1, max_size=5)
PAIRS = st.lists(st.tuples(TEXT, TEXT, st.sampled_from([1.0, 2.5, 7.0])), min_size=1, max_size=6)


@given(PAIRS, st.integers(1, 6))
def test_em_equals_the_reference_and_never_lowers_the_likelihood(pairs, iterations):
    expected, likelihoods = reference.ibm1(pairs, iterations, empty_word=False)
    sources, targets, weights = zip(*pairs, strict=True)
    terms = Terms([word for text in [*sources, *targets] for word in text])
    steps = []
    translation = translate(
        *(terms.tokens([" ".join(text) for text in texts]) for texts in (sources, targets)),
        np.array(weights),
        iterations=iterations,
        on_step_end=lambda *step: steps.append(step),
    )
    assert steps == list(enumerate(translation.log_likelihoods[:-1], start=1))
    assert translation.log_likelihoods == pytest.approx(likelihoods)
    assert (np.diff(likelihoods) >= -1e-12).all()
    for source, row in zip(terms.words, translation.table.toarray(), strict=True):
        known = expected.get(source, {})
        assert row == pytest.approx([known.get(word, 0.0) for word in terms.words])
        assert sum(row) == pytest.approx(float(source in expected))
