"""Reads and checks the files of a search index of a model with the score maxsim.

index.json      `format`; `score`, which is maxsim; `similar_words` and `rescored`, see
                `dssm_tf.retrieval.maxsim_index`
titles.arrow    `doc_id` and `title` of each entry of the corpus, in order
words.arrow     `word`: the distinct words of the titles; a word's position is its row
arrays/         one `.npy` file for each field of `Arrays`
model/          the model in its compact form
clicked_titles.npy
                only with remembered clicks, see `dssm_tf.retrieval.clicked_titles`
SHA256SUMS
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import map_array, write_array
from dssm_tf.common.errors import UserError
from dssm_tf.common.json_files import read_json
from dssm_tf.retrieval.arrow_files import has_compressed_batches

SETTINGS, WORDS, ARRAYS = "index.json", "words.arrow", "arrays"

FORMAT = 2
"""Increased when older versions of this package cannot read the files."""

REBUILD_HINT = "Build it again: dssm index --model RUN --corpus CORPUS --out INDEX"


class Arrays(NamedTuple):
    """The arrays of an index: its postings, vectors and weights.

    Titles are distinct: entries of the corpus with the same words are one title. Titles are
    in the order of `dssm_tf.evaluation.ranking.tie_key`.

    Attributes:
        word_starts: int64 `(words + 1,)`, the start of each word's titles in `word_titles`.
        word_titles: int32, ascending for each word.
        pair_starts: int64 `(pairs + 1,)`, the same for pairs.
        pair_titles: int32, the same for pairs.
        title_starts: int64 `(titles + 1,)`, the start of each title's words in `title_words`.
        title_words: int32, rows of words, ascending for each title.
        title_pair_starts: int64 `(titles + 1,)`, the same for pairs.
        title_pairs: int32, the same for pairs.
        doc_starts: int64 `(titles + 1,)`, the start of each title's entries in `docs`.
        docs: int32 `(entries,)`, positions in the corpus, ascending for each title.
        pair_keys: int64 `(pairs,)`, ascending: for the words at rows `v` and `w`, `v * words + w`.
        vectors: float32 `(words, dimension)`, the unit vectors of words.
        similar_rows: int32 `(words, similar words)`, rows of the similar words of each word, most
            similar first; see `dssm_tf.runtime.similar_words`. Rows of similarity 0 do not count.
        similarities: float32 `(words, similar words)`, from 1 to 0.
        query_weights: float32 `(words,)`, the weight of each word in a query, `a` in
            `dssm_tf.runtime.maxsim`.
        word_weights: float32 `(words,)`, the weight of each word in a title, `b`.
        pair_weights: float64 `(pairs,)`, the weight of each pair in a title, `b`.
        inverse_totals: float32 `(titles,)`, the weight of the title side divided by the sum of the
            weights of a title's words and pairs.
        priors: float32 `(titles,)`, weighted log-priors.
    """

    word_starts: NDArray[np.int64]
    word_titles: NDArray[np.int32]
    pair_starts: NDArray[np.int64]
    pair_titles: NDArray[np.int32]
    title_starts: NDArray[np.int64]
    title_words: NDArray[np.int32]
    title_pair_starts: NDArray[np.int64]
    title_pairs: NDArray[np.int32]
    doc_starts: NDArray[np.int64]
    docs: NDArray[np.int32]
    pair_keys: NDArray[np.int64]
    vectors: NDArray[np.float32]
    similar_rows: NDArray[np.int32]
    similarities: NDArray[np.float32]
    query_weights: NDArray[np.float32]
    word_weights: NDArray[np.float32]
    pair_weights: NDArray[np.float64]
    inverse_totals: NDArray[np.float32]
    priors: NDArray[np.float32]

    @property
    def titles(self) -> int:
        """The number of distinct titles."""
        return len(self.priors)


_DTYPES = {
    np.int64: ("word_starts", "pair_starts", "title_starts", "title_pair_starts", "doc_starts",
               "pair_keys"),
    np.int32: ("word_titles", "pair_titles", "title_words", "title_pairs", "docs",
               "similar_rows"),
    np.float32: ("vectors", "similarities", "query_weights", "word_weights", "inverse_totals",
                 "priors"),
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
}
"""The smallest and the largest number of arrays of floats."""
_ROUNDING = 1e-3  # of the square of the length of a vector


def write_files(
    directory: Path, similar_words: int, rescored: int, words: list[str], arrays: Arrays
) -> None:
    """Writes `SETTINGS`, `WORDS` and `ARRAYS` into a directory."""
    import pyarrow
    from pyarrow import feather

    settings = {
        "format": FORMAT, "score": "maxsim", "similar_words": similar_words, "rescored": rescored
    }  # fmt: skip
    (directory / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
    table = pyarrow.table({"word": words})
    feather.write_feather(table, directory / WORDS, compression="uncompressed")
    for name in Arrays._fields:
        write_array(directory / ARRAYS / f"{name}.npy", getattr(arrays, name))


def read_settings(directory: Path) -> tuple[int, int]:
    """The number of similar words and the number of rescored titles of an index.

    Raises:
        UserError: the file is of another format, or a value is impossible.
    """
    path = directory / SETTINGS
    settings = read_json(path, REBUILD_HINT)
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        version = settings.get("format") if isinstance(settings, dict) else None
        raise UserError(
            f"{directory} is of format {version!r:.20}; this version reads {FORMAT}. {REBUILD_HINT}"
        )
    for name in ("similar_words", "rescored"):
        value = settings.get(name)
        if type(value) is not int or not 1 <= value < 1 << 31:
            raise UserError(
                f"{path}: {name} is {value!r:.60}; expected a whole number, at least 1 and below "
                f"2^31. {REBUILD_HINT}"
            )
    return settings["similar_words"], settings["rescored"]


def read_words(directory: Path, mapped: bool = True) -> list[str]:
    """The words of an index, by row.

    Raises:
        UserError: the file cannot be read, or a word is repeated.
    """
    words: list[str] = read_table(directory / WORDS, ("word",), mapped)["word"].to_pylist()
    if len(set(words)) != len(words):
        raise UserError(f"{directory / WORDS}: a word is listed twice. {REBUILD_HINT}")
    return words


def read_table(
    path: Path, columns: tuple[str, ...], mapped: bool = True, has_more: bool = False
) -> Any:
    """Memory-maps an Arrow table of texts, or reads it into memory.

    Args:
        path: the table.
        columns: the names of its columns.
        mapped: False to read it into memory.
        has_more: whether further columns of texts or numbers may follow, see `title_columns`.

    Raises:
        UserError: the file is not such a table, or a text is missing.
    """
    import pyarrow
    from pyarrow import feather

    try:
        if has_compressed_batches(path):
            raise UserError(
                f"{path} is compressed; tables of an index are written without compression. "
                f"{REBUILD_HINT}"
            )
        table = feather.read_table(path, memory_map=mapped)
        table.validate(full=True)
    except (OSError, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise UserError(f"{path} is not an Arrow table: {reason}. {REBUILD_HINT}") from None
    types = [(name, pyarrow.string()) for name in columns]
    received = [(field.name, field.type) for field in table.schema]
    further = received[len(types) :] if has_more else []
    kinds = (pyarrow.string(), pyarrow.float64())
    is_valid = received == types + further and all(kind in kinds for _, kind in further)
    if not is_valid or len({*table.schema.names}) < len(received):
        raise UserError(
            f"{path} has the columns {table.schema.names}; expected texts in {list(columns)}. "
            f"{REBUILD_HINT}"
        )
    for name, kind in received:
        if kind == pyarrow.float64():
            if not np.isfinite(table[name].drop_null().to_numpy()).all():
                raise UserError(f"{path}: a number of {name!r} is not finite. {REBUILD_HINT}")
        elif table[name].null_count:
            raise UserError(f"{path}: a text is missing. {REBUILD_HINT}")
    return table


def read_arrays(
    directory: Path, words: int, entries: int, dimension: int, mapped: bool = True
) -> Arrays:
    """Memory-maps or reads, and checks the arrays of an index.

    Args:
        directory: the index.
        words: the number of words.
        entries: the number of entries of the corpus.
        dimension: the length of a word's vector.
        mapped: False to read the files into memory.

    Raises:
        UserError: an array cannot be read, or a search would read outside of it.
    """
    folder = directory / ARRAYS
    arrays = Arrays(
        *(map_array(folder / f"{name}.npy", REBUILD_HINT, mapped) for name in Arrays._fields)
    )
    problem = array_problem(arrays, words, entries, dimension)
    if problem is not None:
        name, message = problem
        raise UserError(f"{folder / name}.npy: {message}. {REBUILD_HINT}")
    return arrays


def array_problem(
    arrays: Arrays, words: int, entries: int, dimension: int
) -> tuple[str, str] | None:
    """Finds an array that does not fit the others.

    Args:
        arrays: the arrays.
        words: the number of words.
        entries: the number of entries of the corpus.
        dimension: the length of a word's vector.

    Returns:
        Its name and the problem; None if all arrays are valid.
    """
    for dtype, names in _DTYPES.items():
        for name in names:
            received = getattr(arrays, name).dtype
            if received != dtype:
                return name, f"it has {received}; expected {np.dtype(dtype)}"
    titles, pairs = arrays.priors.size, arrays.pair_keys.size
    shapes = {
        "word_starts": (words + 1,), "pair_starts": (pairs + 1,), "title_starts": (titles + 1,),
        "title_pair_starts": (titles + 1,), "doc_starts": (titles + 1,), "docs": (entries,),
        "pair_keys": (pairs,), "vectors": (words, dimension), "word_weights": (words,),
        "query_weights": (words,), "similarities": arrays.similar_rows.shape,
        "pair_weights": (pairs,), "inverse_totals": (titles,), "priors": (titles,),
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
    if words and squares.max() > 1 + _ROUNDING:
        return "vectors", "a vector is longer than 1"
    if problem := _similar_words_problem(arrays.similar_rows, arrays.similarities, words):
        return problem
    if pairs and not (arrays.pair_keys[0] >= 0 and arrays.pair_keys[-1] < words**2):
        return "pair_keys", "a number is out of range"
    if (np.diff(arrays.pair_keys) <= 0).any():
        return "pair_keys", "the numbers do not increase"
    for starts, items, limit in (
        ("word_starts", "word_titles", titles), ("pair_starts", "pair_titles", titles),
        ("title_starts", "title_words", words), ("title_pair_starts", "title_pairs", pairs),
        ("doc_starts", "docs", entries),
    ):  # fmt: skip
        first, numbers = getattr(arrays, starts), getattr(arrays, items)
        if numbers.ndim != 1:
            return items, f"its shape is {numbers.shape}; expected one dimension"
        if first[0] != 0 or first[-1] != len(numbers) or (np.diff(first) < 0).any():
            return starts, f"expected numbers from 0 to {len(numbers)} that never decrease"
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < limit):
            return items, f"a number is out of range; expected 0 to {limit - 1}"
        # Numbers increase, except from the end of one list to the start of the next.
        not_increasing = np.flatnonzero(np.diff(numbers) <= 0) + 1
        if not np.isin(not_increasing, first).all():
            return items, "the numbers of a list do not increase"
    if (np.bincount(arrays.docs, minlength=entries) != 1).any():
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
    return _sum_of_products(term_factors, term_starts, title_factors, titles) == _sum_of_products(
        title_factors, title_starts, term_factors, terms
    )


def _sum_of_products(
    factors: NDArray[np.uint64],
    starts: NDArray[np.int64],
    factors_of_items: NDArray[np.uint64],
    items: NDArray[np.int32],
) -> int:
    """The sum of the products of each list's factor and each of its items' factors, modulo 2^64.

    Args:
        factors: the factor of each list.
        starts: `(lists + 1,)`, the start of each list in `items`.
        factors_of_items: the factor of each item.
        items: indices of items.
    """
    sums = np.append(np.uint64(0), np.cumsum(factors_of_items[items], dtype=np.uint64))
    sums_of_lists = sums[starts[1:]] - sums[starts[:-1]]
    return int((factors[: len(sums_of_lists)] * sums_of_lists).sum(dtype=np.uint64))


def _totals_are_equal(arrays: Arrays) -> bool:
    """Whether all titles with words have the same product of total weight and inverse total."""
    totals = np.zeros(arrays.titles)
    for starts, items, weights in (
        (arrays.title_starts, arrays.title_words, arrays.word_weights),
        (arrays.title_pair_starts, arrays.title_pairs, arrays.pair_weights),
    ):
        sums = np.append(0, np.cumsum(weights[items], dtype=np.float64))
        totals += sums[starts[1:]] - sums[starts[:-1]]
    products = (totals * arrays.inverse_totals)[np.diff(arrays.title_starts) > 0]
    return not products.size or bool(np.ptp(products) <= _ROUNDING * products.max())


def _similar_words_problem(
    rows: NDArray[np.int32], similarities: NDArray[np.float32], words: int
) -> tuple[str, str] | None:
    """Describes the problem of the table of similar words; see `array_problem`."""
    if rows.ndim != 2 or len(rows) != words:
        return "similar_rows", f"its shape is {rows.shape}; expected ({words}, similar words)"
    if rows.size and not (rows.min() >= 0 and rows.max() < words):
        return "similar_rows", f"a number is out of range; expected 0 to {words - 1}"
    if similarities.size and not (similarities.min() >= 0 and similarities.max() <= 1):
        return "similarities", "a number is out of range; expected 0 to 1"
    if (np.diff(similarities, axis=1) > 0).any():
        return "similarities", "the numbers of a word increase"
    return None
