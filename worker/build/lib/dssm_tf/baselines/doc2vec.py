"""Paragraph vectors, by the gensim library: a text's vector helps to predict its words."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import AtLeastZero, Baseline, Click, Count, Floats, Seed
from dssm_tf.baselines.clicked_pairs import ClickedPairs
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.common.errors import UserError, install
from dssm_tf.common.progress import progress_of
from dssm_tf.text.rules import FOLDED

Vectors = NDArray[np.float32]


class Doc2Vec(Baseline):
    """Scores titles by the cosine between their paragraph vector and the query's.

    gensim trains words and paragraphs together (its default, the distributed memory model with the
    mean of the vectors) on the query and the title of every distinct clicked pair and on every
    title of the corpus; equal texts share one vector. A text that training saw has the vector it
    got there. For another one, gensim's training goes on with everything but its own vector held
    fixed, from a start that follows from `seed` and the text: not from the process, nor from what
    was asked before.

    A text without a known word has no vector and scores 0.

    Args:
        size: numbers of a vector.
        window: words before and after that predict a word.
        min_count: words that are rarer in the texts are left out.
        sample: share of all words above which a word is left out at random.
        negative: words drawn against each word.
        epochs: passes over the texts, and over a new text.
        seed: of everything random.

    Reference: Le and Mikolov 2014; settings of Palangi et al. 2016, sec. V-B.
    """

    name = "doc2vec"
    size: Count = 100
    window: Count = 5
    min_count: Count = 1
    sample: AtLeastZero = 1e-4
    negative: Count = 5
    epochs: Count = 30
    seed: Seed = 0

    texts: tuple[str, ...]
    words: tuple[str, ...]
    counts: NDArray[np.int64]
    word_vectors: Vectors
    text_vectors: Vectors
    output_vectors: Vectors

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        pairs = ClickedPairs.of(clicks)
        texts = [*pairs.queries, *pairs.titles, *filter(None, map(FOLDED.key, titles))]
        self.texts = tuple(sorted(set(texts)))
        tags = {text: tag for tag, text in enumerate(self.texts)}
        tagged = _gensim().TaggedDocument
        documents = [tagged(text.split(), [tags[text]]) for text in texts]
        model = self._untrained()
        if documents:
            model.build_vocab(documents)
        if not len(model.wv):
            raise UserError(
                f"{self.name} got {len(self.texts)} texts with words and no word that they hold "
                f"{self.min_count} times; it needs texts to learn from."
            )
        from gensim.models.callbacks import CallbackAny2Vec

        class Epochs(CallbackAny2Vec):
            def on_epoch_end(self, model: Any) -> None:
                task.advance()

        with progress_of(self.name, self.epochs, self.progress, "epochs") as task:
            model.train(
                documents,
                total_examples=len(documents),
                epochs=self.epochs,
                callbacks=[Epochs()],
            )
        self.words = tuple(model.wv.index_to_key)
        self.counts = model.wv.expandos["count"]
        self.word_vectors, self.text_vectors = model.wv.vectors, model.dv.vectors
        self.output_vectors = model.syn1neg

    def _index(self) -> None:
        self._tags = {text: tag for tag, text in enumerate(self.texts)}
        self._model = self._untrained()
        # The words stand in gensim's order; its sorting would change that of equal counts.
        self._model.sorted_vocab = False
        self._model.build_vocab_from_freq(dict(zip(self.words, self.counts.tolist(), strict=True)))
        self._model.wv.vectors, self._model.syn1neg = self.word_vectors, self.output_vectors

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Paragraph vectors of length one, or zero for a text without a known word."""
        distinct, places = FOLDED.distinct(texts)
        found = [self._vector(text) for text in distinct]
        vectors = np.array(found, np.float64).reshape(-1, self.size)
        lengths = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
        return (vectors / np.where(lengths > 0, lengths, 1.0))[places]

    def most_similar(self, word: str, number: int = 10) -> list[tuple[str, float]]:
        """The words whose vectors have the largest cosines with a word's, largest first.

        A sanity check of the training: they should be words for similar things.

        Raises:
            UserError: the word is not among those it was trained on.

        Reference: Palangi et al. 2016, supplement F.
        """
        key = FOLDED.key(word)
        if key not in self._model.wv:
            raise UserError(f"{self.name} was not trained on the word {word!r}.")
        return self._model.wv.most_similar(key, topn=number)

    def _prepare(self, titles: tuple[str, ...]) -> Floats:
        return self.vectors(titles).T

    def _score(self, queries: Sequence[str], prepared: Floats) -> Floats:
        return stable_product(self.vectors(queries), prepared)

    def _untrained(self) -> Any:
        """A model of gensim's with these parameters; several workers would take turns by chance."""
        options = self.parameters()
        return _gensim().Doc2Vec(vector_size=options.pop("size"), workers=1, **options)

    def _vector(self, text: str) -> Vectors:
        """The vector of a normalised text.

        For a new one it is what gensim's `infer_vector` does, but from a start that follows from
        the text alone. `infer_vector` starts from Python's `hash` of the text, which differs
        between processes, and draws on from wherever the model's generator happens to be.
        """
        known = [word for word in text.split() if word in self._model.wv]
        if not known:
            return np.zeros(self.size, np.float32)
        if text in self._tags:
            return self.text_vectors[self._tags[text]]
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
        raise UserError(f"doc2vec needs the gensim library: {install('baselines')}.") from error
    return doc2vec
