"""The terms of a baseline: texts as word ids."""

from dssm_tf.baselines.terms import Terms


def test_tokens_are_word_ids_in_the_order_of_the_text_and_unknown_words_are_negative():
    tokens = Terms.from_texts(["Bé!", "a"]).tokens(["be x a", "", "A a"])
    assert tokens.ids.tolist() == [1, -1, 0, 0, 0]
    assert tokens.starts.tolist() == [0, 3, 3, 5]
    assert tokens.counts.toarray().tolist() == [[1, 1], [0, 0], [2, 0]]
    assert tokens.by_word.toarray().tolist() == [[1, 0, 2], [1, 0, 0]]
