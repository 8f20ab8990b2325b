"""Integrated gradients against finite differences of the paper's tower in float64."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.analysis.gradients import integrated_gradients
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers import TOWERS
from dssm_tf.towers.dssm import DSSM
from tests.choices import small

pytestmark = pytest.mark.numeric

WORDS = ["cat", "dogs", "cat", "zzz"]
VOCABULARY = Vocabulary(dict.fromkeys(n for word in WORDS[:3] for n in letter_ngrams(word)))
OTHER = np.array([0.6, 0.0, -0.8, 0.0])


def tower(name="dssm", **options):
    keras.utils.set_random_seed(3)
    made = TOWERS[name](VOCABULARY.size, **(small(TOWERS[name]) | options))
    made.build()
    generator = np.random.default_rng(3)
    for variable in made.trainable_variables:
        variable.assign(generator.normal(0, 0.5, variable.shape))
    return made


def test_each_word_adds_the_slope_towards_it_along_the_way():
    made = tower()
    assert isinstance(made, DSSM)
    kernel, bias, dense, dense_bias = (
        keras.ops.convert_to_numpy(one).astype(np.float64)
        for one in (made.hashing.kernel, made.bias, *made.semantic[0].weights)
    )
    hashed = np.stack([kernel[list(VOCABULARY.ngram_ids(w))].sum(axis=0) for w in WORDS])

    def cosine(words):
        y = np.tanh(np.tanh(words.sum(axis=0) + bias) @ dense + dense_bias)
        return y @ OTHER / np.linalg.norm(y)

    expected = np.zeros(len(WORDS))
    for alpha in (np.arange(400) + 0.5) / 400:
        for word in range(len(WORDS)):
            step = np.zeros_like(hashed)
            step[word] = 1e-5 * hashed[word]
            slope = cosine(alpha * hashed + step) - cosine(alpha * hashed - step)
            expected[word] += slope / 2e-5 / 400
    found = integrated_gradients(made, VOCABULARY, WORDS, OTHER, steps=400)
    assert found.words == pytest.approx(expected, abs=1e-4)
    assert found.start == pytest.approx(cosine(0 * hashed), abs=1e-5)
    assert found.words[3] == 0  # nothing of it is known
    assert found.words[0] == pytest.approx(found.words[2])  # to a bag, a word is a word


@pytest.mark.parametrize("name", [name for name in TOWERS if name != "clsm"])
def test_what_was_added_sums_to_the_cosine_less_where_it_started(name):
    made = tower(name)
    other = np.resize(OTHER, made.dimension) / np.linalg.norm(np.resize(OTHER, made.dimension))
    found = integrated_gradients(made, VOCABULARY, WORDS, other)
    assert abs(found.gap) < 0.01
    finer = integrated_gradients(made, VOCABULARY, WORDS, other, steps=1024)
    assert abs(finer.gap) <= max(abs(found.gap), 1e-3)
    assert [len(one) for one in found.trigrams] == [3, 4, 3, 0]
