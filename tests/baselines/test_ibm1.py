import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.ibm1 import translate
from dssm_tf.baselines.terms import Terms
from tests.reference import translation as reference

TWO_PAIRS = [("das haus", "the house", 1.0), ("das buch", "the book", 3.0)]


def learned(pairs, iterations):
    """The table as a function of source and target word, and the likelihoods."""
    sources, targets, weights = zip(*pairs, strict=True)
    terms = Terms.of([*sources, *targets])
    told = []
    found = translate(
        terms.tokens(sources),
        terms.tokens(targets),
        np.array(weights),
        iterations=iterations,
        step_done=lambda *step: told.append(step),
    )
    assert told == list(enumerate(found.log_likelihoods[:-1], start=1))
    table = found.table.toarray()
    rows = terms.ids
    return lambda source, target: table[rows[source], terms.ids[target]], found.log_likelihoods


def test_two_pairs_by_hand_after_one_step():
    # Every target word is shared equally by the two source words of its pair, and the second pair
    # counts three times. "das": the 1/2 + 3/2, house 1/2, book 3/2, in all 4. "haus": the 1/2,
    # house 1/2.
    p, _ = learned(TWO_PAIRS, 1)
    assert [p("das", f) for f in ("the", "house", "book")] == pytest.approx([1 / 2, 1 / 8, 3 / 8])
    assert [p("haus", f) for f in ("the", "house", "book")] == pytest.approx([1 / 2, 1 / 2, 0])


TEXT = st.lists(st.sampled_from("abcde"), min_size=1, max_size=5)
PAIRS = st.lists(st.tuples(TEXT, TEXT, st.sampled_from([1.0, 2.5, 7.0])), min_size=1, max_size=6)


@given(PAIRS, st.integers(1, 6))
def test_em_equals_the_definition_never_falls_and_sums_to_one(pairs, iterations):
    expected, likelihoods = reference.ibm1(pairs, iterations, empty_word=False)
    p, found = learned([(" ".join(s), " ".join(t), c) for s, t, c in pairs], iterations)
    assert found == pytest.approx(likelihoods)
    assert (np.diff(found) >= -1e-12).all()
    words = {word for *texts, _ in pairs for text in texts for word in text}
    for source, row in expected.items():
        ours = [p(source, word) for word in words]
        assert ours == pytest.approx([row.get(word, 0.0) for word in words])
        assert sum(ours) == pytest.approx(1)
