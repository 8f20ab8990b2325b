"""Trains letter n-grams so that a misspelled word has nearly the vector of the right word.

A word with its own row of the first matrix hardly needs its letter n-grams; a misspelled word has
nothing else. Training needs the words of the catalog only, no clicks and no titles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dssm_tf.common.progress import progress_of
from dssm_tf.text.typos import with_typo
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.training.word_rows import WordRows, count_matrix

Floats = NDArray[np.floating[Any]]

STEPS_PER_ROUND = 20
"""Steps of one of the `rounds` of `learn_spelling`."""
WORDS_PER_STEP = 1024
"""Words that one step misspells, or all words if there are fewer."""
SPELLINGS = 32
"""Maximum number of spellings per word. 16 lose .002 of Home Depot's NDCG@10 with typing errors, 64
gain nothing."""
GAMMA = 15.0
"""Factor of the cosines in the softmax."""
DROPOUT = 0.1
LEARNING_RATE = 0.005


def learn_spelling(
    kernel: NDArray[np.float32],
    vocabulary: Vocabulary,
    words: Sequence[str],
    frequencies: Sequence[int] | NDArray[np.integer[Any]],
    *,
    rounds: int = 30,
    seed: int,
    quiet: bool = False,
) -> NDArray[np.float32]:
    """Trains the letter rows of a first matrix. Words with their own row keep their vectors.

    The vector of a word is the sum of its letter rows and its own row. In each step, words with
    their own row are drawn, in proportion to the square root of their frequencies, and misspelled.
    The loss is that of `spelling_loss`. Afterwards each own row becomes the difference between the
    word's earlier vector and the new sum of its letter rows.

    Args:
        kernel: the first matrix, `(1 + vocabulary.size, columns)`; it is not changed.
        vocabulary: the vocabulary of the model.
        words: words; those without their own row are ignored.
        frequencies: number of titles that contain each word. Words with their own row that are not
            in `words`, and those in no title, count as in one.
        rounds: number of rounds of `STEPS_PER_ROUND` steps.
        seed: seed of the drawn words, the typing errors and dropout.
        quiet: whether to hide the progress bar.

    Returns:
        The new matrix; `kernel` itself if no word has its own row.
    """
    word_rows = WordRows(vocabulary)
    word_rows.check(kernel)
    if not word_rows.words:
        return kernel
    own_rows, known_words = np.array([*word_rows.words]), [*word_rows.words.values()]
    counts = count_matrix((word_rows.split(word)[0] for word in known_words), len(kernel))
    vectors = counts @ kernel.astype(np.float64) + kernel[own_rows]
    lengths = np.linalg.norm(vectors, axis=1)
    trainable = np.flatnonzero((lengths > 0) & (np.diff(counts.indptr) > 0))
    result = kernel.copy()
    if len(trainable) and rounds:
        trained_words = [known_words[index] for index in trainable]
        title_counts = dict(zip(words, frequencies, strict=True))
        weights = np.sqrt([max(1, int(title_counts.get(word, 1))) for word in trained_words])
        targets = (vectors[trainable] / lengths[trainable, None]).astype(kernel.dtype)
        random = np.random.default_rng(seed)
        drawn = draw_words(weights, rounds * STEPS_PER_ROUND, random)
        with progress_of("misspelling words", None, not quiet, unit=""):
            spellings = draw_spellings(trained_words, drawn, word_rows, len(kernel), random)
        _train(result, drawn, spellings, targets, random, quiet)
    result[own_rows] = vectors - counts @ result.astype(np.float64)
    return result


def draw_words(weights: Floats, steps: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Draws the words of each step without replacement, with probability proportional to weights.

    Exponential variables are divided by the weights; the words with the smallest results are drawn.

    Returns:
        Indices of words, `(steps, batch)`. The batch is `WORDS_PER_STEP`, or all words if there are
        fewer.

    Reference: Efraimidis and Spirakis 2006.
    """
    batch = min(WORDS_PER_STEP, len(weights))
    drawn = np.empty((steps, batch), np.int64)
    for step in range(steps):
        keys = random.standard_exponential(len(weights)) / weights
        drawn[step] = np.argpartition(keys, batch - 1)[:batch]
    return drawn


class Spellings(NamedTuple):
    """The spellings of the drawn words.

    Args:
        counts: how often each spelling has each row of the first matrix, `(spellings, rows)`.
        drawn: the spelling of each drawn word, `(steps, batch)`.
    """

    counts: scipy.sparse.csr_matrix
    drawn: NDArray[np.intp]


