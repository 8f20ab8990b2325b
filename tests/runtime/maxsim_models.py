"""Small models with the score maxsim and random weights, and the same models as oracles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dssm_tf.common.checksums import files_in, write_checksums
from dssm_tf.runtime.compact_files import (
    COMPACT,
    DOCUMENT_FREQUENCIES,
    FORMAT,
    MAXSIM,
    PRIOR,
    VOCABULARY,
    WEIGHTS,
)
from dssm_tf.runtime.maxsim import MaxSim
from dssm_tf.runtime.text_vectors import TextVectors
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED, TextRules
from dssm_tf.text.stable_hash import fingerprint64
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
QUERIES = [
    "red shoe",
    "shoe red red shoe",
    "blue ribbon box",
    "runing",
    "walla walla",
    "虎",
    "xq 7",
]
WORDS = ["red", "reds", "shoe", "box", "lid", "ed", "blue", "虎", "qqq"]
any_text = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
"""A strategy of hypothesis: texts of up to six of the words."""


def random_model(
    titles: Iterable[str] = TITLES,
    rules: TextRules = FOLDED,
    seed: int = 0,
    dimension: int = 3,
    threshold: float = 0.2,
    text_cosine: float = 0.5,
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
    frequencies = DocumentFrequencies.from_titles(texts)
    text_rng = np.random.default_rng([seed, 1])
    text_vectors = TextVectors(
        vocabulary,
        frequencies,
        text_rng.normal(size=(rows, 4)).astype(np.float32),
        text_rng.normal(size=(rows, 2)).astype(np.float32),
        text_cosine,
        cached_words,
    )
    return MaxSim(
        vocabulary,
        frequencies,
        rng.normal(size=(rows, dimension)).astype(np.float32),
        rng.normal(size=(rows, 2)).astype(np.float32),
        np.array([1.0, -0.3], np.float32),
        np.array([-2.0, -1.0], np.float32),
        threshold,
        text_vectors if text_cosine else None,
        cached_words,
    )


def example_model() -> MaxSim:
    """The model of the worked example of docs/maxsim.md: one row of the kernel per word."""
    rows = {"red": (1, 0), "crimson": (0.8, 0.6), "shoe": (0, 1), "box": (-1, 0), "lid": (0, -1)}
    counts = {"red": 50, "shoe": 100, "box": 20, "lid": 5}
    return MaxSim(
        Vocabulary([f"#{word}#" for word in rows], FOLDED),
        DocumentFrequencies(1000, counts, {"shoe box": 10}),
        np.array([(0, 0), *rows.values()], np.float32),
        np.zeros((1 + len(rows), 2), np.float32),
        np.array([1, 0.3]),
        np.array([-2, -2]),
        0.2,
    )


def oracle(model: MaxSim, texts: Iterable[Sequence[str]]) -> reference.MaxSim:
    """The same model in float64, for the words of some texts."""
    dimension = model.dimension
    return reference.MaxSim(
        model.rows[:, :dimension],
        model.rows[:, dimension:-1],
        model.side_weights,
        model.pair_bias,
        model.threshold,
        {word: model.vocabulary.look_up(word) for text in texts for word in text},
        model.frequencies.titles,
        model.frequencies.words,
        model.frequencies.pairs,
        *_text_arrays(model.text_vectors),
    )


def _text_arrays(model: TextVectors | None) -> tuple[Any, ...]:
    """The last arguments of the oracle."""
    return () if model is None else (model.kernel, model.importance, model.factor)


SETTINGS = {
    "name": "shop",
    "prior_weight": 0.25,
    "mean_prior": -0.5,
    "cutoff": 0.1,
}


def write_compact_model(
    model: MaxSim, directory: Path, log_priors: dict[str, float], kernel: str = "float32"
) -> Path:
    """Writes the compact form of a model.

    Args:
        model: the model.
        directory: directory to create.
        log_priors: of each clicked title, by its key; that of other titles is -7.
        kernel: number type of the kernel.
    """
    directory.mkdir(parents=True)
    content = {
        "format": FORMAT,
        "score": {
            "name": MAXSIM,
            "threshold": model.threshold,
            "text_cosine": 0.0 if model.text_vectors is None else model.text_vectors.factor,
            "gamma": 10.0,
        },
        "rules": asdict(model.vocabulary.rules),
        "unseen": -7.0,
        **SETTINGS,
    }
    (directory / COMPACT).write_text(json.dumps(content), "utf-8")
    model.vocabulary.save(directory / VOCABULARY)
    model.frequencies.save(directory / DOCUMENT_FREQUENCIES)
    arrays = {"side_weights": model.side_weights, "pair_bias": model.pair_bias}
    for prefix, words in (("", model), ("text_", model.text_vectors)):
        if words is None:
            continue
        rows = words.kernel
        if kernel == "int8":
            scale = np.abs(rows).max(axis=1, keepdims=True) / 127
            arrays[f"{prefix}scale"] = scale
            rows = np.rint(rows / np.maximum(scale, 1e-9))
        arrays |= {f"{prefix}kernel": rows.astype(kernel), f"{prefix}importance": words.importance}
    np.savez(directory / WEIGHTS, **arrays)
    hashes = sorted((fingerprint64(title), log_prior) for title, log_prior in log_priors.items())
    titles, log_priors = zip(*hashes, strict=True)
    np.savez(
        directory / PRIOR,
        titles=np.array(titles, np.int64),
        log_priors=np.array(log_priors, np.float32),
    )
    write_checksums(directory, files_in(directory))
    return directory
