"""Letter trigrams of a word between boundary marks: `#word#` (Huang et al. 2013, S14 sec. 3.2)."""

from __future__ import annotations

from dssm_tf.text.fields import split_mark
from dssm_tf.text.rules import Rules

BOUNDARY = "#"  # punctuation, so never part of a word


def letter_ngrams(word: str, max_letters: int = Rules.max_letters) -> list[str]:
    """The letter trigrams of `#word#`, in order and with repetition: one per letter.

    A word is truncated to `max_letters`, so that a pasted blob cannot widen a batch. Trigrams of a
    marked word begin with the number of its field, see `fields`.

    >>> letter_ngrams("cat")
    ['#ca', 'cat', 'at#']
    >>> letter_ngrams("a")
    ['#a#']
    >>> letter_ngrams("1␟cat")
    ['1#ca', '1cat', '1at#']
    """
    mark, word = split_mark(word)
    bounded = f"{BOUNDARY}{word[:max_letters]}{BOUNDARY}"
    return [mark + bounded[i : i + 3] for i in range(len(bounded) - 2)]


def whole_word(word: str, max_letters: int = Rules.max_letters) -> str:
    """A word between boundary marks, which is an n-gram itself if it has two letters or more.

    >>> whole_word("cat"), whole_word("1␟cat")
    ('#cat#', '1#cat#')
    """
    mark, word = split_mark(word)
    return f"{mark}{BOUNDARY}{word[:max_letters]}{BOUNDARY}"


def without_mark(ngram: str) -> tuple[str, str]:
    """Splits an n-gram into the number of its field, `""` for field 0, and the rest.

    If the rest has more than three characters, it is a whole word.

    >>> [without_mark(ngram) for ngram in ("cat", "1cat", "#cat#", "1#cat#", "1#a#")]
    [('', 'cat'), ('1', 'cat'), ('', '#cat#'), ('1', '#cat#'), ('1', '#a#')]
    """
    is_marked = len(ngram) > 3 and ngram[0] != BOUNDARY
    return (ngram[0], ngram[1:]) if is_marked else ("", ngram)


# An unseen trigram's bucket: a linear hash of its code points, exact in signed 64-bit integers
# (each product is below 2**61), so that Python and TensorFlow agree.
BUCKET_MULTIPLIERS = (1_000_003_337, 2_654_435_761, 1_620_619_981)
FIELD_MULTIPLIER = 1_181_783_497
BUCKET_MODULUS = 2_147_483_647


def bucket(ngram: str, buckets: int) -> int:
    """The hash bucket, `0 <= bucket < buckets`, of a trigram that is not in the vocabulary."""
    letters = ngram[-3:]
    mixed = sum(m * ord(c) for m, c in zip(BUCKET_MULTIPLIERS, letters, strict=True))
    mixed += FIELD_MULTIPLIER * int(ngram[:-3] or 0)
    return mixed % BUCKET_MODULUS % buckets
