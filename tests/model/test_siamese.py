"""Two towers and a cosine: values, sharing, gradients, round trip and training."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.common.tf_data_options import WITHOUT_AUTOTUNING
from dssm_tf.losses import ClickSoftmax
from dssm_tf.model.siamese import Siamese
from dssm_tf.scores.score import normalize_vectors
from dssm_tf.towers.dssm import DSSM
from dssm_tf.towers.lstm import LSTMRNN
from tests.labels import unmasked_labels
from tests.reference import click_softmax as reference
from tests.reference.letter_trigrams import text_batch, trigrams
from tests.rounding import rounding_bound

QUERIES = [["cat"], ["dog", "food"], []]
TITLES = [["cats", "and", "dogs"], ["dog", "food"], ["bird", "cage"], []]
CANDIDATES = np.array([[0, 2, 3, 1], [1, 0, 2, 2], [2, 2, 1, 3]], np.int32)
KNOWN = list(dict.fromkeys(t for s in QUERIES + TITLES for word in s for t in trigrams(word)))
INPUTS = {
    "query": text_batch(QUERIES, KNOWN),
    "titles": text_batch(TITLES, KNOWN),
    "candidates": CANDIDATES,
}
# Rounding of a cosine: up to 13 trigrams, 8 and 5 units, with intermediate values up to 2.
TOLERANCE = rounding_bound(26, 2)


def siamese(shared: bool = False, **options) -> Siamese:
    keras.utils.set_random_seed(0)
    towers = [DSSM(len(KNOWN), (8, 5), **options) for _ in range(1 if shared else 2)]
    model = Siamese(*towers)
    model.build()
    return model


@pytest.mark.numeric
@pytest.mark.parametrize("shared", [False, True])
def test_cosines_are_those_of_the_vectors(shared):
    model = siamese(shared)
    queries = np.array(model.query_tower(INPUTS["query"]), np.float64)
    titles = np.array(model.title_tower(INPUTS["titles"]), np.float64)
    expected = np.zeros(CANDIDATES.shape)
    for (row, column), title in np.ndenumerate(CANDIDATES):
        if QUERIES[row] and TITLES[title]:  # an empty text has cosine 0 with everything
            expected[row, column] = reference.cosine(queries[row], titles[title])
    cosines = np.array(model(INPUTS))
    np.testing.assert_allclose(cosines, expected, atol=TOLERANCE)
    assert not cosines[expected == 0].any()


@pytest.mark.numeric
def test_encoded_vectors_have_length_1_and_their_products_are_the_cosines():
    model = siamese(dropout=0.5)
    queries = np.array(model.encode_query(INPUTS["query"]))
    titles = np.array(model.encode_title(INPUTS["titles"]))
    lengths = np.linalg.norm(np.concatenate([queries, titles]), axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 0, 1, 1, 1, 0], atol=TOLERANCE)
    expected = np.take_along_axis(queries @ titles.T, CANDIDATES, axis=1)
    np.testing.assert_allclose(np.array(model(INPUTS)), expected, atol=TOLERANCE)


@pytest.mark.numeric
@pytest.mark.parametrize("shared", [False, True])
def test_in_batch_titles_are_further_columns_with_equal_scores_and_gradients(shared):
    model = siamese(shared)
    columns = np.hstack([CANDIDATES, np.tile(np.arange(3), (3, 1))])
    upstream = np.random.default_rng(2).normal(size=columns.shape)
    results = []
    for inputs in (
        INPUTS | {"candidates": columns},
        INPUTS | {"in_batch": np.arange(3, dtype=np.int32)},
    ):
        with tf.GradientTape() as tape:
            scores = model(inputs)
            total = tf.reduce_sum(scores * upstream)
        results.append([scores, *tape.gradient(total, model.trainable_variables)])
    for expected, actual in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, atol=TOLERANCE)
    empty = model(INPUTS | {"in_batch": np.arange(0, dtype=np.int32)})
    np.testing.assert_array_equal(empty, model(INPUTS))


@pytest.mark.numeric
@pytest.mark.parametrize("training", [False, True])
def test_sparse_products_change_no_score_and_no_gradient(training):
    model = siamese(shared=True, dropout=0.3, ngram_dropout=0.2)
    results = []
    for sparse in (False, True):
        model.set_sparse_products(sparse)
        seeds = [variable for variable in model.variables if "seed" in variable.path]
        for seed in seeds:  # equal dropout
            seed.assign([0, 1])
        with tf.GradientTape() as tape:
            scores = model(INPUTS, training=training)
            total = tf.reduce_sum(scores * np.arange(12.0).reshape(3, 4))
        results.append([scores, *tape.gradient(total, model.trainable_variables)])
    assert seeds
    for expected, actual in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, atol=20 * TOLERANCE)


def in_length_groups(texts) -> dict:
    """Texts of at most one word in one matrix, longer ones in another; words in two matrices."""
    batch = text_batch(texts, KNOWN)
    lengths = (batch["tokens"] > 0).sum(1)
    short, long = np.flatnonzero(lengths <= 1), np.flatnonzero(lengths > 1)
    return {
        "word_ngrams": (batch["word_ngrams"][:2], batch["word_ngrams"][2:]),
        "tokens": (batch["tokens"][short, :1], batch["tokens"][long]),
        "rows": np.argsort(np.concatenate([short, long])).astype(np.int32),
    }


@pytest.mark.numeric
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("form", ["plain", "joint", "length groups"])
def test_sparse_products_in_a_graph_equal_gathered_rows_for_every_form_of_batch(form, policy):
    model = siamese(shared=True, dtype=policy)
    inputs = {
        "plain": INPUTS,
        "joint": {"texts": text_batch(QUERIES + TITLES, KNOWN), "candidates": CANDIDATES},
        "length groups": INPUTS
        | {"query": in_length_groups(QUERIES), "titles": in_length_groups(TITLES)},
    }[form]

    def scores_and_gradients(sparse: bool):
        model.set_sparse_products(sparse)
        with tf.GradientTape() as tape:
            scores = model(inputs)
            total = tf.reduce_sum(scores * np.arange(12.0).reshape(3, 4))
        return [scores, *tape.gradient(total, model.trainable_variables)]

    gathered, sparse = scores_and_gradients(False), tf.function(scores_and_gradients)(True)
    # A number of bfloat16 has 8 bits; the terms of a gradient are up to 18, scores at most 1.
    tolerance = 20 * TOLERANCE if policy == "float32" else 2.0**-6
    tolerances = [tolerance] + [18 * tolerance] * len(gathered[1:])
    for expected, actual, atol in zip(gathered, sparse, tolerances, strict=True):
        assert np.array(expected).any()
        np.testing.assert_allclose(actual, expected, atol=atol)


class Turned(DSSM):
    """A DSSM whose `encode` turns the vector of each text."""

    def encode(self, words, present):
        vectors = super().encode(words, present)
        return vectors + keras.ops.roll(vectors, 1, axis=1) ** 2


@pytest.mark.numeric
def test_sparse_products_do_not_skip_the_encode_method_of_a_subclass():
    keras.utils.set_random_seed(0)
    model = Siamese(Turned(len(KNOWN), (8, 5)))
    model.build()
    gathered = np.array(model(INPUTS))
    model.set_sparse_products(True)
    np.testing.assert_allclose(np.array(model(INPUTS)), gathered, atol=20 * TOLERANCE)
    plain = Siamese(DSSM(len(KNOWN), (8, 5)))
    plain.build()
    plain.set_weights(model.get_weights())
    assert not np.allclose(np.array(plain(INPUTS)), gathered, atol=1e-3)


def test_a_shared_tower_learns_from_queries_and_titles():
    model = siamese(shared=True)
    assert model.title_tower is model.query_tower
    assert len(model.trainable_variables) == len(model.query_tower.trainable_variables)
    kernel = model.query_tower.hashing.kernel
    only_query = KNOWN.index("at#") + 1  # in "cat", in no title
    only_title = KNOWN.index("#bi") + 1  # in "bird", in no query
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(model(INPUTS))
    gradient = np.array(tape.gradient(total, kernel.value))
    assert gradient[only_query].any()
    assert gradient[only_title].any()


@pytest.mark.numeric
def test_a_shared_tower_reads_queries_and_titles_in_a_joint_text_batch():
    model = siamese(shared=True)
    joint = {"texts": text_batch(QUERIES + TITLES, KNOWN), "candidates": CANDIDATES}
    np.testing.assert_allclose(np.array(model(joint)), np.array(model(INPUTS)), atol=TOLERANCE)
    with pytest.raises(ValueError, match="two towers"):
        siamese()(joint)


def test_the_paths_of_variables_have_the_name_of_their_tower():
    # So a weights file has the tower of each matrix.
    paths = [variable.path for variable in siamese().trainable_variables]
    assert sum("query_tower" in path for path in paths) == len(paths) / 2
    assert sum("title_tower" in path for path in paths) == len(paths) / 2


@pytest.mark.numeric
def test_the_gradient_of_the_cosine_is_the_paper_s():
    """Palangi et al. 2016, eq. 12 and 15, and eq. 11 through the last tanh."""
    s_q, s_d = np.random.default_rng(0).normal(size=(2, 5, 6))
    sums = [tf.Variable(s, dtype=tf.float32) for s in (s_q, s_d)]
    with tf.GradientTape() as tape:
        vectors = [tf.tanh(total) for total in sums]
        tape.watch(vectors)
        cosines = tf.reduce_sum(normalize_vectors(vectors[0]) * normalize_vectors(vectors[1]), 1)
    values = [cosines, *tape.gradient(cosines, [*vectors, *sums])]
    for *row, y_q, y_d in zip(*map(np.array, values), np.tanh(s_q), np.tanh(s_d), strict=True):
        expected = [
            reference.cosine(y_q, y_d),
            *reference.cosine_gradients(y_q, y_d),
            *reference.tanh_cosine_gradients(y_q, y_d),
        ]
        for value, expected_value in zip(row, expected, strict=True):
            np.testing.assert_allclose(value, expected_value, atol=TOLERANCE)


@pytest.mark.numeric
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_cosines_are_float32_in_mixed_precision(policy):
    cosines = siamese(dtype=policy)(INPUTS)
    assert cosines.dtype == tf.float32
    np.testing.assert_allclose(np.array(cosines), np.array(siamese()(INPUTS)), atol=0.05)


def test_towers_of_different_lengths_and_layers_that_are_no_towers_are_refused():
    with pytest.raises(ValueError, match="lengths 5 and 4; a cosine needs equal lengths"):
        Siamese(DSSM(len(KNOWN), (8, 5)), LSTMRNN(len(KNOWN), 4))
    with pytest.raises(ValueError, match="received a Dense as a tower"):
        Siamese(DSSM(len(KNOWN), (8, 5)), keras.layers.Dense(5))


@pytest.mark.long
@pytest.mark.parametrize(
    ("tower", "sizes", "policy", "jit"),
    [(LSTMRNN, 8, "float32", True), (DSSM, (16, 8), "mixed_float16", False)],
)
def test_compile_and_fit_learn_to_rank_the_clicked_title_first(tower, sizes, policy, jit):
    inputs = {
        "query": text_batch(QUERIES[:2], KNOWN),
        "titles": text_batch(TITLES[:3], KNOWN),
        "candidates": np.array([[0, 1, 2], [1, 0, 2]], np.int32),
    }
    data = tf.data.Dataset.from_tensors((inputs, unmasked_labels(inputs["candidates"])))
    data = data.repeat().with_options(WITHOUT_AUTOTUNING)
    keras.utils.set_random_seed(0)
    model = Siamese(*(tower(len(KNOWN), sizes, dtype=policy) for _ in range(2)))
    model.compile(keras.optimizers.Adam(0.02), ClickSoftmax(), jit_compile=jit)
    fitted = model.fit(data, epochs=4, steps_per_epoch=15, shuffle=False, verbose=0)
    history = fitted.history["loss"]
    # Guessing among three titles has a loss of log 3 = 1.1 nats.
    assert history[-1] < 0.05 < history[0] < 1.1
    assert (np.array(model(inputs)).argmax(axis=1) == 0).all()
