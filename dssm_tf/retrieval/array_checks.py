"""Checks that the arrays of a maxsim index fit each other: no search reads outside of one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssm_tf.retrieval.index_arrays import Arrays, read_only
from dssm_tf.retrieval.load_kernels import load_kernels

_DTYPES = {
    np.int64: ("word_starts", "pair_starts", "title_starts", "title_pair_starts", "doc_starts",
               "pair_keys"),
    np.int32: ("word_titles", "pair_titles", "title_words", "title_pairs", "docs",
               "similar_rows"),
    np.float32: ("vectors", "similarities", "query_weights", "word_weights", "inverse_totals",
                 "priors", "text_vectors", "text_scales"),
    np.float64: ("pair_weights",),
}  # fmt: skip


_LARGEST = 1e9  # of weights
_RANGES = {
    "vectors": (-1.001, 1.001),
    "similarities": (-np.inf, np.inf),  # see `_similar_words_problem`
    "query_weights": (0.0, _LARGEST),
    "word_weights": (0.0, _LARGEST),
    "pair_weights": (0.0, _LARGEST),
    "inverse_totals": (0.0, np.inf),
    "priors": (-1e12, 1e12),
    "text_vectors": (-_LARGEST, _LARGEST),
    "text_scales": (0.0, 1e15),
}
"""The smallest and the largest number of arrays of floats."""
_ROUNDING = 1e-3  # of the square of the length of a vector


def array_problem(
    arrays: Arrays, word_count: int, entry_count: int, dimension: int, text_dimension: int
) -> tuple[str, str] | None:
    """Finds an array that does not fit the others.

    Args:
        arrays: the arrays.
        word_count: the number of words.
        entry_count: the number of entries of the corpus.
        dimension: the length of a word's vector.
        text_dimension: the length of a text's vector; 0 without text vectors.

    Returns:
        Its name and the problem; None if all arrays are valid.
    """
    for dtype, names in _DTYPES.items():
        for name in names:
            received = getattr(arrays, name).dtype
            if received != dtype:
                return name, f"it has {received}; expected {np.dtype(dtype)}"
    kernels = load_kernels()
    # Plain arrays, all read-only, so that the functions are compiled for one type of arguments.
    arrays = read_only(arrays)
    titles, pairs = arrays.priors.size, arrays.pair_keys.size
    shapes = {
        "word_starts": (word_count + 1,), "pair_starts": (pairs + 1,), "docs": (entry_count,),
        "title_starts": (titles + 1,), "title_pair_starts": (titles + 1,),
        "doc_starts": (titles + 1,),
        "pair_keys": (pairs,), "vectors": (word_count, dimension), "word_weights": (word_count,),
        "query_weights": (word_count,), "similarities": arrays.similar_rows.shape,
        "pair_weights": (pairs,), "inverse_totals": (titles,), "priors": (titles,),
        "text_vectors": (word_count, text_dimension), "text_scales": (titles,),
    }  # fmt: skip
    for name, shape in shapes.items():
        if (received := getattr(arrays, name).shape) != shape:
            return name, f"its shape is {received}; expected {shape}"
    for name, (low, high) in _RANGES.items():
        array = getattr(arrays, name)
        if not np.isfinite(array).all():
            return name, "a number is not finite"
        if array.size and not low <= float(array.min()) <= float(array.max()) <= high:
            return name, f"a number is out of range; expected {low:g} to {high:g}"
    squares = np.einsum("nd,nd->n", arrays.vectors, arrays.vectors)
    if word_count and squares.max() > 1 + _ROUNDING:
        return "vectors", "a vector is longer than 1"
    if problem := _similar_words_problem(arrays.similar_rows, arrays.similarities, word_count):
        return problem
    if pairs and not (arrays.pair_keys[0] >= 0 and arrays.pair_keys[-1] < word_count**2):
        return "pair_keys", "a number is out of range"
    if (np.diff(arrays.pair_keys) <= 0).any():
        return "pair_keys", "the numbers do not increase"
    for starts, items, limit in (
        ("word_starts", "word_titles", titles), ("pair_starts", "pair_titles", titles),
        ("title_starts", "title_words", word_count), ("title_pair_starts", "title_pairs", pairs),
        ("doc_starts", "docs", entry_count),
    ):  # fmt: skip
        first, numbers = getattr(arrays, starts), getattr(arrays, items)
        if numbers.ndim != 1:
            return items, f"its shape is {numbers.shape}; expected one dimension"
        result = kernels.check_lists(first, numbers, limit)
        if result == kernels.FALSE_STARTS:
            return starts, f"expected numbers from 0 to {len(numbers)} that never decrease"
        if result == kernels.OUT_OF_RANGE:
            return items, f"a number is out of range; expected 0 to {limit - 1}"
        if result == kernels.NOT_INCREASING:
            return items, "the numbers of a list do not increase"
    if (np.bincount(arrays.docs, minlength=entry_count) != 1).any():
        return "docs", "expected each entry of the corpus exactly once"
    if (np.diff(arrays.doc_starts) < 1).any():
        return "doc_starts", "a title has no entry of the corpus"
    for titles_of_terms, terms_of_titles, term_starts, title_starts in (
        ("word_titles", "title_words", arrays.word_starts, arrays.title_starts),
        ("pair_titles", "title_pairs", arrays.pair_starts, arrays.title_pair_starts),
    ):
        by_term, by_title = getattr(arrays, titles_of_terms), getattr(arrays, terms_of_titles)
        if not _same_pairs(term_starts, by_term, title_starts, by_title):
            return titles_of_terms, f"its titles differ from those of {terms_of_titles}"
    if not _totals_are_equal(arrays):
        return "inverse_totals", "a number does not fit the weights of the title's words and pairs"
    return None


def _same_pairs(
    term_starts: NDArray[np.int64],
    titles: NDArray[np.int32],
    title_starts: NDArray[np.int64],
    terms: NDArray[np.int32],
) -> bool:
    """Whether the titles of each term and the terms of each title are the same pairs.

    Each pair of a term and a title becomes the product of two random numbers. The sums modulo 2^64
    are equal for the same pairs, and for other pairs with a probability below 2^-50.

    Args:
        term_starts: int64 `(terms + 1,)`, the start of each term's titles in `titles`.
        titles: the titles of all terms; those of one term are distinct.
        title_starts: int64 `(titles + 1,)`, the start of each title's terms in `terms`.
        terms: the terms of all titles; those of one title are distinct.
    """
    if len(titles) != len(terms):
        return False
    random = np.random.default_rng()
    term_factors, title_factors = (
        random.integers(0, 1 << 64, size, np.uint64)
        for size in (len(term_starts), len(title_starts))
    )
    sum_of_products = load_kernels().sum_of_products
    by_term = sum_of_products(term_factors, term_starts, title_factors, titles)
    return bool(by_term == sum_of_products(title_factors, title_starts, term_factors, terms))


def _totals_are_equal(arrays: Arrays) -> bool:
    """Whether all titles with words have the same product of total weight and inverse total."""
    lowest, highest = load_kernels().range_of_side_weights(
        arrays.title_starts, arrays.title_words, arrays.word_weights,
        arrays.title_pair_starts, arrays.title_pairs, arrays.pair_weights, arrays.inverse_totals,
    )  # fmt: skip
    return bool(highest - lowest <= _ROUNDING * max(highest, 0.0))


def _similar_words_problem(
    rows: NDArray[np.int32], similarities: NDArray[np.float32], word_count: int
) -> tuple[str, str] | None:
    """Describes the problem of the table of similar words; see `array_problem`."""
    if rows.ndim != 2 or len(rows) != word_count:
        return "similar_rows", f"its shape is {rows.shape}; expected ({word_count}, similar words)"
    if rows.size and not (rows.min() >= 0 and rows.max() < word_count):
        return "similar_rows", f"a number is out of range; expected 0 to {word_count - 1}"
    if similarities.size and not (similarities.min() >= 0 and similarities.max() <= 1):
        return "similarities", "a number is out of range; expected 0 to 1"
    if (np.diff(similarities, axis=1) > 0).any():
        return "similarities", "the numbers of a word increase"
    return None
