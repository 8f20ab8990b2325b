from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.terms import Terms
from dssm_tf.text.rules import FOLDED

TEXTS = st.lists(st.text(alphabet="ab Á-1", max_size=12), max_size=6)


@given(TEXTS, TEXTS)
def test_every_word_of_every_text_is_counted_and_in_its_place(known, texts):
    terms = Terms.of(known)
    tokens, counts = terms.tokens(texts), terms.count(texts)
    assert counts.shape == tokens.by_word.T.shape == (len(texts), len(terms))
    assert (counts.toarray() == tokens.by_word.T.toarray()).all()
    for row, text in enumerate(texts):
        words = FOLDED.words(text)
        ids = tokens.ids[tokens.starts[row] : tokens.starts[row + 1]]
        assert ids.tolist() == [terms.ids.get(word, -1) for word in words]
        assert tokens.lengths[row] == len(words)
        assert counts[row].toarray()[0].tolist() == [words.count(word) for word in terms.words]


def test_words_stand_in_alphabetical_order_whatever_the_order_of_texts():
    assert Terms.of(["b c", "a"]).words == Terms.of(["a", "c b"]).words == ("a", "b", "c")
