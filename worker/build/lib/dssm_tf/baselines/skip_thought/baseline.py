"""Skip-thought vectors as a ranker: the cosine of a query and a title."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import AboveZero, Baseline, Click, Count, Seed
from dssm_tf.baselines.skip_thought.published import UNKNOWN, Arrays, read_published
from dssm_tf.text.rules import Rules

if TYPE_CHECKING:
    from typing_extensions import Self

Vectors = NDArray[np.float32]

_BLOCK = 64  # texts that are encoded together
_WORDS = 256  # of a text that are read


class SkipThought(Baseline):
    """Scores a title by the cosine of its thought vector and the query's.

    With `weights` nothing is learned, as in the paper, which takes the published combine-skip
    vectors. Without, `fit` trains on the log. Skip-thought wants contiguous text,
    which queries and titles are not; what follows what is taken to be

        title, title, query 1, query 1, title, title, query 2, query 2, ..., title, title

    for each title with the distinct queries it was clicked for, in the order of the log. So each
    text stands beside itself, which keeps its words in its vector, and beside a text that it was
    clicked with, which brings the two together.
    Without clicks the titles of the corpus are one passage, in its order: a makeshift.

    Words are split as everywhere in this package (lower case, no punctuation); the published
    weights were trained on tokens of the Penn Treebank kind, in which punctuation marks are words.
    Words that the dictionary lacks have the vector of `UNK`; a text without any known word has
    the zero vector. No `<eos>` is appended, which is the published default.

    Args:
        weights: directory of the published weights, see `published`.
        kind: `uni`, `bi` or `combine`; None takes all that `weights` has, and trains `uni`.
        units: size of the uni-skip and of the bi-skip vector, half of it a direction.
        word_units: size of the word vectors.
        vocabulary: most frequent words that are known.
        predicted: most frequent words that the decoders tell apart.
        max_words: words of a text that are learned from.
        epochs: passes over the text.
        learning_rate: of Adam.
        max_steps: training steps at most, of each encoder; None for all.
        seed: of the first weights and the order of batches.

    Attributes:
        dictionary: the word of each row of the tables of word vectors.
        encoders: `uni_table` and `bi_table`, word vectors, and `uni_0`, `uni_1`, ..., the weights
            of the Keras layers.
        published: whether they are the release's, whose words keep their accents and whose reset
            gate acts after the product with the recurrent matrix; in the paper it acts before.

    Reference: Palangi et al. 2016, sec. V-B and table IV; Kiros et al. 2015.
    """

    name = "skip_thought"
    weights: str | None = None
    kind: Literal["uni", "bi", "combine"] | None = None
    units: Count = 300
    word_units: Count = 300
    vocabulary: Count = 5000
    predicted: Count = 5000
    max_words: Count = 15
    epochs: Count = 2
    learning_rate: AboveZero = 3e-3
    max_steps: Count | None = 300
    seed: Seed = 0

    dictionary: tuple[str, ...]
    encoders: Arrays
    published: bool

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        if self.weights is None:
            self.fit_text(_passages(clicks) or [titles])
        else:
            self.dictionary, self.encoders = read_published(Path(self.weights), self.kind)
            self.published = True

    def fit_text(self, passages: Iterable[Sequence[str]]) -> Self:
        """Learns from contiguous text.

        Args:
            passages: sentences that follow each other.

        Raises:
            UserError: there are no two neighbouring sentences, or training diverges.
        """
        from dssm_tf.baselines.skip_thought.networks import Text, train  # Keras takes seconds

        text = Text.of(passages, self.vocabulary, self.max_words)
        self.dictionary, self.encoders, self.published = text.dictionary, {}, False
        for name in ("uni", "bi") if self.kind == "combine" else (self.kind or "uni",):
            self.encoders |= train(text, name, self)
        return self._ready()

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Reads what `save` wrote, or the published weights."""
        if (Path(directory) / f"{cls.name}.sha256").exists():
            return super().load(directory)
        return cls(weights=str(directory)).fit([], [])

    def _index(self) -> None:
        from dssm_tf.baselines.skip_thought.networks import make_encoder

        self._rows = {word: row for row, word in enumerate(self.dictionary)}
        self._rules = Rules(keep_accents=self.published)
        self._layers = {
            name: make_encoder(
                [self.encoders[key] for key in self.encoders if key[:-1] == f"{name}_"],
                reset_after=self.published,
            )
            for name in ("uni", "bi")
            if f"{name}_table" in self.encoders
        }

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, or zero for a text without a known word: `(len(texts), dimension)`.

        Each encoder's part has the same length, as published; a text's vector does not depend on
        the texts beside it.
        """
        unknown = self._rows.get(UNKNOWN, -1)
        groups: dict[int, list[tuple[int, list[int]]]] = {}
        for place, text in enumerate(texts):
            words = self._rules.words(text)[:_WORDS]
            ids = [row for word in words if (row := self._rows.get(word, unknown)) >= 0]
            if any(row != unknown for row in ids):
                groups.setdefault(len(ids), []).append((place, ids))
        shapes = (layer.compute_output_shape((1, 1, 1)) for layer in self._layers.values())
        vectors = np.zeros((len(texts), sum(shape[-1] for shape in shapes)), np.float32)
        for length, group in groups.items():
            for start in range(0, len(group), _BLOCK):
                places, block = zip(*group[start : start + _BLOCK], strict=True)
                # A matrix product may differ in its last bit with its shape. So a text is always
                # encoded in a block of one shape, which depends on the text's own length only.
                rows = np.zeros((_BLOCK, length), np.int64)
                rows[: len(block)] = block
                vectors[list(places)] = self._encode(rows)[: len(block)]
        return vectors

    def _encode(self, ids: NDArray[np.int64]) -> Vectors:
        """Unit vectors of texts from the rows of their words, `(texts, words)`."""
        parts = []
        for name, layer in self._layers.items():
            words = np.asarray(self.encoders[f"{name}_table"][ids], np.float32)
            thoughts = np.asarray(layer(words), np.float64)
            norms = np.linalg.norm(thoughts, axis=1, keepdims=True)
            parts.append(thoughts / np.maximum(norms, 1e-12))
        return (np.concatenate(parts, axis=1) / np.sqrt(len(parts))).astype(np.float32)

    def _prepare(self, titles: tuple[str, ...]) -> tuple[Vectors, NDArray[np.intp]]:
        # Titles that read alike share one vector, and tie.
        distinct, shared = self._rules.distinct(titles)
        return self.vectors(distinct), shared

    def _score(self, queries: Sequence[str], prepared: Any) -> Vectors:
        vectors, shared = prepared
        # Products in double precision, rounded to single: the order of the sum, which depends on
        # the shape of the matrices, is below what is kept.
        cosines = self.vectors(queries).astype(np.float64) @ vectors.astype(np.float64).T
        return cosines.astype(np.float32)[:, shared]


def _passages(clicks: Iterable[Click]) -> list[list[str]]:
    """The log as contiguous text, see `SkipThought`."""
    asked: dict[str, dict[str, None]] = {}
    for query, title, _ in clicks:
        asked.setdefault(title, {})[query] = None
    return [
        [title, title, *(text for query in queries for text in (query, query, title, title))]
        for title, queries in asked.items()
    ]
