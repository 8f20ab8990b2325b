"""A trained model, wherever it came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.runtime.ranker import RankedTitle

if TYPE_CHECKING:
    from dssm_tf.analysis.explanation import Explanation
    from dssm_tf.text.vocabulary import Vocabulary

Vectors = NDArray[np.float32]


class _Answers(Protocol):
    """What a run, an export and a compact model have in common."""

    name: str

    def encode_queries(self, queries: Sequence[str], prior: bool = False) -> Vectors: ...

    def encode_titles(self, titles: Sequence[str], prior: bool = False) -> Vectors: ...

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> Vectors: ...

    def weighted_prior(self, titles: Sequence[str]) -> Vectors: ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def mean_prior(self) -> float: ...


class TrainedModel:
    """A trained model that takes raw strings; `dssm_tf.load` makes one.

    A run, an export and a compact model give the same answers, to the rounding of float32. Texts
    may be anything: an empty one, or one without a known letter, is no error. Lists are lists,
    tuples, NumPy arrays or columns of strings.

    Attributes:
        name: what tables call it; the tower's name unless another was given.
        kind: `run`, `export` or `compact`.
        path: the directory it was loaded from.
    """

    def __init__(self, answers: _Answers, kind: str, path: Path) -> None:
        self._answers = answers
        self.name = answers.name
        self.kind = kind
        self.path = path

    def __repr__(self) -> str:
        return f"<TrainedModel {self.name!r}, the {self.kind} {self.path}>"

    @property
    def dimension(self) -> int:
        """Length of a semantic vector."""
        return int(self.encode_queries([]).shape[1])

    def rank(self, query: str, titles: Iterable[str], top: int | None = None) -> list[RankedTitle]:
        """Titles from best to worst.

        Args:
            query: raw text.
            titles: raw texts.
            top: how many to return at most; None for all.

        Returns:
            `(title, score, position)` of each, where `titles[position]` is the title. Equal
            scores keep the order of `titles`.

        Raises:
            TypeError: a text is no string, or `titles` is one.
        """
        listed = _texts("titles", titles)
        scores = self.score(query, listed)
        top = len(listed) if top is None else max(top, 0)
        best = top_columns(scores, max(top, 1))[:top]
        return [RankedTitle(listed[place], float(scores[place]), place) for place in best.tolist()]

    def score(self, query: str, titles: Iterable[str]) -> Vectors:
        """What titles are ranked by: the cosine of the two vectors, plus the title's prior.

        The prior is a weight, chosen in training, times the log of the title's share of all
        clicks. Scores are comparable within a query.

        Args:
            query: raw text.
            titles: raw texts, in any order; repeats allowed, and equal titles have equal scores.

        Returns:
            Scores float32 `(len(titles),)`.

        Raises:
            TypeError: a text is no string, or `titles` is one.
        """
        row: Vectors = self.score_matrix(_texts("query", [query]), titles)[0]
        return row

    def score_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """The score of every title for every query; each title is encoded once.

        Args:
            queries: raw texts.
            titles: raw texts. A run and an export remember the lists scored last, a compact model
                the words of texts.

        Returns:
            Scores float32 `(len(queries), len(titles))`.

        Raises:
            TypeError: a text is no string, or one of the two is a string.
        """
        return self._answers.score_matrix(_texts("queries", queries), _texts("titles", titles))

    def encode_queries(self, queries: Iterable[str], prior: bool = False) -> Vectors:
        """Semantic vectors of queries.

        Args:
            queries: raw texts.
            prior: False for unit vectors, whose inner product with a title's is the cosine; True
                for vectors with one more number, whose inner product is the score.

        Returns:
            float32 `(len(queries), dimension)`, or `(len(queries), dimension + 1)` with `prior`.
            Of a text without a known letter the first `dimension` numbers are zero.

        Raises:
            TypeError: a text is no string, or `queries` is one.
        """
        return self._answers.encode_queries(_texts("queries", queries), prior=prior)

    def encode_titles(self, titles: Iterable[str], prior: bool = False) -> Vectors:
        """Semantic vectors of titles, to be indexed; see `encode_queries`.

        Args:
            titles: raw texts.
            prior: as of `encode_queries`; the same for both.

        Returns:
            float32 `(len(titles), dimension)`, or `(len(titles), dimension + 1)` with `prior`.

        Raises:
            TypeError: a text is no string, or `titles` is one.
        """
        return self._answers.encode_titles(_texts("titles", titles), prior=prior)

    def explain(self, query: str, title: str) -> Explanation:
        """Why a title has its score: what each word of both adds to it.

        Args:
            query: raw text.
            title: raw text.

        Returns:
            `query` and `title`, each with its `words` and their `contributions`; `cosine`,
            `prior` and `score`; `sentences()`, the match in words; `to_json()`. A run also tells
            letter trigrams, gates and neurons.

        Raises:
            TypeError: a text is no string.
            UserError: a text holds no word, or none of which the model knows a trigram.
        """
        _texts("query", [query])
        _texts("title", [title])
        from dssm_tf.analysis.explanation import explain

        return explain(self._answers, query, title)


def _texts(name: str, texts: Iterable[Any]) -> Sequence[str]:
    """Texts as the models take them; a tuple stays the one it is, by which they know it again."""
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"{name} is one {type(texts).__name__}; expected a list of str.")
    listed = texts if isinstance(texts, tuple) else list(texts)
    for place, text in enumerate(listed):
        if not isinstance(text, str):
            where = name if name in ("query", "title") else f"{name}[{place}]"
            fields = " (fields are joined by U+241F)" if isinstance(text, (list, tuple)) else ""
            kind = type(text).__name__
            raise TypeError(f"{where} is {text!r:.60}, a {kind}; expected str{fields}.")
    return listed
