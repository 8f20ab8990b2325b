"""Letter n-grams of a word between boundary marks, `#word#`, of up to three kinds.

    pairs            #c ca at t#        two characters in a row
    trigrams         #ca cat at#        three in a row (Huang et al. 2013)
    sorted_trigrams  ~#ac ~act ~#at     a tilde, then a trigram with its characters in code point
                                        order, so that words with swapped letters share it

`TextRules.letter_ngrams` lists the kinds in use. In a vocabulary, a whole word is written as
`#cat#`. N-grams of a title's second and later fields may begin with the number of the field, as in
`1␟cat`; see `fields`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from dssm_tf.text.fields import split_mark
from dssm_tf.text.rules import NgramKind, TextRules

BOUNDARY = "#"  # punctuation, so never part of a word
SORTED = "~"  # also punctuation
WHOLE_WORD: Final = "whole_word"


def letter_ngrams(
    word: str,
    max_letters: int = TextRules.max_letters,
    kinds: Sequence[NgramKind] = TextRules.letter_ngrams,
) -> list[str]:
    """The letter n-grams of `#word#`, in order and with repetition, one kind after another.

    A word is truncated to `max_letters`, so that one very long word cannot widen a batch.

    Args:
        word: the word, which may be marked with the number of its field.
        max_letters: maximum number of letters.
        kinds: kinds of n-grams, in the order of the result.

    >>> letter_ngrams("cat")
    ['#ca', 'cat', 'at#']
    >>> letter_ngrams("cat", kinds=("pairs", "sorted_trigrams"))
    ['#c', 'ca', 'at', 't#', '~#ac', '~act', '~#at']
    >>> letter_ngrams("1␟a")
    ['1␟#a#']
    """
    mark, word = split_mark(word)
    bounded = f"{BOUNDARY}{word[:max_letters]}{BOUNDARY}"
    ngrams: list[str] = []
    for kind in kinds:
        if kind == "pairs":
            ngrams += [mark + bounded[i : i + 2] for i in range(len(bounded) - 1)]
        elif kind == "trigrams":
            ngrams += [mark + bounded[i : i + 3] for i in range(len(bounded) - 2)]
        else:
            ngrams += [
                f"{mark}{SORTED}{''.join(sorted(bounded[i : i + 3]))}"
                for i in range(len(bounded) - 2)
            ]
    return ngrams


def whole_word(word: str, max_letters: int = TextRules.max_letters) -> str:
    """A word between boundary marks; if it has only one letter, this equals its trigram.

    >>> whole_word("cat"), whole_word("1␟cat")
    ('#cat#', '1␟#cat#')
    """
    mark, word = split_mark(word)
    return f"{mark}{BOUNDARY}{word[:max_letters]}{BOUNDARY}"


class Ngram(NamedTuple):
    """The parts of an n-gram.

    Args:
        field: number of its field, `""` for field 0.
        kind: kind of letter n-gram, or `WHOLE_WORD`.
        characters: the two or three characters, or the word between boundary marks.
    """

    field: str
    kind: NgramKind | Literal["whole_word"]
    characters: str


def parse_ngram(ngram: str) -> Ngram:
    """Splits an n-gram of a vocabulary into its parts.

    >>> tuple(parse_ngram("1␟ca")), tuple(parse_ngram("~act"))
    (('1', 'pairs', 'ca'), ('', 'sorted_trigrams', 'act'))
    >>> parse_ngram("cat").kind, parse_ngram("#cat#").kind
    ('trigrams', 'whole_word')
    """
    mark, rest = split_mark(ngram)
    field = mark[:1]
    if rest[:1] == SORTED:
        return Ngram(field, "sorted_trigrams", rest[1:])
    if len(rest) == 2:
        return Ngram(field, "pairs", rest)
    return Ngram(field, "trigrams" if len(rest) == 3 else WHOLE_WORD, rest)


# An unseen n-gram's bucket: a linear hash of its code points, exact in signed 64-bit integers
# (each product is below 2**61), so that Python and TensorFlow agree.
BUCKET_MULTIPLIERS = (1_000_003_337, 2_654_435_761, 1_620_619_981)
FIELD_MULTIPLIER = 1_181_783_497
BUCKET_MODULUS = 2_147_483_647
KIND_TERMS: dict[str, int] = {
    "pairs": 1_442_695_041,
    "trigrams": 0,
    "sorted_trigrams": 1_732_050_807,
}


def bucket(ngram: str, buckets: int) -> int:
    """The hash bucket, `0 <= bucket < buckets`, of a letter n-gram outside the vocabulary."""
    field, kind, characters = parse_ngram(ngram)
    total = sum(m * ord(c) for m, c in zip(BUCKET_MULTIPLIERS, characters, strict=False))
    total += KIND_TERMS[kind] + FIELD_MULTIPLIER * int(field or 0)
    return total % BUCKET_MODULUS % buckets
