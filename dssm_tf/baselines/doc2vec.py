"""Paragraph vectors, by the gensim library: a text's vector helps to predict its words."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PrivateAttr

from dssm_tf.baselines.base import Baseline, Click, Floats, LearnedShapes
from dssm_tf.baselines.clicked_pairs import ClickedPairs
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.common.errors import UserError, install_command
from dssm_tf.common.field_types import PositiveInt, Seed
from dssm_tf.common.progress import progress_of
from dssm_tf.text.rules import FOLDED

Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ParagraphVectors:
    """The weights of a trained model.

    Attributes:
        texts: normalized, sorted; those that training read.
        words: the words in gensim's order.
        counts: occurrences of each word, `(words,)`.
        word_vectors: `(words, size)`.
        text_vectors: `(texts, size)`.
        output_vectors: `(words, size)`.
    """

    texts: tuple[str, ...]
    words: tuple[str, ...]
    counts: NDArray[np.int64]
    word_vectors: Vectors
    text_vectors: Vectors
    output_vectors: Vectors


class Doc2Vec(Baseline[ParagraphVectors]):
    """Scores titles by the cosine between their paragraph vector and the query's.

    gensim trains words and paragraphs together (its default, the distributed memory model with the
    mean of the vectors) on the query and the title of every distinct clicked pair and on every
    title of the corpus; equal texts share one vector. A text that training read has the vector it
    got there. For another text, gensim continues training with everything but the text's own vector
    fixed. The start depends on `seed` and the text only: not on the process, nor on earlier texts.

    A text without a known word has no vector and scores 0.

    Reference: Le and Mikolov 2014; settings of Palangi et al. 2016, sec. V-B.
    """

    name = "doc2vec"
    learned_type = ParagraphVectors
    learned_shapes: ClassVar[LearnedShapes] = {
        "counts": ("words",),
        "word_vectors": ("words", "size"),
        "text_vectors": ("texts", "size"),
        "output_vectors": ("words", "size"),
    }

    size: PositiveInt = Field(default=100, description="Length of a vector.")
    window: PositiveInt = Field(
        default=5, description="Words before and after that predict a word."
    )
    min_count: PositiveInt = Field(
        default=1, description="Words with fewer occurrences are left out."
    )
    sample: NonNegativeFloat = Field(
        default=1e-4,
        description="Fraction of all words above which occurrences of a word are left out at "
        "random.",
    )
    negative: PositiveInt = Field(default=5, description="Random words drawn against each word.")
    epochs: PositiveInt = Field(
        default=30, description="Passes over the texts, and over a new text."
    )
    seed: Seed = Field(default=0, description="Seed of all random numbers.")

    _tags: dict[str, int] = PrivateAttr()
    _model: Any = PrivateAttr()

    def _fit(self, clicks: list[Click], titles: list[str]) -> ParagraphVectors:
        pairs = ClickedPairs.from_clicks(clicks)
        texts = [*pairs.queries, *pairs.titles, *filter(None, map(FOLDED.key, titles))]
        distinct = tuple(sorted(set(texts)))
        tags = {text: tag for tag, text in enumerate(distinct)}
        tagged = _gensim().TaggedDocument
        documents = [tagged(text.split(), [tags[text]]) for text in texts]
        model = self._new_model()
        if documents:
            model.build_vocab(documents)
        if not len(model.wv):
            raise UserError(
                f"{self.name} received {len(distinct)} texts with words, and no word that occurs "
                f"{self.min_count} times; it needs texts to learn from."
            )
        from gensim.models.callbacks import CallbackAny2Vec

        class Epochs(CallbackAny2Vec):
            def on_epoch_end(self, model: Any) -> None:
                task.advance()

        with progress_of(self.name, self.epochs, self._show_progress, "epochs") as task:
            model.train(
                documents,
                total_examples=len(documents),
                epochs=self.epochs,
                callbacks=[Epochs()],
            )
        return ParagraphVectors(
            distinct,
            tuple(model.wv.index_to_key),
            model.wv.expandos["count"],
            model.wv.vectors,
            model.dv.vectors,
            model.syn1neg,
        )

    def _build_index(self) -> None:
        learned = self.learned
        self._tags = {text: tag for tag, text in enumerate(learned.texts)}
        self._model = self._new_model()
        # The words are in gensim's order; its sorting would change that of equal counts.
        self._model.sorted_vocab = False
        counts = dict(zip(learned.words, learned.counts.tolist(), strict=True))
        self._model.build_vocab_from_freq(counts)
        self._model.wv.vectors, self._model.syn1neg = learned.word_vectors, learned.output_vectors

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Paragraph vectors of length one, or zero for a text without a known word."""
        distinct, indices = FOLDED.distinct(texts)
        vectors = np.array([self._vector(text) for text in distinct], np.float64)
        vectors = vectors.reshape(-1, self.size)
        lengths = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
        return (vectors / np.where(lengths > 0, lengths, 1.0))[indices]

    def most_similar(self, word: str, number: int = 10) -> list[tuple[str, float]]:
        """The words with the largest cosines to a word, largest first.

        A sanity check of the training: they should have similar meanings.

        Raises:
            UserError: the model was not trained on the word.

        Reference: Palangi et al. 2016, supplement F.
        """
        key = FOLDED.key(word)
        if key not in self._model.wv:
            raise UserError(f"{self.name} was not trained on the word {word!r}.")
        return self._model.wv.most_similar(key, topn=number)

    def _encode_titles(self, titles: tuple[str, ...]) -> Floats:
        return self.vectors(titles).T

    def _score(self, queries: Sequence[str], encoded: Floats) -> Floats:
        return stable_product(self.vectors(queries), encoded)

    def _new_model(self) -> Any:
        """A gensim model with these parameters; several workers would make it random."""
        options = self.parameters()
        return _gensim().Doc2Vec(vector_size=options.pop("size"), workers=1, **options)

    def _vector(self, text: str) -> Vectors:
        """The vector of a normalized text.

        A new text is inferred as by gensim's `infer_vector`, but from a start that depends on the
        text alone. `infer_vector` starts from Python's `hash` of the text, which differs between
        processes, and continues with the current state of the model's generator.
        """
        known = [word for word in text.split() if word in self._model.wv]
        if not known:
            return np.zeros(self.size, np.float32)
        if text in self._tags:
            return self.learned.text_vectors[self._tags[text]]
        start = np.random.default_rng([self.seed, zlib.crc32(text.encode())])
        vector = ((start.random((1, self.size)) - 0.5) / self.size).astype(np.float32)
        self._model.random.seed(int(start.integers(1 << 31)))
        for rate in np.linspace(self._model.alpha, self._model.min_alpha, self.epochs):
            _gensim().train_document_dm(
                self._model,
                known,
                [0],
                float(rate),
                learn_words=False,
                learn_hidden=False,
                doctag_vectors=vector,
                doctags_lockf=np.ones(1, np.float32),
            )
        return vector[0]


def _gensim() -> Any:
    """The library's paragraph vectors, an extra."""
    try:
        from gensim.models import doc2vec
    except ImportError as error:
        raise UserError(
            f"doc2vec needs the gensim library: {install_command('baselines')}."
        ) from error
    return doc2vec
