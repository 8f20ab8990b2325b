"""Letter trigrams of a word between boundary marks: `#word#` (Huang et al. 2013, S14 sec. 3.2)."""

from __future__ import annotations

BOUNDARY = "#"  # punctuation, so never part of a word
MAX_LETTERS = 64
MAX_WORDS = 64


def letter_ngrams(word: str, max_letters: int = MAX_LETTERS) -> list[str]:
    """The letter trigrams of `#word#`, in order and with repetition: one a letter.

    A word longer than `max_letters` is cut there, so that one pasted blob cannot widen a batch.

    >>> letter_ngrams("cat")
    ['#ca', 'cat', 'at#']
    >>> letter_ngrams("a")
    ['#a#']
    """
    marked = f"{BOUNDARY}{word[:max_letters]}{BOUNDARY}"
    return [marked[i : i + 3] for i in range(len(marked) - 2)]


# An unseen trigram's bucket: a linear hash of its code points, exact in signed 64-bit integers
# (each product is below 2**61), so that Python and TensorFlow agree.
BUCKET_MULTIPLIERS = (1_000_003_337, 2_654_435_761, 1_620_619_981)
BUCKET_MODULUS = 2_147_483_647


def bucket(ngram: str, buckets: int) -> int:
    """The hash bucket, `0 <= bucket < buckets`, of a trigram that is not in the vocabulary."""
    mixed = sum(m * ord(c) for m, c in zip(BUCKET_MULTIPLIERS, ngram, strict=True))
    return mixed % BUCKET_MODULUS % buckets
