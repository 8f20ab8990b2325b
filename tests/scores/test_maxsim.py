"""The score maxsim in Keras against its definition, in float64."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.model.siamese import Siamese
from dssm_tf.scores import MaxSim
from dssm_tf.scores.maxsim import SCALAR_RATE
from dssm_tf.towers.dssm import DSSM
from dssm_tf.towers.words import Words
from tests.numerical_gradients import check_gradients
from tests.reference import maxsim as reference
from tests.reference.letter_trigrams import trigrams
from tests.reference.terms import term_batch

QUERIES = [["red", "shoe"], [], ["shoes", "red", "red", "shoe"], ["zzz"], ["box"]]
TITLES = [
    ["red", "shoe"],
    ["box", "of", "red", "shoes", "red", "shoe"],
    [],
    ["zzz"],
    ["blue", "box", "zzz"],
    ["red", "shoe"],
]
WORDS = {"red": 3, "shoe": 3, "box": 2, "of": 1, "shoes": 1, "blue": 1}
PAIRS = {"red shoe": 3, "box of": 2, "shoes red": 2}
TITLE_COUNT = 8
# No letter n-gram of "zzz" is known.
KNOWN = list(dict.fromkeys(ngram for word in WORDS for ngram in trigrams(word)))
ALL_WORDS = {word for text in QUERIES + TITLES for word in text}
IDS = {
    word: [1 + KNOWN.index(ngram) for ngram in trigrams(word) if ngram in KNOWN]
    for word in ALL_WORDS
}


def batch(texts) -> dict:
    return term_batch(texts, KNOWN, TITLE_COUNT, WORDS, PAIRS)


def in_length_groups(texts) -> dict:
    """Texts of at most two words in one matrix, longer ones in another; words likewise."""
    plain = batch(texts)
    tokens, words = plain["tokens"], plain["word_ngrams"]
    lengths, sizes = (tokens > 0).sum(1), (words > 0).sum(1)
    order = np.argsort(sizes > 3, kind="stable")
    new_row = np.argsort(order).astype(np.int32)
    short = np.flatnonzero(lengths <= 2)
    long = np.flatnonzero(lengths > 2)
    return plain | {
        "word_ngrams": (words[order[: (sizes <= 3).sum()], :3], words[order[(sizes <= 3).sum() :]]),
        "word_idf": plain["word_idf"][order],
        "tokens": (new_row[tokens[short, :2]], new_row[tokens[long]]),
        "rows": np.argsort(np.concatenate([short, long])).astype(np.int32),
    }


def random_model(seed: int = 0, dtype: str = "float64", **options) -> Siamese:
    keras.utils.set_random_seed(seed)
    tower = Words(len(KNOWN), units=5, dtype=dtype)
    model = Siamese(tower, score=MaxSim(len(KNOWN), dtype=dtype, name="score", **options))
    model.build()
    generator = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(generator.normal(0, 0.5, variable.shape))
    return model


def oracle(model: Siamese) -> reference.MaxSim:
    score = model.score
    side_weights = SCALAR_RATE * score.side_weights.numpy()
    return reference.MaxSim(
        model.query_tower.hashing.kernel.numpy(),
        score.importance.numpy(),
        [side_weights[0], 0.0] if score.sides == "query" else side_weights,
        SCALAR_RATE * score.pair_bias.numpy(),
        score.threshold,
        IDS,
        TITLE_COUNT,
        WORDS,
        PAIRS,
        *_text_arguments(score),
    )


def _text_arguments(score: MaxSim) -> tuple:
    """The last arguments of the oracle."""
    if not score.text_cosine:
        return ()
    return score.text_hashing.kernel.numpy(), score.text_importance.numpy(), score.text_cosine


def scores(model: Siamese, queries=QUERIES, titles=TITLES, make_batch=batch) -> np.ndarray:
    return np.array(model.score_matrix(make_batch(queries), make_batch(titles)))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sides": "query"},
        {"threshold": 0.0},
        {"threshold": 0.6},
        {"text_cosine": 0.5, "text_units": 4},
        {"text_cosine": 2.0, "text_units": 7, "text_dropout": 0.5, "sides": "query"},
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_definition(seed, options):
    model = random_model(seed, **options)
    definition = oracle(model)
    expected = [[definition.score(query, title) for title in TITLES] for query in QUERIES]
    # The vectors of words are float32.
    np.testing.assert_allclose(scores(model), expected, atol=1e-6)


def test_a_score_by_hand():
    # One feature: every word has the same vector, so all similarities are 1.
    model = Siamese(Words(1, units=1), score=MaxSim(1, threshold=0.2))
    model.build()
    model.query_tower.hashing.kernel.assign([[0.0], [2.0]])
    words = {"word_ngrams": np.array([[0], [1], [1]]), "tokens": np.array([[1, 2]])}
    # One pair, in query and title. All idf are 0, so the weights of words are softplus(0) = ln 2,
    # and those of the pair softplus(-2).
    text = words | {
        "word_idf": np.zeros(3, np.float32),
        "pairs": np.array([[0, 1], [1, 0]], np.int32),
        "pair_idf": np.zeros(2, np.float32),
    }
    # Everything matches: both sides are 1, so the score is 1.0 + 0.3.
    assert float(model.score_matrix(text, text)[0, 0]) == pytest.approx(1.3, abs=1e-6)
    # Without the pair in the title, the query side is 2 ln 2 / (2 ln 2 + softplus(-2)).
    title = text | {"pairs": np.array([[1, 0]], np.int32), "pair_idf": np.zeros(1, np.float32)}
    matched = 2 * np.log(2) / (2 * np.log(2) + np.log1p(np.exp(-2)))
    assert float(model.score_matrix(text, title)[0, 0]) == pytest.approx(matched + 0.3, abs=1e-6)


@pytest.mark.parametrize("text_cosine", [0.0, 0.7])
def test_scores_do_not_depend_on_length_groups_or_on_the_other_texts(text_cosine):
    model = random_model(text_cosine=text_cosine)
    together = scores(model)
    np.testing.assert_allclose(scores(model, make_batch=in_length_groups), together, atol=1e-6)
    for row, query in enumerate(QUERIES):
        for column, title in enumerate(TITLES):
            single = scores(model, [query], [title])[0, 0]
            assert single == pytest.approx(together[row, column], abs=1e-6)


@pytest.mark.parametrize("make_batch", [batch, in_length_groups])
def test_sparse_products_change_neither_scores_nor_gradients(make_batch):
    results = []
    for is_sparse in (False, True):
        model = random_model(dtype="float32", text_cosine=0.7)
        model.set_sparse_products(is_sparse)
        assert model.score.text_hashing.uses_sparse_product == is_sparse
        with tf.GradientTape() as tape:
            values = model.score_matrix(make_batch(QUERIES), make_batch(TITLES))
            total = tf.reduce_sum(values**2)
        variables = [variable.value for variable in model.trainable_variables]
        gradients = [tf.convert_to_tensor(value) for value in tape.gradient(total, variables)]
        results.append([values.numpy(), *(gradient.numpy() for gradient in gradients)])
    for dense, sparse in zip(*results, strict=True):
        np.testing.assert_allclose(sparse, dense, atol=1e-5)


def test_in_batch_titles_are_further_columns():
    model = random_model()
    candidates = np.array([[0, 3], [1, 1], [5, 0], [2, 4], [3, 2]], np.int32)
    inputs = {"query": batch(QUERIES), "titles": batch(TITLES), "candidates": candidates}
    both = np.array(model(inputs | {"in_batch": np.arange(4, dtype=np.int32)}))
    every_score = scores(model)
    expected = np.hstack([np.take_along_axis(every_score, candidates, 1), every_score[:, :4]])
    np.testing.assert_allclose(both, expected, atol=1e-6)


@pytest.mark.parametrize("text_cosine", [0.0, 0.7])
def test_equal_titles_tie_and_texts_without_words_have_score_0(text_cosine):
    values = scores(random_model(text_cosine=text_cosine))
    np.testing.assert_array_equal(values[:, 0], values[:, 5])
    assert not values[1].any()
    assert not values[:, 2].any()
    assert np.isfinite(values).all()


def test_a_word_without_a_known_ngram_matches_nothing():
    assert scores(random_model(), [["zzz"]], [["zzz"]]) == 0
    assert scores(random_model(text_cosine=0.7), [["zzz"]], [["zzz"]]) == 0


def test_the_cosine_of_a_text_with_itself_adds_its_factor_by_hand():
    # Side weights of 0 leave only the cosine of the text vectors; equal texts have cosine 1 if the
    # importances of both sides are equal.
    model = random_model(text_cosine=0.4)
    model.score.side_weights.assign([0.0, 0.0])
    model.score.text_importance.assign(np.zeros(model.score.text_importance.shape))
    assert scores(model, [["red", "box"]], [["red", "box"]]) == pytest.approx(0.4, abs=1e-6)
    # One word per text: the cosine is that of two words, whatever their weights.
    kernel = model.score.text_hashing.kernel.numpy()
    words = [kernel[IDS[word]].sum(0) for word in ("red", "box")]
    cosine = words[0] @ words[1] / np.linalg.norm(words[0]) / np.linalg.norm(words[1])
    assert scores(model, [["red"]], [["box"]]) == pytest.approx(0.4 * cosine, abs=1e-6)


def test_dropout_of_text_vectors_changes_scores_in_training_only():
    model = random_model(dtype="float32", text_cosine=0.7, text_dropout=0.5)
    inputs = {
        "query": batch(QUERIES),
        "titles": batch(TITLES),
        "candidates": np.zeros((len(QUERIES), 1), np.int32),
    }
    first, second = (np.array(model(inputs, training=True)) for _ in range(2))
    assert not np.allclose(first, second, atol=1e-3)
    np.testing.assert_array_equal(*(np.array(model(inputs)) for _ in range(2)))


@pytest.mark.parametrize("text_cosine", [0.0, 0.7])
def test_the_gradient_of_every_weight_equals_finite_differences(text_cosine):
    model = random_model(3, text_cosine=text_cosine, text_units=4)
    output_gradient = np.random.default_rng(1).normal(size=(len(QUERIES), len(TITLES)))
    queries, titles = (
        {key: tf.constant(value) for key, value in batch(texts).items()}
        for texts in (QUERIES, TITLES)
    )

    def vectors(texts):
        """Unit vectors in float64; `word_vectors` has float32."""
        words = model.query_tower.hashing(texts["word_ngrams"])
        squares = tf.reduce_sum(words**2, 1, keepdims=True)
        return texts | {"word_vectors": words / tf.sqrt(tf.maximum(squares, 1e-12))}

    @tf.function
    def value():
        return tf.reduce_sum(model.score(vectors(queries), vectors(titles)) * output_gradient)

    gradients = check_gradients(value, model.trainable_variables)
    assert all(gradient.any() for gradient in gradients)


def test_a_word_whose_rows_are_zero_has_no_gradient():
    """A warm start begins with such rows; a huge gradient would spoil Adam's moments."""
    model = random_model(dtype="float32", text_cosine=0.7)
    kernel = model.score.text_hashing.kernel
    rows = kernel.numpy()
    rows[IDS["box"]] = 0
    kernel.assign(rows)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(model.score_matrix(batch([["red"]]), batch([["red", "box"]])))
    gradient = tf.convert_to_tensor(tape.gradient(value, kernel.value)).numpy()
    assert np.abs(gradient).max() < 10
    assert gradient[IDS["red"]].any()
    assert not gradient[IDS["box"]].any()


