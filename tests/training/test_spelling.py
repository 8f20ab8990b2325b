"""Letters that learn to spell known words."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED, TextRules
from dssm_tf.text.typos import with_typo
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.training import spelling
from dssm_tf.training.spelling import (
    Adam,
    columns_of,
    draw_spellings,
    draw_words,
    learn_spelling,
    misspelled_rows,
    spelling_loss,
)
from dssm_tf.training.word_rows import WordRows
from tests.numerical_gradients import numerical_gradient

WORDS = [
    "hammer", "drill", "wrench", "bucket", "ladder", "window", "screw", "washer",
    "faucet", "shower", "toilet", "sink", "cabinet", "door", "handle", "knob",
    "hinge", "paint", "brush", "roller", "bracket", "angle", "pipe", "valve",
    "switch", "outlet", "cable", "lamp", "bulb", "fan", "ceiling", "floor",
    "tile", "carpet", "grout", "cement", "brick", "lumber", "plywood", "nail",
    "staple", "glue", "tape", "ruler", "level", "saw", "blade", "sander",
    "router", "vise", "clamp", "pliers", "socket", "ratchet", "a", "ox",
]  # fmt: skip


def vocabulary_of(words, own=None, rules=FOLDED):
    ngrams = dict.fromkeys(ngram for word in words for ngram in letter_ngrams(word))
    return Vocabulary(ngrams, rules).with_words(words if own is None else own)


def random_kernel(vocabulary, columns=16, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(1 + vocabulary.size, columns)).astype(np.float32)


def unit_vectors(kernel, vocabulary, words):
    vectors = np.array([kernel[[*vocabulary.look_up(word)]].sum(axis=0) for word in words])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def learn(kernel, vocabulary, words=WORDS, **settings):
    settings = {"rounds": 3, "seed": 0, "quiet": True} | settings
    return learn_spelling(kernel, vocabulary, words, [1] * len(words), **settings)


@pytest.mark.parametrize("words_per_step", [8, 1024])
@pytest.mark.parametrize("rules", [FOLDED, TextRules(False, hash_buckets=50)])
def test_known_words_keep_their_vectors_and_misspelled_ones_come_near(
    monkeypatch, words_per_step, rules
):
    monkeypatch.setattr(spelling, "WORDS_PER_STEP", words_per_step)
    vocabulary = vocabulary_of(WORDS, rules=rules)
    before = random_kernel(vocabulary)
    before[[*vocabulary.whole_words.values()]] *= 3  # a word's vector is mostly its own row
    after = learn(before, vocabulary, rounds=10)
    known = [word for word in WORDS if len(word) > 1]
    vectors = unit_vectors(before, vocabulary, known)
    assert unit_vectors(after, vocabulary, known) == pytest.approx(vectors, abs=1e-5)

    long_words = [word for word in WORDS if len(word) > 4]

    def similarities(kernel):
        # Training draws typing errors with seeds from 1; this has seed 0.
        misspelled = unit_vectors(kernel, vocabulary, map(with_typo, long_words))
        return (misspelled * unit_vectors(before, vocabulary, long_words)).sum(axis=1)

    rises = similarities(after) - similarities(before)
    assert rises.mean() > 0.1
    assert (rises > 0).mean() > 0.9


def test_words_of_the_vocabulary_that_are_not_listed_keep_their_vectors_too():
    vocabulary = vocabulary_of(WORDS)
    before = random_kernel(vocabulary)
    after = learn(before, vocabulary, WORDS[:9])
    known = [word for word in WORDS if len(word) > 1]
    expected = unit_vectors(before, vocabulary, known)
    assert unit_vectors(after, vocabulary, known) == pytest.approx(expected, abs=1e-5)


def test_words_of_a_further_field_keep_their_vectors():
    words = ["1␟hammer", "1␟drill", "hammer"]
    vocabulary = vocabulary_of(words)
    before = random_kernel(vocabulary)
    after = learn(before, vocabulary, words)
    expected = unit_vectors(before, vocabulary, words)
    assert unit_vectors(after, vocabulary, words) == pytest.approx(expected, abs=1e-5)
    assert np.abs(after - before).max() > 0.01


def test_a_known_word_without_known_letters_keeps_its_row():
    vocabulary = vocabulary_of(["hammer", "drill"]).with_words(["xyz"])
    before = random_kernel(vocabulary)
    after = learn(before, vocabulary, ["hammer", "drill", "xyz"])
    row = vocabulary.whole_words["#xyz#"]
    np.testing.assert_array_equal(after[row], before[row])


def test_a_vocabulary_without_own_rows_returns_the_matrix():
    vocabulary = vocabulary_of(WORDS, own=[])
    kernel = random_kernel(vocabulary)
    assert learn(kernel, vocabulary) is kernel


def test_without_rounds_the_matrix_stays():
    vocabulary = vocabulary_of(WORDS)
    kernel = random_kernel(vocabulary)
    assert learn(kernel, vocabulary, rounds=0) == pytest.approx(kernel, abs=1e-5)


def test_a_single_word_has_no_other_word_to_be_distinguished_from():
    vocabulary = vocabulary_of(["hammer"])
    kernel = random_kernel(vocabulary)
    # Its softmax is 1, so that the gradient is zero.
    assert learn(kernel, vocabulary, ["hammer"]) == pytest.approx(kernel, abs=1e-5)


def test_the_result_depends_on_the_seed_alone():
    vocabulary = vocabulary_of(WORDS)
    kernel = random_kernel(vocabulary)
    before = kernel.copy()
    first, again = learn(kernel, vocabulary), learn(kernel, vocabulary)
    np.testing.assert_array_equal(kernel, before)
    np.testing.assert_array_equal(first, again)
    assert first.dtype == np.float32
    assert np.abs(first - learn(kernel, vocabulary, seed=1)).max() > 0.01


def test_only_rows_of_letters_and_words_change():
    vocabulary = Vocabulary(["zzz", *vocabulary_of(WORDS).ngrams], FOLDED)
    before = random_kernel(vocabulary)
    after = learn(before, vocabulary)
    np.testing.assert_array_equal(after[:2], before[:2])  # padding, and letters of no word


def test_a_matrix_of_another_vocabulary_is_refused():
    vocabulary = vocabulary_of(WORDS)
    with pytest.raises(ValueError, match=r"expected \d+ rows, one per id of the vocabulary"):
        learn(random_kernel(vocabulary)[1:], vocabulary)


def test_words_are_drawn_in_proportion_to_their_weights(monkeypatch):
    monkeypatch.setattr(spelling, "WORDS_PER_STEP", 1)
    drawn = draw_words(np.array([1.0, 2.0, 5.0]), 4000, np.random.default_rng(0))
    # The standard deviation of such a fraction is at most sqrt(1 / 4 / 4000) = .008.
    assert np.bincount(drawn.ravel()) / 4000 == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.03)
    monkeypatch.setattr(spelling, "WORDS_PER_STEP", 2)
    drawn = draw_words(np.array([1.0, 2.0, 5.0]), 50, np.random.default_rng(0))
    assert drawn.shape == (50, 2)
    assert (drawn[:, 0] != drawn[:, 1]).all()


def test_weights_are_square_roots_of_the_title_counts_of_words_with_letters(monkeypatch):
    weights = []

    def record(*arguments):
        weights.extend(arguments[0])
        return draw_words(*arguments)

    monkeypatch.setattr(spelling, "draw_words", record)
    vocabulary = vocabulary_of(["hammer", "drill", "saw", "fan"]).with_words(["xyz"])
    words, counts = ["fan", "b", "xyz", "hammer", "drill"], [0, 16, 100, 4, 9]
    kernel = random_kernel(vocabulary)
    learn_spelling(kernel, vocabulary, words, counts, rounds=1, seed=0, quiet=True)
    # In the order of the vocabulary: hammer, drill, saw (not listed), fan (in no title).
    assert weights == [2, 3, 1, 1]


def test_words_whose_vector_is_zero_are_left_out():
    vocabulary = vocabulary_of(WORDS)
    kernel = random_kernel(vocabulary)
    kernel[[*vocabulary.look_up("hammer")]] = 0
    assert np.isfinite(learn(kernel, vocabulary)).all()
    kernel[:] = 0
    np.testing.assert_array_equal(learn(kernel, vocabulary), kernel)


def test_frequent_words_are_learned_better(monkeypatch):
    monkeypatch.setattr(spelling, "WORDS_PER_STEP", 4)
    vocabulary = vocabulary_of(WORDS)
    before = random_kernel(vocabulary)
    before[[*vocabulary.whole_words.values()]] *= 9
    rare, frequent = WORDS[:20], WORDS[20:40]
    counts = [100_000 if word in frequent else 0 for word in WORDS]
    after = learn_spelling(before, vocabulary, WORDS, counts, rounds=5, seed=0, quiet=True)

    def cosine(kernel, words):
        letters = kernel.copy()
        letters[[*vocabulary.whole_words.values()]] = 0
        spelled = unit_vectors(letters, vocabulary, words)
        return (spelled * unit_vectors(before, vocabulary, words)).sum(axis=1).mean()

    rises = [cosine(after, words) - cosine(before, words) for words in (frequent, rare)]
    assert rises[0] > 2 * rises[1]


def test_a_misspelled_word_has_the_rows_of_its_letters_only():
    vocabulary = vocabulary_of([*WORDS, "hamer"])
    word_rows = WordRows(vocabulary)
    # "hamer" is a known word; an error that gives it is not made.
    correct = [*vocabulary.look_up("hammer")[:-1]]
    for number in range(1, 40):
        misspelled = with_typo("hammer", number)
        expected = correct if misspelled == "hamer" else [*vocabulary.look_up(misspelled)]
        assert misspelled_rows("hammer", number, word_rows) == expected
    assert "hamer" in {with_typo("hammer", seed) for seed in range(1, 40)}
    assert misspelled_rows("ox", 3, word_rows) == [*vocabulary.look_up("ox")[:-1]]  # too short


def test_each_drawn_word_has_one_of_its_spellings():
    vocabulary = vocabulary_of(WORDS)
    word_rows = WordRows(vocabulary)
    names = ["hammer", "drill", "ox"]
    drawn = np.array([[0, 2], [1, 0]] * 400)
    spellings = draw_spellings(
        names, drawn, word_rows, 1 + vocabulary.size, np.random.default_rng(0)
    )
    assert spellings.drawn.shape == drawn.shape
    for index, name in enumerate(names):
        numbers = np.unique(spellings.drawn[drawn == index])
        assert len(numbers) == spelling.SPELLINGS  # all of them in 400 draws or more
        last_trigram = [*vocabulary.look_up(name)[len(name) - 1 : len(name)]]
        # Only an error at one of the two letters before the last can change the last trigram.
        assert spellings.counts[numbers][:, last_trigram].sum() >= spelling.SPELLINGS / 2


def test_columns_are_those_of_the_matrix_in_the_same_order():
    counts = scipy.sparse.csr_matrix(np.array([[0, 2, 0, 1], [0, 0, 0, 3]], np.float32))
    received = columns_of(counts, np.array([1, 3]))
    assert received.toarray().tolist() == [[2, 1], [0, 3]]
    assert np.shares_memory(received.data, counts.data)


def test_the_loss_of_right_spellings_is_that_of_their_margin():
    letters = np.eye(2)
    counts = scipy.sparse.csr_matrix(3 * np.eye(2))  # the length of a sum does not matter
    loss, gradient = spelling_loss(letters, counts, np.eye(2), np.ones((2, 2), bool))
    # Cosines 1 and 0: softmax = 1 / (1 + exp(-15)).
    assert loss == pytest.approx(np.log1p(np.exp(-15)), rel=1e-6)
    assert gradient.shape == letters.shape


def test_the_gradient_is_the_slope_of_the_loss():
    random = np.random.default_rng(0)
    letters = random.normal(size=(7, 4))
    counts = random.integers(0, 3, (5, 7)).astype(float)
    counts[4] = 0  # a spelling without known letters
    counts = scipy.sparse.csr_matrix(counts)
    targets = random.normal(size=(5, 4))
    targets /= np.linalg.norm(targets, axis=1, keepdims=True)
    mask = random.random((5, 4)) > 0.3
    _, gradient = spelling_loss(letters, counts, targets, mask)
    expected = numerical_gradient(lambda: spelling_loss(letters, counts, targets, mask)[0], letters)
    assert gradient == pytest.approx(expected, abs=1e-7)


def test_a_spelling_far_from_its_word_has_a_finite_loss():
    letters = np.array([[1.0, 0], [-1, 0]], np.float32) * np.float32(1e3)
    counts = scipy.sparse.csr_matrix(np.eye(2, dtype=np.float32))
    targets = np.array([[-1, 0], [1, 0]], np.float32)  # exchanged
    loss, gradient = spelling_loss(letters, counts, targets, np.ones((2, 2), bool))
    # Cosines -1 and 1: -log(softmax) = 2 * 15 + log(1 + exp(-30)).
    assert loss == pytest.approx(30, rel=1e-5)
    assert np.isfinite(gradient).all()


def test_adam_takes_the_steps_of_its_paper(monkeypatch):
    monkeypatch.setattr(Adam, "_BLOCK", 4)
    random = np.random.default_rng(0)
    values = random.normal(size=(3, 2))
    expected, mean, variance = values.copy(), 0.0, 0.0
    adam = Adam(values, 0.005)
    for step in range(1, 6):
        gradient = random.normal(size=values.shape)
        mean = 0.9 * mean + 0.1 * gradient
        variance = 0.999 * variance + 0.001 * gradient**2
        corrected = mean / (1 - 0.9**step), variance / (1 - 0.999**step)
        expected -= 0.005 * corrected[0] / (np.sqrt(corrected[1]) + 1e-7)
        adam.update(gradient)
        assert values == pytest.approx(expected, abs=1e-12)