def draw_spellings(
    words: Sequence[str],
    drawn: NDArray[np.int64],
    word_rows: WordRows,
    size: int,
    random: np.random.Generator,
) -> Spellings:
    """Misspells drawn words. A word has at most `SPELLINGS` spellings, because each takes time.

    Args:
        words: the words.
        drawn: indices of words, `(steps, batch)`.
        word_rows: finds the rows of words.
        size: number of rows of the first matrix.
        random: source of the typing errors.
    """
    first_seed = int(random.integers(1, 1 << 40))
    ids = drawn * SPELLINGS + random.integers(SPELLINGS, size=drawn.shape)
    ids, spelling_of_drawn = np.unique(ids, return_inverse=True)
    rows = (
        misspelled_rows(words[spelling // SPELLINGS], first_seed + spelling % SPELLINGS, word_rows)
        for spelling in ids.tolist()
    )
    return Spellings(count_matrix(rows, size), spelling_of_drawn.reshape(drawn.shape))


def misspelled_rows(word: str, seed: int, word_rows: WordRows) -> list[int]:
    """The letter rows of a word with one typing error.

    A word keeps its letters if it is too short for an error, or if the error makes another word of
    the vocabulary.

    Args:
        word: the word.
        seed: of the error, see `with_typo`.
        word_rows: finds the rows of words.
    """
    rows, own_row = word_rows.split(with_typo(word, seed))
    return rows if own_row is None else word_rows.split(word)[0]


def _train(
    kernel: Floats,
    drawn: NDArray[np.int64],
    spellings: Spellings,
    targets: Floats,
    random: np.random.Generator,
    quiet: bool,
) -> None:
    """Trains the letter rows of a matrix in place.

    Args:
        kernel: the first matrix.
        drawn: indices of words, `(steps, batch)`.
        spellings: of the drawn words.
        targets: unit vectors of the words, `(words, columns)`.
        random: source of dropout.
        quiet: whether to hide the progress bar.
    """
    used_rows = np.unique(spellings.counts.indices)
    letters, counts = kernel[used_rows], columns_of(spellings.counts, used_rows)
    adam = Adam(letters, LEARNING_RATE)
    with progress_of("spelling", len(drawn), not quiet) as task:
        for words, rows in zip(drawn, spellings.drawn, strict=True):
            dropout_mask = random.random((len(words), letters.shape[1]), np.float32) >= DROPOUT
            loss, gradient = spelling_loss(letters, counts[rows], targets[words], dropout_mask)
            adam.update(gradient)
            task.advance(state=f"loss {loss:.3f}")
    kernel[used_rows] = letters


def columns_of(
    counts: scipy.sparse.csr_matrix, columns: NDArray[np.integer[Any]]
) -> scipy.sparse.csr_matrix:
    """The columns of a matrix that are not empty. The values are not copied.

    Args:
        counts: a matrix of millions of values.
        columns: the columns with values, increasing.
    """
    position = np.zeros(counts.shape[1], counts.indices.dtype)
    position[columns] = np.arange(len(columns))
    shape = counts.shape[0], len(columns)
    return scipy.sparse.csr_matrix(
        (counts.data, position[counts.indices], counts.indptr), shape, copy=False
    )


def spelling_loss(
    letters: Floats,
    counts: scipy.sparse.csr_matrix,
    targets: Floats,
    dropout_mask: NDArray[np.bool_],
) -> tuple[float, Floats]:
    """The mean of `-log softmax(GAMMA * cosines)` of the right words, in nats, and its gradient.

    Args:
        letters: letter rows, `(rows, columns)`.
        counts: how often each spelling has each row, `(words, rows)`.
        targets: unit vectors of the words, `(words, columns)`. Spelling i belongs to word i.
        dropout_mask: true for the components of the spellings' sums that dropout keeps,
            `(words, columns)`.

    Returns:
        The loss, and its gradient with respect to `letters`.
    """
    sums = np.where(dropout_mask, counts @ letters, 0)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    lengths[lengths == 0] = 1  # a spelling without known letters is zero
    vectors = sums / lengths
    probabilities = np.exp((GAMMA * vectors) @ targets.T)  # at most exp(GAMMA)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    right_words = np.diag_indices(len(targets))
    loss = -float(np.log(probabilities[right_words]).mean())
    probabilities[right_words] -= 1
    gradient = (GAMMA / len(targets)) * (probabilities @ targets)  # with respect to `vectors`
    # A change along a unit vector has no effect, because its length is normalized.
    radial = (vectors * gradient).sum(axis=1, keepdims=True) * vectors
    gradient_of_sums = np.where(dropout_mask, (gradient - radial) / lengths, 0)
    return loss, counts.T @ gradient_of_sums


class Adam:
    """Adam's method, in place (Kingma and Ba 2015, algorithm 1).

    Args:
        values: the array to train.
        learning_rate: size of a step.
    """

    BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7
    _BLOCK = 1 << 15  # numbers that are updated at a time and stay in the processor's cache

    def __init__(self, values: Floats, learning_rate: float) -> None:
        self._learning_rate = learning_rate
        self._values = values.reshape(-1)
        self._means = np.zeros_like(self._values)
        self._variances = np.zeros_like(self._values)
        self._steps = 0

    def update(self, gradient: Floats) -> None:
        """Makes one step."""
        self._steps += 1
        variance_correction = 1 - self.BETA_2**self._steps
        rate = self._learning_rate / (1 - self.BETA_1**self._steps)
        gradient = gradient.reshape(-1)
        for start in range(0, len(gradient), self._BLOCK):
            block = slice(start, start + self._BLOCK)
            mean, variance, change = self._means[block], self._variances[block], gradient[block]
            mean += (1 - self.BETA_1) * (change - mean)
            variance += (1 - self.BETA_2) * (change**2 - variance)
            scale = np.sqrt(variance / variance_correction) + self.EPSILON
            self._values[block] -= rate * mean / scale
