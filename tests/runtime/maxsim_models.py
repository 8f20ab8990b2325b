"""Small models with the score maxsim and random weights, and the same models as oracles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dssm_tf.runtime.maxsim import MaxSim
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED, Rules
from dssm_tf.text.vocabulary import Vocabulary
from tests.reference import maxsim as reference

TITLES = [
    "red running shoe",
    "Red Shoe, red box",
    "running shoes for men",
    "walla walla onion",
    "blue box with a lid",
    "shoe box",
    "blue lids, box",
    "虎 ラーメン",
    "",
    "shoe red",
]


def random_model(
    titles: Iterable[str] = TITLES,
    rules: Rules = FOLDED,
    seed: int = 0,
    dimension: int = 3,
    threshold: float = 0.2,
    cached_words: int = 50,
) -> MaxSim:
    """A model of few numbers per word, so that many words are similar.

    Most trigrams and half of the words of the titles have ids.
    """
    vocabulary = Vocabulary([], rules)
    texts = [vocabulary.words(title) for title in titles]
    words = list(dict.fromkeys(word for text in texts for word in text))
    trigrams = dict.fromkeys(ngram for word in words for ngram in letter_ngrams(word))
    vocabulary = Vocabulary([*trigrams][::-1][3:], rules).with_words(words[::2])
    rng = np.random.default_rng(seed)
    rows = 1 + vocabulary.size
    return MaxSim(
        vocabulary,
        DocumentFrequencies.from_titles(texts),
        rng.normal(size=(rows, dimension)).astype(np.float32),
        rng.normal(size=(rows, 2)).astype(np.float32),
        np.array([1.0, -0.3], np.float32),
        np.array([-2.0, -1.0], np.float32),
        threshold,
        cached_words,
    )


def oracle(model: MaxSim, texts: Iterable[Sequence[str]]) -> reference.MaxSim:
    """The same model in float64, for the words of some texts."""
    dimension = model.dimension
    return reference.MaxSim(
        model._rows[:, :dimension],
        model._rows[:, dimension:-1],
        model.sides,
        model.pair_bias,
        model.threshold,
        {word: model.vocabulary.look_up(word) for text in texts for word in text},
        model.frequencies.titles,
        model.frequencies.words,
        model.frequencies.pairs,
    )
