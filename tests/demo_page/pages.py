"""Pages of the demo with a small model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dssm_tf.demo_page.page import DemoResults, Example, MeasuredSystem, SimilarPair, render
from dssm_tf.runtime.maxsim import MaxSim
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.text_vectors import TextVectors
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED, NGRAM_KINDS
from dssm_tf.text.vocabulary import Vocabulary
from tests.runtime.maxsim_models import SETTINGS, TITLES

HOSTILE = "</script><!-- <img src=x onerror='alert(\"1\")'> & \u2028"
PAGE_TITLES = [*TITLES, "Ålesund, Norway", f"box {HOSTILE}", "東京タワー", "shoe box shoe box"]
EXAMPLES = [Example("red shoe"), Example("runing shoess", "typing error"), Example(f"a {HOSTILE}")]
RESULTS = DemoResults(
    numbers={"clicks": "3,709", f"label {HOSTILE}": "1"},
    clicks=3709,
    titles=14,
    measured=1998,
    seconds=58.4,
    pairs=[SimilarPair("eu", f"european {HOSTILE}", 0.97)],
    columns=("right title first", "with one typing error", "<i>@10"),
    systems=[
        MeasuredSystem("maxsim", "compares words", ["90.4\u00a0%", "86.3\u00a0%", ".936"]),
        MeasuredSystem("BM25", f"same words {HOSTILE}", ["84.8\u00a0%", "58.8\u00a0%", ".884"]),
    ],
    interval=1.44,
    note=f"A note {HOSTILE}.",
    next_command="dssm benchmark --clicks CLICKS.tsv",
    use_commands=["dssm preprocess", "dssm train"],
    commands=["dssm train --data 'a & b'"],
)


def letters_model(
    titles: Sequence[str] = PAGE_TITLES, dimension: int = 16, text_cosine: float = 0.5
) -> MaxSim:
    """A model with random rows for the n-grams of all kinds and the words of some titles.

    Args:
        titles: the titles.
        dimension: the length of a word's vector.
        text_cosine: the factor of the cosine of text vectors; 0 for no text vectors.
    """
    vocabulary = Vocabulary([], replace(FOLDED, letter_ngrams=NGRAM_KINDS))
    texts = [vocabulary.words(title) for title in titles]
    words = list(dict.fromkeys(word for text in texts for word in text))
    ngrams = dict.fromkeys(
        ngram for word in words for ngram in letter_ngrams(word, 64, NGRAM_KINDS)
    )
    vocabulary = Vocabulary(ngrams, vocabulary.rules).with_words(words[::2])
    rng = np.random.default_rng(5)
    rows = 1 + vocabulary.size
    frequencies = DocumentFrequencies.from_titles([*texts, *texts])  # all pairs are in two titles
    text_rng = np.random.default_rng([5, 1])
    text_vectors = TextVectors(
        vocabulary,
        frequencies,
        text_rng.normal(size=(rows, 12)).astype(np.float32),
        text_rng.normal(size=(rows, 2)).astype(np.float32),
        text_cosine,
    )
    return MaxSim(
        vocabulary,
        frequencies,
        rng.normal(size=(rows, dimension)).astype(np.float32),
        rng.normal(size=(rows, 2)).astype(np.float32),
        np.array([1.0, -0.3], np.float32),
        np.array([-2.0, -1.0], np.float32),
        threshold=0.2,
        text_vectors=text_vectors if text_cosine else None,
    )


def ranker_of(model: MaxSim, prior: Callable[[str], float] = lambda _: 0.0) -> MaxSimRanker:
    """A ranker with a weighted log-prior for each title."""
    return MaxSimRanker(SETTINGS, model, lambda titles: np.array([*map(prior, titles)], np.float32))


def page_of(ranker: MaxSimRanker, titles: Sequence[str] = PAGE_TITLES) -> str:
    return render(RESULTS, ranker, titles, EXAMPLES)
