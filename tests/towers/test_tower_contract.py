"""What every tower promises, whatever its paper."""

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
from tests.reference.letter_trigrams import text_batch, trigrams
from tests.reference.paper_settings import P16, S14
from tests.rounding import rounding
from tests.slopes import numerical_gradient

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
KNOWN = list(dict.fromkeys(t for s in SENTENCES[:-1] for word in s for t in trigrams(word)))
BATCH = text_batch(SENTENCES, KNOWN)
# The longest text has 27 trigrams, with weights of about .4 each.
SAME = rounding(32, 16)

every_tower = pytest.mark.parametrize("name", TOWER_CONFIGS)


def in_parts(batch: dict) -> dict:
    """The same texts: short and long words apart, and texts of up to one, to three, more words."""
    words, tokens = batch["word_ngrams"], batch["tokens"]
    lengths, sizes = (tokens > 0).sum(1), (words > 0).sum(1)
    word_parts = [np.flatnonzero(sizes <= 3), np.flatnonzero(sizes > 3)]
    place = np.argsort(np.concatenate(word_parts)).astype(np.int32)
    text_parts = [np.flatnonzero(np.digitize(lengths, [2, 4]) == part) for part in range(3)]
    return {
        "word_ngrams": (words[word_parts[0], :3], words[word_parts[1]]),
        "tokens": tuple(place[tokens[rows, : max(lengths[rows].max(), 1)]] for rows in text_parts),
        "rows": np.argsort(np.concatenate(text_parts)).astype(np.int32),
    }


def tower(name: str, seed: int = 0, **options) -> Tower:
    """A built tower whose weights, biases too, are all in play."""
    keras.utils.set_random_seed(seed)
    made = build_tower(name, len(KNOWN), **(small_sizes(TOWER_CONFIGS[name]) | options))
    made.build()
    generator = np.random.default_rng(seed)
    for variable in made.trainable_variables:
        variable.assign(generator.normal(0, 0.5, variable.shape))
    return made


def vectors(made: Tower, batch=BATCH, **options) -> np.ndarray:
    return np.array(made(batch, **options))


def learned(made: Tower, batch=BATCH) -> list[np.ndarray]:
    """The vectors, and the gradient of the sum of their squares in every weight."""
    with tf.GradientTape() as tape:
        output = made(batch)
        total = tf.reduce_sum(tf.square(tf.cast(output, tf.float32)))
    gradients = tape.gradient(total, made.trainable_variables)
    return [output, *map(tf.convert_to_tensor, gradients)]


def assert_same(found, expected) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), atol=SAME)


@every_tower
def test_vectors_are_finite_one_a_text_and_tell_texts_apart(name):
    made = tower(name)
    found = vectors(made)
    assert found.shape == (len(SENTENCES), made.dimension)
    assert np.isfinite(found).all()
    assert found.dtype == np.float32
    assert not np.allclose(found[0], found[2], atol=1e-3)
    assert not np.allclose(found[0], found[3], atol=1e-3)


@pytest.mark.numeric
@every_tower
def test_texts_in_parts_of_like_length_have_the_same_vectors_and_gradients(name):
    made = tower(name)
    assert_same(learned(made, in_parts(BATCH)), learned(made))


@every_tower
def test_the_empty_text_has_the_zero_vector_and_gives_no_gradient(name):
    made = tower(name)
    with tf.GradientTape() as tape:
        empty = made(BATCH)[EMPTY]
        total = tf.reduce_sum(empty)
    assert not np.array(empty).any()
    for gradient in tape.gradient(total, made.trainable_variables):
        assert gradient is None or not tf.convert_to_tensor(gradient).numpy().any()
    nothing = {"word_ngrams": np.zeros((1, 1), np.int32), "tokens": np.zeros((3, 1), np.int32)}
    assert not vectors(made, nothing).any()


@pytest.mark.numeric
@every_tower
def test_neither_the_order_of_words_and_trigrams_nor_other_texts_and_their_padding_matter(name):
    made, rows = tower(name), len(BATCH["word_ngrams"])
    together = vectors(made)
    order = np.array([0, *np.random.default_rng(0).permutation(np.arange(1, rows))])
    place = np.argsort(order).astype(np.int32)
    shuffled = {
        "word_ngrams": BATCH["word_ngrams"][order, ::-1], "tokens": place[BATCH["tokens"]]
    }  # fmt: skip
    np.testing.assert_allclose(vectors(made, shuffled), together, atol=SAME)
    for row, sentence in enumerate(SENTENCES):
        alone = vectors(made, text_batch([sentence], KNOWN))
        np.testing.assert_allclose(alone[0], together[row], atol=SAME)


@every_tower
def test_the_same_seed_gives_the_same_tower_and_another_seed_another(name):
    arguments = small_sizes(TOWER_CONFIGS[name]) | {"dropout": 0.2, "ngram_dropout": 0.1}

    def fresh(seed):
        keras.utils.set_random_seed(seed)
        made = build_tower(name, len(KNOWN), **arguments)
        return vectors(made), vectors(made, training=True)

    for first, second in zip(fresh(3), fresh(3), strict=True):
        np.testing.assert_array_equal(first, second)
    assert not np.allclose(fresh(3)[0], fresh(4)[0], atol=1e-4)


