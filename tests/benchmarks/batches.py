"""Synthetic batches with the words of a real log: a few very often, most seldom. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

VOCABULARY, WORDS, NEGATIVES = 30_000, 50_000, 4
LONGEST_WORD = 12


@dataclass
class Batch:
    """Texts of words, each word some trigrams, as all contenders see them.

    Args:
        tokens: `(texts, words)`, ids of words from 1, 0 = padding.
        ngrams: `(words + 1, trigrams)`, row 0 empty.
    """

    tokens: np.ndarray
    ngrams: np.ndarray

    @classmethod
    def draw(cls, texts: int, longest: int, shortest: int, seed: int) -> Batch:
        """Words by Zipf's law with exponent 1.2; 3 to 12 trigrams a word."""
        rng = np.random.default_rng(seed)
        lengths = rng.integers(shortest, longest + 1, texts)
        words = 1 + (np.minimum(rng.zipf(1.2, (texts, longest)), WORDS) * 7919) % WORDS
        tokens = np.where(np.arange(longest) < lengths[:, None], words, 0)
        sizes = rng.integers(3, LONGEST_WORD + 1, WORDS + 1)
        ngrams = rng.integers(1, VOCABULARY + 1, (WORDS + 1, LONGEST_WORD))
        ngrams[np.arange(LONGEST_WORD) >= sizes[:, None]] = 0
        ngrams[0] = 0
        return cls(tokens, ngrams)

    def arrays(self) -> dict[str, np.ndarray]:
        """A text batch: distinct words only, in one part."""
        distinct, tokens = np.unique(np.append(0, self.tokens), return_inverse=True)
        return {
            "word_ngrams": self.ngrams[distinct].astype(np.int32),
            "tokens": tokens[1:].reshape(self.tokens.shape).astype(np.int32),
        }

    def flat(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For an EmbeddingBag: trigrams of all words, where each word starts, words a text."""
        rows = self.ngrams[self.tokens.reshape(-1)]
        sizes = (rows > 0).sum(1)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return rows[rows > 0], starts, (self.tokens > 0).sum(1)
