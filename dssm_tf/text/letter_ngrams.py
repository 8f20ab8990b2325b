"""Letter trigrams of a word between boundary marks: `#word#` (Huang et al. 2013, S14 sec. 3.2)."""

from __future__ import annotations

from dssm_tf.text.fields import unmarked
from dssm_tf.text.rules import Rules

BOUNDARY = "#"  # punctuation, so never part of a word


def letter_ngrams(word: str, max_letters: int = Rules.max_letters) -> list[str]:
    """The letter trigrams of `#word#`, in order and with repetition: one a letter.

    A word longer than `max_letters` is cut there, so that one pasted blob cannot widen a batch.
    Trigrams of a field with rows of its own begin with its number, see `fields`.

    >>> letter_ngrams("cat")
    ['#ca', 'cat', 'at#']
    >>> letter_ngrams("a")
    ['#a#']
    >>> letter_ngrams("1␟cat")
    ['1#ca', '1cat', '1at#']
    """
    mark, word = unmarked(word)
    whole = f"{BOUNDARY}{word[:max_letters]}{BOUNDARY}"
    return [mark + whole[i : i + 3] for i in range(len(whole) - 2)]


def whole_word(word: str, max_letters: int = Rules.max_letters) -> str:
    """A word between boundary marks, an n-gram of its own for a word of two letters or more.

    >>> whole_word("cat"), whole_word("1␟cat")
    ('#cat#', '1#cat#')
    """
    mark, word = unmarked(word)
    return f"{mark}{BOUNDARY}{word[:max_letters]}{BOUNDARY}"


def without_mark(ngram: str) -> tuple[str, str]:
    """The number of an n-gram's field, `""` for field 0, and the n-gram without it.

    One of more than three characters is a whole word.

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