@every_tower
@pytest.mark.parametrize("option", ["dropout", "ngram_dropout"])
def test_dropout_acts_in_training_only(name, option):
    made, plain = tower(name, **{option: 0.5}), tower(name)
    np.testing.assert_array_equal(vectors(made), vectors(plain))
    first, second = vectors(made, training=True), vectors(made, training=True)
    assert not np.allclose(first, vectors(plain), atol=1e-3)
    assert not np.allclose(first, second, atol=1e-3)
    assert not first[EMPTY].any()


@every_tower
@pytest.mark.parametrize("initializer", [str, keras.initializers.get])
def test_every_argument_survives_its_configuration(name, initializer):
    arguments = {
        key: initializer(value) if key.endswith("initializer") else value
        for key, value in changed_values(TOWER_CONFIGS[name]).items()
    }
    made = build_tower(name, len(KNOWN), **arguments, dtype="mixed_bfloat16", name="q_tower")
    config, defaults = made.get_config(), TOWER_CLASSES[name](len(KNOWN)).get_config()
    assert {key for key in arguments if config[key] == defaults[key]} == set()
    written = json.loads(json.dumps(keras.saving.serialize_keras_object(made)))
    again = keras.saving.deserialize_keras_object(written)
    assert type(again) is TOWER_CLASSES[name]
    assert again.get_config() == config
    assert type(again.hashing.initializer) is keras.initializers.RandomNormal
    assert again.dtype_policy.name == "mixed_bfloat16"
    assert again.dimension == made.dimension


@every_tower
def test_its_docstring_ends_with_a_reference_which_model_cards_quote(name):
    assert "Reference: " in TOWER_CLASSES[name].__doc__


@every_tower
def test_a_saved_model_reads_back_identical(name, tmp_path):
    model = Siamese(tower(name, **changed_values(TOWER_CONFIGS[name])))
    model.build()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert [v.name for v in again.variables] == [v.name for v in model.variables]
    np.testing.assert_array_equal(vectors(again.query_tower), vectors(model.query_tower))


@pytest.mark.numeric
@every_tower
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_is_finite_and_near_float32(name, policy):
    made = tower(name, dtype=policy)
    assert {variable.dtype for variable in made.trainable_variables} == {"float32"}
    assert made.hashing.compute_dtype == "float32"
    output, *gradients = learned(made)
    assert output.dtype == policy.removeprefix("mixed_")
    output = np.array(tf.cast(output, tf.float32))
    # bfloat16 keeps 8 bits, a relative error of 2^-8 a step; a handful of steps follow.
    np.testing.assert_allclose(output, vectors(tower(name)), atol=0.06)
    for gradient in gradients:
        assert np.isfinite(np.array(gradient)).all()
    assert not output[EMPTY].any()


@every_tower
def test_in_bfloat16_a_trigram_of_many_words_keeps_its_whole_gradient(name):
    # Added up in bfloat16, equal parts stop at 256 of them.
    count = 2000
    batch = {
        "word_ngrams": np.minimum(np.arange(count + 1), 1)[:, None],
        "tokens": np.arange(1, count + 1)[:, None],
    }
    rows = []
    for policy in ("mixed_bfloat16", "float32"):
        made = tower(name, dtype=policy)
        weights = [one.path for one in made.trainable_variables]
        gradient = learned(made, batch)[1 + weights.index(made.hashing.kernel.path)]
        rows.append(np.array(gradient)[1])
    np.testing.assert_allclose(*rows, rtol=0.1, atol=0.1 * np.abs(rows[1]).max())


@every_tower
def test_compiled_by_xla_the_numbers_are_the_same(name):
    made = tower(name)
    compiled = tf.function(lambda batch: learned(made, batch), jit_compile=True)
    assert_same(compiled({key: tf.constant(value) for key, value in BATCH.items()}), learned(made))


@every_tower
def test_the_gradient_of_every_parameter_is_its_slope(name):
    """Autodiff against central differences, in float64, at every entry of every weight."""
    made = tower(name, dtype="float64")
    outside = np.random.default_rng(1).normal(size=(len(SENTENCES), made.dimension))
    batch = {key: tf.constant(value) for key, value in BATCH.items()}
    value = tf.function(lambda: tf.reduce_sum(made(batch) * outside))
    with tf.GradientTape() as tape:
        total = value()
    gradients = tape.gradient(total, made.trainable_variables)
    for variable, gradient in zip(made.trainable_variables, gradients, strict=True):
        start = variable.numpy().copy()

        def moved(variable=variable, start=start):
            variable.assign(start)
            return value()

        found = np.array(tf.convert_to_tensor(gradient))
        np.testing.assert_allclose(
            found, numerical_gradient(moved, start), atol=1e-7, err_msg=variable.path
        )
        variable.assign(start)


@every_tower
def test_sizes_of_one_are_enough(name):
    sizes = small_sizes(TOWER_CONFIGS[name])
    made = tower(name, **{key: (1,) if isinstance(sizes[key], tuple) else 1 for key in sizes})
    assert vectors(made).shape == (len(SENTENCES), made.dimension)


@every_tower
@pytest.mark.parametrize("option", ["dropout", "ngram_dropout"])
@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_impossible_shares_are_refused(name, option, share):
    with pytest.raises(ValueError, match=f"{option}={share}; expected 0 <= {option} < 1"):
        TOWER_CLASSES[name](4, **{option: share})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rnn", {"hidden": 0}, "0 units; expected at least 1"),
        ("clsm", {"widths": ()}, "expected one or more, each >= 1"),
        ("dssm", {"widths": (3, 0)}, "expected one or more, each >= 1"),
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