@pytest.mark.parametrize("text_cosine", [0.0, 0.7])
def test_a_saved_model_has_the_same_scores(tmp_path, text_cosine):
    model = random_model(dtype="float32", threshold=0.3, text_cosine=text_cosine)
    before = scores(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(scores(loaded), before)


def test_dropout_changes_the_vectors_of_words_in_training_only():
    keras.utils.set_random_seed(0)
    tower = Words(len(KNOWN), units=64, dropout=0.5)
    tower.build()
    texts = batch(TITLES)
    first, second = (np.array(tower.word_vectors(texts, training=True)) for _ in range(2))
    assert not np.allclose(first, second, atol=1e-3)
    lengths = np.linalg.norm(np.array(tower.word_vectors(texts)), axis=1)
    # All words but "zzz", and the padding, have a vector.
    assert sorted(lengths) == pytest.approx([0, 0, *[1] * (len(lengths) - 2)], abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 1.0}, "threshold=1.0; expected 0 <= threshold < 1"),
        ({"sides": "title"}, "sides='title'; expected 'both' or 'query'"),
        ({"text_cosine": -0.1}, "text_cosine=-0.1; expected at least 0"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MaxSim(4, **options)


def test_a_model_needs_one_tower_of_words():
    for query_tower, title_tower in ((DSSM(3, [4]), None), (Words(3), Words(3))):
        with pytest.raises(ValueError, match="one shared tower"):
            Siamese(query_tower, title_tower, MaxSim(3))
