"""Texts to skip-thought vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.text.rules import FOLDED, Rules

Vectors = NDArray[np.float32]

END = "<eos>"
UNKNOWN = "UNK"
MAX_WORDS = 256
_BLOCK = 64
_LENGTHS = (4, 8, 16, 32, 64, 128, MAX_WORDS)


@dataclass(frozen=True)
class Encoder:
    """One trained encoder and its word vectors.

    Args:
        name: `uni` or `bi`.
        table: word vectors `(words, dim)`, a memory map where they are many.
        layer: a `ThoughtEncoder`.
    """

    name: str
    table: NDArray[np.float32]
    layer: Any


class ThoughtVectors:
    """Encodes texts by one encoder (uni-skip or bi-skip) or by two (combine-skip).

    Texts are split as everywhere in this package (lower case, no punctuation); the published
    weights were trained on tokens of the Penn Treebank kind, in which punctuation marks are words.
    Words that the dictionary lacks have the vector of `UNK`; a text without any known word has
    the zero vector, as nothing is known of it. No `<eos>` is appended, which is the published
    default.

    Args:
        rows: the row of each word in the tables.
        encoders: which vectors stand side by side.
        rules: how texts are read; the published weights keep accents.
    """

    def __init__(
        self, rows: Mapping[str, int], encoders: Sequence[Encoder], rules: Rules = FOLDED
    ) -> None:
        self.rules = rules
        self.rows = rows
        self.encoders = tuple(encoders)
        self.dimension = sum(encoder.layer.dimension for encoder in encoders)

    def __call__(
        self, texts: Sequence[str], told: Callable[[int], object] = lambda done: None
    ) -> Vectors:
        """Unit vectors float32 `(len(texts), dimension)`.

        Each encoder's part has the same length, as published; a text's vector does not depend on
        the texts beside it.

        Args:
            texts: raw; the first 256 words of each are read.
            told: told how many are done.
        """
        unknown = self.rows.get(UNKNOWN, -1)
        groups: dict[int, dict[tuple[int, ...], list[int]]] = {}
        for place, text in enumerate(texts):
            read = self.rules.words(text)[:MAX_WORDS]
            known = [self.rows.get(word, unknown) for word in read]
            ids = tuple(row for row in known if row >= 0)
            if any(row != unknown for row in ids):
                length = next(length for length in _LENGTHS if len(ids) <= length)
                groups.setdefault(length, {}).setdefault(ids, []).append(place)
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        done = 0
        for length, group in sorted(groups.items()):
            distinct = list(group)
            for start in range(0, len(distinct), _BLOCK):
                chunk = distinct[start : start + _BLOCK]
                for ids, vector in zip(chunk, self._block(chunk, length), strict=True):
                    vectors[group[ids]] = vector
                done += sum(len(group[ids]) for ids in chunk)
                told(done)
        return vectors

    def _block(self, texts: Sequence[tuple[int, ...]], length: int) -> Vectors:
        """Vectors of texts of at most `length` words.

        A matrix product may differ in its last bit with its shape. So a text is always encoded
        in a block of the same shape, which depends on the text's own length only.
        """
        ids = np.zeros((_BLOCK, length), np.int64)
        present = np.zeros((_BLOCK, length), bool)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            present[row, : len(text)] = True
        parts = []
        for encoder in self.encoders:
            word_vectors = np.asarray(encoder.table[ids], np.float32)
            thoughts = np.asarray(encoder.layer(word_vectors, present=present), np.float64)
            norms = np.linalg.norm(thoughts, axis=1, keepdims=True)
            parts.append(thoughts / np.maximum(norms, 1e-12))
        joined = np.concatenate(parts, axis=1) / np.sqrt(len(parts))
        return joined[: len(texts)].astype(np.float32)
