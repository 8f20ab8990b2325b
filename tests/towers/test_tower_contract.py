"""The contract of every tower."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.model.siamese import Siamese
from dssm_tf.towers.tower import Tower
from tests.components import (
    TOWER_CLASSES,
    TOWER_CONFIGS,
    build_tower,
    changed_values,
    defaults,
    small_sizes,
)
from tests.numerical_gradients import check_gradients
from tests.reference.letter_trigrams import text_batch, trigrams
from tests.reference.paper_settings import P16, S14
from tests.rounding import rounding_bound

SENTENCES = [
    ["cat", "and", "dog"],
    [],
    ["dog"],
    ["catalog", "of", "cats", "and", "dogs", "and", "cats"],
    ["cat", "and", "dog"],
    ["dog", "and", "cat"],
    ["zzz"],
]
EMPTY = 1
KNOWN = list(
    dict.fromkeys(
        trigram for words in SENTENCES[:-1] for word in words for trigram in trigrams(word)
    )
)
BATCH = text_batch(SENTENCES, KNOWN)
# Rounding of a sum: the longest text has 27 trigrams, with weights of about .4 each.
TOLERANCE = rounding_bound(32, 16)

every_tower = pytest.mark.parametrize("name", TOWER_CONFIGS)
# By default, a tower of sums and a recurrent one.
two_towers_by_default = pytest.mark.parametrize(
    "name",
    [
        name if name in ("dssm", "lstm") else pytest.param(name, marks=pytest.mark.slow)
        for name in TOWER_CONFIGS
    ],
)


def in_length_groups(batch: dict) -> dict:
    """The texts in length groups: short and long words; texts of 1, 2-3 and more words."""
    words, tokens = batch["word_ngrams"], batch["tokens"]
    lengths, sizes = (tokens > 0).sum(1), (words > 0).sum(1)
    word_groups = [np.flatnonzero(sizes <= 3), np.flatnonzero(sizes > 3)]
    new_row = np.argsort(np.concatenate(word_groups)).astype(np.int32)
    text_groups = [np.flatnonzero(np.digitize(lengths, [2, 4]) == group) for group in range(3)]
    return {
        "word_ngrams": (words[word_groups[0], :3], words[word_groups[1]]),
        "tokens": tuple(
            new_row[tokens[rows, : max(lengths[rows].max(), 1)]] for rows in text_groups
        ),
        "rows": np.argsort(np.concatenate(text_groups)).astype(np.int32),
    }


def random_tower(name: str, seed: int = 0, **options) -> Tower:
    """A built tower with random weights and biases."""
    keras.utils.set_random_seed(seed)
    tower = build_tower(name, len(KNOWN), **(small_sizes(TOWER_CONFIGS[name]) | options))
    tower.build()
    generator = np.random.default_rng(seed)
    for variable in tower.trainable_variables:
        variable.assign(generator.normal(0, 0.5, variable.shape))
    return tower


def vectors(tower: Tower, batch=BATCH, **options) -> np.ndarray:
    return np.array(tower(batch, **options))


def vectors_and_gradients(tower: Tower, batch=BATCH) -> list[np.ndarray]:
    """The vectors, and for every weight the gradient of a weighted sum of their numbers."""
    with tf.GradientTape() as tape:
        output = tower(batch)
        weights = tf.linspace(0.5, 1.5, tower.dimension)
        total = tf.reduce_sum(tf.cast(output, tf.float32) * weights)
    gradients = tape.gradient(total, tower.trainable_variables)
    return [output, *map(tf.convert_to_tensor, gradients)]


def assert_same(values, expected_values) -> None:
    for value, expected in zip(values, expected_values, strict=True):
        np.testing.assert_allclose(np.array(value), np.array(expected), atol=TOLERANCE)


@every_tower
def test_vectors_are_finite_and_differ_by_text(name):
    tower = random_tower(name)
    values = vectors(tower)
    assert values.shape == (len(SENTENCES), tower.dimension)
    assert np.isfinite(values).all()
    assert values.dtype == np.float32
    assert not np.allclose(values[0], values[2], atol=1e-3)
    assert not np.allclose(values[0], values[3], atol=1e-3)


@pytest.mark.numeric
@every_tower
def test_texts_in_length_groups_have_the_same_vectors_and_gradients(name):
    tower = random_tower(name)
    assert_same(vectors_and_gradients(tower, in_length_groups(BATCH)), vectors_and_gradients(tower))


@every_tower
def test_the_empty_text_has_a_zero_vector_and_no_gradient(name):
    tower = random_tower(name)
    with tf.GradientTape() as tape:
        empty = tower(BATCH)[EMPTY]
        total = tf.reduce_sum(empty)
    assert not np.array(empty).any()
    for gradient in tape.gradient(total, tower.trainable_variables):
        assert gradient is None or not tf.convert_to_tensor(gradient).numpy().any()
    empty_texts = {"word_ngrams": np.zeros((1, 1), np.int32), "tokens": np.zeros((3, 1), np.int32)}
    assert not vectors(tower, empty_texts).any()


@every_tower
def test_a_text_without_a_known_ngram_has_a_zero_vector_whatever_the_biases(name):
    tower = random_tower(name)
    for batch in (BATCH, in_length_groups(BATCH)):
        values = vectors(tower, batch)
        assert [bool(row.any()) for row in values] == [
            any(trigram in KNOWN for word in words for trigram in trigrams(word))
            for words in SENTENCES
        ]
    assert not values[SENTENCES.index(["zzz"])].any()


@pytest.mark.numeric
@every_tower
def test_vectors_do_not_depend_on_the_layout_of_the_batch_or_on_other_texts(name):
    tower, rows = random_tower(name), len(BATCH["word_ngrams"])
    together = vectors(tower)
    order = np.array([0, *np.random.default_rng(0).permutation(np.arange(1, rows))])
    new_row = np.argsort(order).astype(np.int32)
    shuffled = {
        "word_ngrams": BATCH["word_ngrams"][order, ::-1], "tokens": new_row[BATCH["tokens"]]
    }  # fmt: skip
    np.testing.assert_allclose(vectors(tower, shuffled), together, atol=TOLERANCE)
    for row, sentence in enumerate(SENTENCES):
        single = vectors(tower, text_batch([sentence], KNOWN))
        np.testing.assert_allclose(single[0], together[row], atol=TOLERANCE)


@every_tower
def test_weights_and_dropout_depend_on_the_seed(name):
    arguments = small_sizes(TOWER_CONFIGS[name]) | {"dropout": 0.2, "ngram_dropout": 0.1}

    def fresh(seed):
        keras.utils.set_random_seed(seed)
        tower = build_tower(name, len(KNOWN), **arguments)
        return vectors(tower), vectors(tower, training=True)

    for first, second in zip(fresh(3), fresh(3), strict=True):
        np.testing.assert_array_equal(first, second)
    assert not np.allclose(fresh(3)[0], fresh(4)[0], atol=1e-4)


@every_tower
@pytest.mark.parametrize("option", ["dropout", "ngram_dropout"])
def test_dropout_acts_in_training_only(name, option):
    tower, plain = random_tower(name, **{option: 0.5}), random_tower(name)
    np.testing.assert_array_equal(vectors(tower), vectors(plain))
    first, second = vectors(tower, training=True), vectors(tower, training=True)
    assert not np.allclose(first, vectors(plain), atol=1e-3)
    assert not np.allclose(first, second, atol=1e-3)
    assert not first[EMPTY].any()


@every_tower
@pytest.mark.parametrize("initializer", [str, keras.initializers.get])
def test_serialization_keeps_every_argument(name, initializer):
    arguments = {
        key: initializer(value) if key.endswith("initializer") else value
        for key, value in changed_values(TOWER_CONFIGS[name]).items()
    }
    tower = build_tower(name, len(KNOWN), **arguments, dtype="mixed_bfloat16", name="q_tower")
    config, defaults = tower.get_config(), TOWER_CLASSES[name](len(KNOWN)).get_config()
    assert {key for key in arguments if config[key] == defaults[key]} == set()
    written = json.loads(json.dumps(keras.saving.serialize_keras_object(tower)))
    copy = keras.saving.deserialize_keras_object(written)
    assert type(copy) is TOWER_CLASSES[name]
    assert copy.get_config() == config
    assert type(copy.hashing.initializer) is keras.initializers.RandomNormal
    assert copy.dtype_policy.name == "mixed_bfloat16"
    assert copy.dimension == tower.dimension


@every_tower
def test_the_docstring_has_a_reference_for_the_model_card(name):
    assert "Reference: " in TOWER_CLASSES[name].__doc__


@every_tower
def test_a_loaded_model_equals_the_saved_model(name, tmp_path):
    model = Siamese(random_tower(name, **changed_values(TOWER_CONFIGS[name])))
    model.build()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    names = [variable.name for variable in model.variables]
    assert [variable.name for variable in loaded.variables] == names
    np.testing.assert_array_equal(vectors(loaded.query_tower), vectors(model.query_tower))


@pytest.mark.numeric
@every_tower
@pytest.mark.parametrize(
    "policy", ["mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.slow)]
)
def test_mixed_precision_is_finite_and_near_float32(name, policy):
    tower = random_tower(name, dtype=policy)
    assert {variable.dtype for variable in tower.trainable_variables} == {"float32"}
    assert tower.hashing.compute_dtype == "float32"
    output, *gradients = vectors_and_gradients(tower)
    assert output.dtype == policy.removeprefix("mixed_")
    output = np.array(tf.cast(output, tf.float32))
    # bfloat16 has 8 bits, a relative error of 2^-8 per step, and there are a few steps.
    np.testing.assert_allclose(output, vectors(random_tower(name)), atol=0.06)
    for gradient in gradients:
        assert np.isfinite(np.array(gradient)).all()
    assert not output[EMPTY].any()


@every_tower
def test_in_bfloat16_the_gradient_of_a_trigram_sums_over_all_its_words(name):
    # In bfloat16, a sum of equal terms would stop growing at 256 terms.
    count = 2000
    batch = {
        "word_ngrams": np.minimum(np.arange(count + 1), 1)[:, None],
        "tokens": np.arange(1, count + 1)[:, None],
    }
    rows = []
    for policy in ("mixed_bfloat16", "float32"):
        tower = random_tower(name, dtype=policy)
        weights = [variable.path for variable in tower.trainable_variables]
        gradient = vectors_and_gradients(tower, batch)[1 + weights.index(tower.hashing.kernel.path)]
        rows.append(np.array(gradient)[1])
    np.testing.assert_allclose(*rows, rtol=0.1, atol=0.1 * np.abs(rows[1]).max())


@two_towers_by_default
def test_xla_computes_the_same_vectors_and_gradients(name):
    tower = random_tower(name)
    compiled = tf.function(lambda batch: vectors_and_gradients(tower, batch), jit_compile=True)
    assert_same(
        compiled({key: tf.constant(value) for key, value in BATCH.items()}),
        vectors_and_gradients(tower),
    )


@pytest.mark.long
@every_tower
def test_the_gradient_of_every_parameter_equals_finite_differences(name):
    """Autodiff against central differences, in float64, at every entry of every weight."""
    tower = random_tower(name, dtype="float64")
    output_gradient = np.random.default_rng(1).normal(size=(len(SENTENCES), tower.dimension))
    batch = {key: tf.constant(value) for key, value in BATCH.items()}
    value = tf.function(lambda: tf.reduce_sum(tower(batch) * output_gradient))
    check_gradients(value, tower.trainable_variables)


@every_tower
def test_all_sizes_can_be_1(name):
    sizes = small_sizes(TOWER_CONFIGS[name])
    tower = random_tower(
        name, **{key: (1,) if isinstance(sizes[key], tuple) else 1 for key in sizes}
    )
    assert vectors(tower).shape == (len(SENTENCES), tower.dimension)


@every_tower
@pytest.mark.parametrize("option", ["dropout", "ngram_dropout"])
@pytest.mark.parametrize("fraction", [-0.1, 1.0])
def test_impossible_fractions_are_refused(name, option, fraction):
    with pytest.raises(ValueError, match=f"{option}={fraction}; expected 0 <= {option} < 1"):
        TOWER_CLASSES[name](4, **{option: fraction})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rnn", {"hidden": 0}, "0 units; expected at least 1"),
        ("clsm", {"widths": ()}, "expected one or more whole numbers"),
        ("dssm", {"widths": (3, 0)}, "expected one or more whole numbers"),
    ],
)
def test_impossible_sizes_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        TOWER_CLASSES[name](4, **options)


@pytest.mark.parametrize(
    "row", ["dssm-s14", "clsm-s14-win3", "rnn-288", "lstm_full-96", "bilstm_full-96"]
)
def test_default_sizes_are_those_of_the_papers(row):
    sizes = dict((S14 | P16)[row].tower)
    name = sizes.pop("name")
    assert defaults(TOWER_CONFIGS[name]).items() >= sizes.items()
