"""One query, three rankings: by words, by meaning, and both fused."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.retrieval.fusion import linear_fusion, pool_titles, reciprocal_rank_fusion
from dssm_tf.retrieval.hybrid import BM25, MODEL, PRIOR, ChosenHybrid
from dssm_tf.retrieval.title_index import Model, TitleIndex
from dssm_tf.tables.cells import readable

if TYPE_CHECKING:
    from dssm_tf.text.vocabulary import Vocabulary

FusionName = Literal["rrf", "linear"]
SYSTEMS = ("bm25", "semantic", "hybrid")

Rows = NDArray[np.int64]


class SearchModel(Model, Protocol):
    """What a search asks of a model, such as a `SemanticRanker`."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The letter trigrams it knows."""
        ...


class Hit(NamedTuple):
    """A title that was found."""

    doc_id: str
    title: str
    score: float


class Found(NamedTuple):
    """What one system found.

    Args:
        hits: best first, equal scores in the order of the corpus.
        milliseconds: how long it took; of `hybrid`, all three steps.
        note: why there are no hits, or empty.
    """

    hits: list[Hit]
    milliseconds: float
    note: str = ""


class Searcher:
    """Searches a corpus by BM25, by semantic vectors and by both.

    The semantic score is the model's, the cosine plus the weighted log-prior of the title; of an
    index of unit vectors it is the cosine. The hybrid ranking fuses the best `depth` titles of
    both as the index' hybrid says, which a benchmark chose; where there is none, `rrf` by their
    ranks, `linear` by their scores, min-max scaled over the titles that either found and weighted
    equally.

    Args:
        ranker: the model that made the index' vectors, see `TitleIndex.check_model`.
        index: what to search.
        fusion: `rrf` or `linear`.
        depth: titles of each system that are fused; a hybrid has its own.

    Raises:
        UserError: `fusion` is unknown.
    """

    def __init__(
        self,
        ranker: SearchModel,
        index: TitleIndex,
        *,
        fusion: FusionName = "rrf",
        depth: int = 100,
    ) -> None:
        if fusion not in ("rrf", "linear"):
            raise UserError(f"--fusion {fusion!r}: expected rrf or linear.")
        self.ranker = ranker
        self.index = index
        self.fusion = fusion
        self.hybrid = hybrid = index.settings.hybrid
        self.depth = hybrid.depth if hybrid else depth
        # The first call compiles; no query should pay for it.
        self._encode(index.corpus[0].title)

    def _encode(self, query: str) -> NDArray[np.float32]:
        return self.ranker.encode_queries([query], self.index.settings.prior)

    def search(self, query: str, k: int = 10, rows: Rows | None = None) -> dict[str, Found]:
        """Finds the best `k` titles by each of `SYSTEMS`.

        A query without a word finds nothing. One whose words no title holds has
        no BM25 hits, and one of whose letter trigrams the model knows none has
        no semantic hits; the hybrid ranking is then the other one.

        Args:
            query: any text.
            k: titles of each system, at least 1.
            rows: the only titles to find, see `TitleIndex.rows`; all if None.
        """
        query = readable(query)
        vocabulary = self.ranker.vocabulary
        asked = vocabulary.words(query)
        if not asked:
            return dict.fromkeys(SYSTEMS, Found([], 0.0, "the query holds no word"))
        depth = max(k, self.depth)

        started = perf_counter()
        scores = self.index.words.score(query)
        if rows is not None:
            listed = np.full(len(scores), -np.inf)
            listed[rows] = scores[rows]
            scores = listed
        held = np.flatnonzero(scores > 0)
        by_words: Rows = held[top_columns(scores[held], depth)]
        words_done = perf_counter()

        known = any(vocabulary.ngram_ids(word) for word in asked)
        cosines, by_meaning = np.zeros(0, np.float32), np.zeros(0, np.int64)
        vector = self._encode(query)
        if known:
            found = self.index.nearest.search(vector, depth, rows)
            cosines, by_meaning = found[0][0], found[1][0]
            cosines, by_meaning = cosines[by_meaning >= 0], by_meaning[by_meaning >= 0]
        meaning_done = perf_counter()

        if self.hybrid and len(by_words) and len(by_meaning):
            fused, sums = self._fuse_as_chosen(self.hybrid, scores, by_meaning, cosines)
        else:
            fused, sums = self._fuse(vector[0], scores, by_words, by_meaning)
        ended = perf_counter()

        unheard = "no title holds one of the query's words"
        unknown = "the model knows none of the query's letter trigrams"
        return {
            "bm25": Found(
                self._hits(by_words[:k], scores[by_words[:k]]),
                1000 * (words_done - started),
                "" if len(by_words) else unheard,
            ),
            "semantic": Found(
                self._hits(by_meaning[:k], cosines[:k]),
                1000 * (meaning_done - words_done),
                "" if len(by_meaning) else unknown,
            ),
            "hybrid": Found(
                self._hits(fused[:k], sums[:k]),
                1000 * (ended - started),
                "" if len(fused) else "neither found a title",
            ),
        }

    def _fuse(
        self,
        vector: NDArray[np.float32],
        scores: NDArray[np.floating],
        by_words: Rows,
        by_meaning: Rows,
    ) -> tuple[Rows, NDArray[np.float64]]:
        if self.fusion == "rrf" or not (len(by_words) and len(by_meaning)):
            pairs = reciprocal_rank_fusion([by_words.tolist(), by_meaning.tolist()])
            return (
                np.array([row for row, _ in pairs], np.int64),
                np.array([score for _, score in pairs]),
            )
        pool = np.union1d(by_words, by_meaning)
        semantic = self.index.vectors[pool] @ vector
        fused = linear_fusion([scores[pool], semantic])
        order = np.argsort(-fused, kind="stable")
        return pool[order], fused[order]

    def _fuse_as_chosen(
        self,
        hybrid: ChosenHybrid,
        scores: NDArray[np.floating],
        by_meaning: Rows,
        cosines: NDArray[np.float32],
    ) -> tuple[Rows, NDArray[np.float64]]:
        """As a benchmark fuses: BM25 lists `depth` titles, with or without a word of the query."""
        by_words = top_columns(scores, self.depth)
        rows, (words, meaning) = pool_titles(
            [(by_words, scores[by_words]), (by_meaning[: self.depth], cosines[: self.depth])]
        )
        own = {BM25: words, MODEL: meaning}
        if self.index.priors is not None:
            own[PRIOR] = self.index.priors[rows].astype(np.float64)
        fused = hybrid.fuse([own[name] for name in hybrid.members])
        order = np.argsort(-fused, kind="stable")
        return rows[order], fused[order]

    def _hits(self, rows: Rows, scores: NDArray[np.floating]) -> list[Hit]:
        titles = (self.index.corpus[row] for row in rows.tolist())
        return [
            Hit(title.doc_id, title.title, float(score))
            for title, score in zip(titles, scores, strict=True)
        ]
