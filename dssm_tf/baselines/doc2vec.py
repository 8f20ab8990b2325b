"""Paragraph vectors, by the gensim library: a text's vector helps to predict its words."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.ibm1 import ClickedPairs
from dssm_tf.baselines.model_file import Arrays, Settings, numbers, texts_of
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.common.errors import UserError, install
from dssm_tf.common.progress import Task, progress_of
from dssm_tf.evaluation.title_cache import TitleCache
from dssm_tf.text.rules import FOLDED

if TYPE_CHECKING:
    from typing_extensions import Self

_SEEDS = 1 << 31  # NumPy's generator, which gensim uses, takes seeds below twice that


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
        progress: shows a bar on stderr while fitting.

    Reference: Le and Mikolov 2014; settings of Palangi et al. 2016, sec. V-B.
    """

    name = "doc2vec"

    def __init__(
        self,
        *,
        size: int = 100,
        window: int = 5,
        min_count: int = 1,
        sample: float = 1e-4,
        negative: int = 5,
        epochs: int = 30,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        counts = {"size": size, "window": window, "negative": negative, "epochs": epochs}
        for parameter, value in {**counts, "min_count": min_count}.items():
            if value < 1:
                raise ValueError(f"{parameter} is {value}; expected at least 1.")
        if not sample >= 0 or not 0 <= seed < _SEEDS:
            raise ValueError(
                f"sample is {sample} and seed is {seed}; expected at least 0 and below {_SEEDS}."
            )
        self.size = size
        self.window = window
        self.min_count = min_count
        self.sample = sample
        self.negative = negative
        self.epochs = epochs
        self.seed = seed
        self.progress = progress

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Trains on the queries and titles of the clicks and on the titles of the corpus."""
        gensim = _gensim()
        titles = list(titles)
        pairs = ClickedPairs.of(clicks)
        texts = [*pairs.queries, *pairs.titles, *filter(None, map(FOLDED.key, titles))]
        self._texts = tuple(sorted(set(texts)))
        self._index()
        self._model = self._untrained()
        documents = [gensim.TaggedDocument(text.split(), [self._tags[text]]) for text in texts]
        if documents:
            self._model.build_vocab(documents)
        if not len(self._model.wv):
            raise UserError(
                f"{self.name} got {len(self._texts)} texts with words and no word that they hold "
                f"{self.min_count} times; it needs texts to learn from."
            )
        with progress_of(self.name, self.epochs, self.progress, "epochs") as task:
            self._model.train(
                documents,
                total_examples=len(documents),
                epochs=self.epochs,
                callbacks=[_epoch_callback(task)],
            )
        return self

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Paragraph vectors of length one, or zero for a text without a known word."""
        normal = [FOLDED.key(text) for text in texts]
        found = {text: self._vector(text) for text in dict.fromkeys(normal)}
        vectors = np.zeros((len(texts), self.size))
        for row, text in enumerate(normal):
            vectors[row] = found[text]
        lengths = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
        vectors /= np.where(lengths > 0, lengths, 1.0)
        return vectors

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        """Cosines of all queries with all titles: `(len(queries), len(titles))`."""
        title_vectors = self._kept.get(titles, lambda texts: self.vectors(texts).T)
        return stable_product(self.vectors(queries), title_vectors)

    def most_similar(self, word: str, number: int = 10) -> list[tuple[str, float]]:
        """The words whose vectors have the largest cosines with a word's, largest first.

        A sanity check of the training: they should be words for similar things.

        Raises:
            UserError: the word is not among those it was trained on.

        Reference: Palangi et al. 2016, supplement F.
        """
        known = FOLDED.key(word)
        if known not in self._model.wv:
            raise UserError(f"{self.name} was not trained on the word {word!r}.")
        found: list[tuple[str, float]] = self._model.wv.most_similar(known, topn=number)
        return found

    def _learned(self) -> tuple[Settings, Arrays]:
        settings = {"texts": self._texts, "words": self._model.wv.index_to_key}
        arrays = {
            "counts": self._model.wv.expandos["count"],
            "word_vectors": self._model.wv.vectors,
            "text_vectors": self._model.dv.vectors,
            "output_vectors": self._model.syn1neg,
        }
        return settings, arrays

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        words, texts = texts_of(settings, "words"), texts_of(settings, "texts")
        counts = numbers(arrays, "counts", len(words), dtype=np.int64, least=self.min_count)
        # gensim's native code believes these.
        of_words, outputs, of_texts = (
            np.ascontiguousarray(numbers(arrays, name, rows, self.size, dtype=np.float32))
            for name, rows in (
                ("word_vectors", len(words)),
                ("output_vectors", len(words)),
                ("text_vectors", len(texts)),
            )
        )
        if len(set(words)) < len(words) or not words:
            raise ValueError("there are no words, or they are not distinct")
        self._texts = tuple(texts)
        self._model = self._untrained()
        # The words stand in gensim's order; its sorting would change that of equal counts.
        self._model.sorted_vocab = False
        self._model.build_vocab_from_freq(dict(zip(words, counts.tolist(), strict=True)))
        self._model.wv.vectors = of_words
        self._model.syn1neg = outputs
        self._model.dv.vectors = of_texts
        self._index()

    def _untrained(self) -> Any:
        """A model of gensim's with these parameters; several workers would take turns by chance."""
        return _gensim().Doc2Vec(
            vector_size=self.size,
            window=self.window,
            min_count=self.min_count,
            sample=self.sample,
            negative=self.negative,
            epochs=self.epochs,
            seed=self.seed,
            workers=1,
        )

    def _index(self) -> None:
        """Makes from what was learned what is not saved."""
        self._tags = {text: tag for tag, text in enumerate(self._texts)}
        self._kept: TitleCache[NDArray[np.float64]] = TitleCache()

    def _vector(self, text: str) -> NDArray[np.float32]:
        """The paragraph vector of a normalised text, of any length."""
        known = [word for word in text.split() if word in self._model.wv]
        if not known:
            return np.zeros(self.size, dtype=np.float32)
        if text in self._tags:
            vector: NDArray[np.float32] = self._model.dv.vectors[self._tags[text]]
            return vector
        return self._infer(text, known)

    def _infer(self, text: str, known: list[str]) -> NDArray[np.float32]:
        """What gensim's `infer_vector` does, but from a start that follows from the text alone.

        `infer_vector` starts from Python's `hash` of the text, which differs between processes,
        and draws on from wherever the model's generator happens to be.
        """
        start = np.random.default_rng([self.seed, zlib.crc32(text.encode())])
        vector = ((start.random((1, self.size)) - 0.5) / self.size).astype(np.float32)
        self._model.random.seed(int(start.integers(_SEEDS)))
        for rate in np.linspace(self._model.alpha, self._model.min_alpha, self.epochs):
            _gensim().train_document_dm(
                self._model,
                known,
                [0],
                float(rate),
                learn_words=False,
                learn_hidden=False,
                doctag_vectors=vector,
                doctags_lockf=np.ones(1, dtype=np.float32),
            )
        inferred: NDArray[np.float32] = vector[0]
        return inferred


def _gensim() -> Any:
    """The library's paragraph vectors, an extra."""
    try:
        from gensim.models import doc2vec
    except ImportError as error:
        raise UserError(f"doc2vec needs the gensim library: {install('baselines')}.") from error
    return doc2vec


def _epoch_callback(task: Task) -> Any:
    """Tells `task` of each finished epoch, the way gensim wants to be asked."""
    from gensim.models.callbacks import CallbackAny2Vec

    class Epochs(CallbackAny2Vec):
        def on_epoch_end(self, model: Any) -> None:
            task.advance()

    return Epochs()
