import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.windows import ordered_windows, unordered_windows
from tests.reference import term_dependence as reference

WORDS = ["a", "b", "c"]


def counted(texts, pairs, width=None):
    """Windows of pairs of words in texts, as lists: one list a pair."""
    terms = Terms(WORDS)
    ids = np.array([[terms.ids[word] for word in pair] for pair in pairs])
    tokens = terms.tokens(texts)
    if width is None:
        return ordered_windows(tokens, ids).toarray().tolist()
    return unordered_windows(tokens, ids, width).toarray().tolist()


def test_ordered_windows_by_hand():
    # "a b": places 0-1 and 3-4 of the first text; the second has b before a; in the third a word
    # stands between; the end of one text and the start of the next are not adjacent.
    assert counted(["a b c a b", "b a", "a x b", "a", "b"], [("a", "b")]) == [[2, 0, 0, 0, 0]]
    assert counted(["a a a"], [("a", "a")]) == [[2]]


def test_unordered_windows_by_hand():
    # Window 3 over "a b x x a b": b at 1 sees a at 0; a at 4 is 3 away from b at 1, too far;
    # b at 5 sees a at 4. So 2. In "b a" the a at 1 sees b: 1. "a x b": just inside: 1.
    assert counted(["a b x x a b", "b a", "a x b", "a x x b"], [("a", "b")], 3) == [[2, 1, 1, 0]]
    # Either order asks for the same windows, and unknown words take room.
    assert counted(["a x b"], [("a", "b"), ("b", "a")], 3) == [[1], [1]]
    # A word with itself: the second and the third "a" each have one before them.
    assert counted(["a x a a", "a"], [("a", "a")], 8) == [[2, 0]]


@given(
    st.lists(st.lists(st.sampled_from([*WORDS, "x"]), max_size=12), max_size=5),
    st.lists(st.tuples(*[st.sampled_from(WORDS)] * 2), min_size=1, max_size=5, unique=True),
    st.integers(2, 9),
)
def test_windows_equal_the_definition(texts, pairs, width):
    pairs = sorted(pairs)
    joined = [" ".join(text) for text in texts]
    assert counted(joined, pairs) == [
        [reference.ordered(text, *pair) for text in texts] for pair in pairs
    ]
    assert counted(joined, pairs, width) == [
        [reference.unordered(text, *pair, width) for text in texts] for pair in pairs
    ]
