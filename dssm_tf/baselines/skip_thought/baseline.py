"""Skip-thought vectors as a ranker: scores are cosines of a query's and a title's vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PrivateAttr

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.skip_thought.published import UNKNOWN, Arrays, read_published
from dssm_tf.common.field_types import PositiveInt, Seed
from dssm_tf.text.rules import TextRules

if TYPE_CHECKING:
    from typing_extensions import Self

Vectors = NDArray[np.float32]

_BATCH_SIZE = 64  # texts that are encoded together
_MAX_WORDS = 256  # words that `vectors` reads per text


@dataclass(frozen=True, eq=False)
class ThoughtEncoders:
    """The weights of one or two encoders.

    Attributes:
        dictionary: the word of each row of the tables of word vectors.
        encoders: arrays by name. `uni_table` and `bi_table` are the word vectors; `uni_0`, `uni_1`,
            `bi_0` and so on are the weights of the Keras layers.
        published: whether these are the published weights. Their words keep accents, and their
            reset gate acts after the product with the recurrent matrix. In the paper, the gate acts
            before the product.
    """

    dictionary: tuple[str, ...]
    encoders: Arrays
    published: bool


class SkipThought(Baseline[ThoughtEncoders]):
    """Scores a title by the cosine of its thought vector and the query's.

    With `weights`, `fit` learns nothing. Palangi et al. do the same with the published combine-skip
    vectors. Without `weights`, `fit` trains on the log. Skip-thought needs contiguous text, but
    queries and titles are not contiguous. So `fit` builds this passage:

        title, title, query 1, query 1, title, title, query 2, query 2, ..., title, title

    There is one passage per title, with the distinct queries that it was clicked for, in the order
    of the log. Each text is next to itself, so its vector encodes its own words. It is also next to
    a text of the same click, so the vectors of the two become similar. Without clicks, the titles
    of the corpus form one passage in the order of the corpus, because there is no better text.

    Texts are split into words as everywhere in this package (lower case, no punctuation). The
    published weights were trained on text split as in the Penn Treebank, where punctuation marks
    are words. Words that are not in the dictionary have the vector of `UNK`. A text without a known
    word has the zero vector. Like the published code by default, this class appends no `<eos>`.

    Reference: Palangi et al. 2016, sec. V-B and table IV; Kiros et al. 2015.
    """

    name = "skip_thought"
    learned_type = ThoughtEncoders

    weights: str | None = Field(
        default=None,
        description="Directory of the published weights, see "
        "`dssm_tf.baselines.skip_thought.published`. None trains on the log.",
    )
    kind: Literal["uni", "bi", "combine"] | None = Field(
        default=None,
        description="Encoders to use. None uses all encoders of `weights`, or trains `uni`.",
    )
    units: PositiveInt = Field(
        default=300,
        description="Size of the uni-skip and of the bi-skip vector, half of it per direction.",
    )
    word_units: PositiveInt = Field(default=300, description="Size of the word vectors.")
    vocabulary: PositiveInt = Field(
        default=5000, description="Number of most frequent words that are known."
    )
    predicted: PositiveInt = Field(
        default=5000, description="Number of most frequent words that the decoders distinguish."
    )
    max_words: PositiveInt = Field(default=15, description="Words per text that training reads.")
    epochs: PositiveInt = Field(default=2, description="Passes over the text.")
    learning_rate: PositiveFloat = Field(default=3e-3, description="Learning rate of Adam.")
    max_steps: PositiveInt | None = Field(
        default=300,
        description="Maximum number of training steps of each encoder; None for no limit.",
    )
    seed: Seed = Field(
        default=0, description="Seed of the initial weights and the order of batches."
    )

    _rows: dict[str, int] = PrivateAttr()
    _rules: TextRules = PrivateAttr()
    _layers: dict[str, Any] = PrivateAttr()

    def _fit(self, clicks: list[Click], titles: list[str]) -> ThoughtEncoders:
        if self.weights is None:
            return self._train(_passages(clicks) or [titles])
        dictionary, encoders = read_published(Path(self.weights), self.kind)
        return ThoughtEncoders(dictionary, encoders, published=True)

    def fit_text(self, passages: Iterable[Sequence[str]], *, progress: bool = False) -> Self:
        """Learns from contiguous text.

        Args:
            passages: each is a sequence of consecutive sentences.
            progress: whether to show a progress bar on standard error.

        Raises:
            UserError: no passage has two sentences, or training diverges.
        """
        self._show_progress = progress
        return self._set_learned(self._train(passages))

    def _train(self, passages: Iterable[Sequence[str]]) -> ThoughtEncoders:
        from dssm_tf.baselines.skip_thought.networks import Text, train  # Keras takes seconds

        text = Text.from_passages(passages, self.vocabulary, self.max_words)
        names = ("uni", "bi") if self.kind == "combine" else (self.kind or "uni",)
        encoders: Arrays = {}
        for name in names:
            encoders |= train(text, name, self, progress=self._show_progress)
        return ThoughtEncoders(text.dictionary, encoders, published=False)

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Reads a model that `save` wrote, or the published weights."""
        if (Path(directory) / f"{cls.name}.sha256").exists():
            return super().load(directory)
        return cls(weights=str(directory)).fit([], [])

    def _build_index(self) -> None:
        from dssm_tf.baselines.skip_thought.networks import make_encoder

        learned = self.learned
        size = len(learned.dictionary)
        for name, array in learned.encoders.items():
            if not name.endswith("_table"):
                continue
            columns = len(learned.encoders[name.replace("table", "0")])
            # The published tables may have more rows than the dictionary has words.
            rows = max(size, len(array)) if learned.published else size
            if array.shape != (rows, columns):
                raise ValueError(f"{name} is {array.shape}; expected {(rows, columns)}")
        self._rows = {word: row for row, word in enumerate(learned.dictionary)}
        self._rules = TextRules(keep_accents=learned.published)
        self._layers = {
            name: make_encoder(
                [learned.encoders[key] for key in learned.encoders if key[:-1] == f"{name}_"],
                reset_after=learned.published,
            )
            for name in ("uni", "bi")
            if f"{name}_table" in learned.encoders
        }

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, or zero for a text without a known word: `(len(texts), dimension)`.

        The vectors of the encoders are scaled to equal norms and concatenated, as in the published
        code. A text's vector does not depend on the other texts.
        """
        unknown = self._rows.get(UNKNOWN, -1)
        groups: dict[int, list[tuple[int, list[int]]]] = {}
        for index, text in enumerate(texts):
            words = self._rules.words(text)[:_MAX_WORDS]
            ids = [row for word in words if (row := self._rows.get(word, unknown)) >= 0]
            if any(row != unknown for row in ids):
                groups.setdefault(len(ids), []).append((index, ids))
        shapes = (layer.compute_output_shape((1, 1, 1)) for layer in self._layers.values())
        vectors = np.zeros((len(texts), sum(shape[-1] for shape in shapes)), np.float32)
        for length, group in groups.items():
            for start in range(0, len(group), _BATCH_SIZE):
                indices, block = zip(*group[start : start + _BATCH_SIZE], strict=True)
                # The last bits of a matrix product can depend on its shape. So a text is always
                # encoded in a block of the same shape, which depends only on the text's length.
                rows = np.zeros((_BATCH_SIZE, length), np.int64)
                rows[: len(block)] = block
                vectors[list(indices)] = self._encode(rows)[: len(block)]
        return vectors

    def _encode(self, ids: NDArray[np.int64]) -> Vectors:
        """Unit vectors of texts of equal length, `(texts, dimension)`.

        Args:
            ids: rows of the texts' words in the tables, `(texts, words)`.
        """
        vectors = []
        for name, layer in self._layers.items():
            words = np.asarray(self.learned.encoders[f"{name}_table"][ids], np.float32)
            thoughts = np.asarray(layer(words), np.float64)
            norms = np.linalg.norm(thoughts, axis=1, keepdims=True)
            vectors.append(thoughts / np.maximum(norms, 1e-12))
        return (np.concatenate(vectors, axis=1) / np.sqrt(len(vectors))).astype(np.float32)

    def _encode_titles(self, titles: tuple[str, ...]) -> tuple[Vectors, NDArray[np.intp]]:
        # Titles with the same words share one vector, so they tie.
        distinct, indices = self._rules.distinct(titles)
        return self.vectors(distinct), indices

    def _score(self, queries: Sequence[str], encoded: Any) -> Vectors:
        vectors, indices = encoded
        # The order of the sums in a product depends on the shape of the matrices, and so do its
        # last bits. The product is in double precision; rounding it to single precision removes
        # the difference.
        cosines = self.vectors(queries).astype(np.float64) @ vectors.astype(np.float64).T
        return cosines.astype(np.float32)[:, indices]


def _passages(clicks: Iterable[Click]) -> list[list[str]]:
    """The log as contiguous text, see `SkipThought`."""
    queries_of: dict[str, dict[str, None]] = {}
    for query, title, _ in clicks:
        queries_of.setdefault(title, {})[query] = None
    return [
        [title, title, *(text for query in queries for text in (query, query, title, title))]
        for title, queries in queries_of.items()
    ]
