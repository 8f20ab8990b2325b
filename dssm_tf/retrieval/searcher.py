"""One query, three rankings: by words, by meaning, and both fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.retrieval.fusion import linear_fusion, pool_titles, reciprocal_rank_fusion
from dssm_tf.retrieval.hybrid import BM25, MODEL, PRIOR, ChosenHybrid
from dssm_tf.retrieval.index import ExactIndex, FaissIndex, VectorIndex
from dssm_tf.retrieval.vectors import check_made_by, read_vectors
from dssm_tf.tables.cells import readable
from dssm_tf.tables.judgments import CorpusTitle

if TYPE_CHECKING:
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.text.vocabulary import Vocabulary

IndexName = Literal["exact", "faiss", "hnsw"]
FusionName = Literal["rrf", "linear"]
SYSTEMS = ("bm25", "semantic", "hybrid")

_CHUNK = 1 << 14  # titles encoded between two reports
_SAMPLE = 16  # titles encoded to check a file of vectors

Rows = NDArray[np.int64]


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


class SearchModel(Protocol):
    """What a search asks of a model; see `SemanticRanker`, which a hybrid with the prior needs."""

    @property
    def vocabulary(self) -> Vocabulary: ...  # noqa: D102

    def encode_queries(self, queries: Sequence[str]) -> NDArray[np.float32]: ...  # noqa: D102

    def encode_titles(  # noqa: D102
        self, titles: Sequence[str], prior: bool = False
    ) -> NDArray[np.float32]: ...

    def weighted_prior(self, titles: Sequence[str]) -> NDArray[np.float32]: ...  # noqa: D102


class Searcher:
    """Searches a corpus by BM25, by semantic vectors and by both.

    The semantic score is the cosine plus the weighted log-prior of the title.
    The hybrid ranking fuses the best `depth` titles of both: `rrf` by their
    ranks, `linear` by their scores, min-max scaled over the titles that either
    found and weighted equally.

    Args:
        ranker: a trained model, such as `SemanticRanker`.
        corpus: titles to search; equal titles tie.
        vectors: an `.npy` file of the corpus' title vectors, made by `dssm embed`; the titles are
            encoded when None.
        index: `exact`, `faiss` (exact too) or `hnsw` (faiss, approximate).
        fusion: `rrf` or `linear`.
        depth: titles of each system that are fused.
        hybrid: what to fuse by instead, as a benchmark chose it: weights, BM25's parameters and
            the depth.
        report: called with what is being done and its share so far, from 0 to 1.

    Raises:
        UserError: the corpus holds no word, `vectors` does not belong to it or to the model, or
            faiss is not installed.
    """

    def __init__(
        self,
        ranker: SearchModel,
        corpus: Sequence[CorpusTitle],
        vectors: Path | str | None = None,
        *,
        index: IndexName = "exact",
        fusion: FusionName = "rrf",
        depth: int = 100,
        hybrid: ChosenHybrid | None = None,
        report: Callable[[str, float], None] = lambda step, share: None,
    ) -> None:
        from dssm_tf.systems import BASELINES

        if fusion not in ("rrf", "linear"):
            raise UserError(f"--fusion {fusion!r}: expected rrf or linear.")
        if index not in ("exact", "faiss", "hnsw"):
            raise UserError(f"--index {index!r}: expected exact, faiss or hnsw.")
        self.ranker = ranker
        self.corpus = corpus
        self.fusion = fusion
        self.hybrid = hybrid
        self.depth = hybrid.depth if hybrid else depth
        self._titles = tuple(entry.title for entry in corpus)
        report("counting words", 0.0)
        parameters = hybrid.of(BM25) if hybrid else {}
        try:
            self.bm25 = BASELINES["bm25"](**parameters).fit([], dict.fromkeys(self._titles))
        except (TypeError, ValueError) as error:
            raise UserError(f"--hybrid: bm25 with {dict(parameters)}: {error}.") from None
        self.vectors = self._read(Path(vectors)) if vectors else self._encode(report)
        if hybrid and PRIOR in hybrid.members:
            self._log_prior = cast("SemanticRanker", ranker).prior(self._titles)
        self._bias = ranker.weighted_prior(self._titles)
        report("indexing", 1.0)
        self.index: VectorIndex = (
            ExactIndex(self.vectors, self._bias)
            if index == "exact"
            else FaissIndex(self.vectors, self._bias, "flat" if index == "faiss" else "hnsw")
        )
        # The first call compiles; no query should pay for it.
        ranker.encode_queries([self._titles[0]])

    def search(self, query: str, k: int = 10) -> dict[str, Found]:
        """Finds the best `k` titles by each of `SYSTEMS`.

        A query without a word finds nothing. One whose words no title holds has
        no BM25 hits, and one of whose letter trigrams the model knows none has
        no semantic hits; the hybrid ranking is then the other one.
        """
        query = readable(query)
        vocabulary = self.ranker.vocabulary
        asked = vocabulary.words(query)
        if not asked:
            return dict.fromkeys(SYSTEMS, Found([], 0.0, "the query holds no word"))
        depth = max(k, self.depth)

        started = perf_counter()
        scores = self.bm25.score(query, self._titles)
        held = np.flatnonzero(scores > 0)
        by_words: Rows = held[top_columns(scores[held], depth)]
        words_done = perf_counter()

        known = any(vocabulary.ngram_ids(word) for word in asked)
        cosines, by_meaning = np.zeros(0, np.float32), np.zeros(0, np.int64)
        vector = self.ranker.encode_queries([query])
        if known:
            found = self.index.search(vector, depth)
            cosines, by_meaning = found[0][0], found[1][0]
            cosines, by_meaning = cosines[by_meaning >= 0], by_meaning[by_meaning >= 0]
        meaning_done = perf_counter()

        if self.hybrid and len(by_words) and len(by_meaning):
            fused, sums = self._fuse_as_chosen(self.hybrid, scores, by_meaning, cosines)
        else:
            fused, sums = self._fuse(query, vector[0], scores, by_words, by_meaning)
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
        query: str,
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
        semantic = self.vectors[pool] @ vector + self._bias[pool]
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
        if PRIOR in hybrid.members:
            own[PRIOR] = self._log_prior[rows].astype(np.float64)
        fused = hybrid.fuse([own[name] for name in hybrid.members])
        order = np.argsort(-fused, kind="stable")
        return rows[order], fused[order]

    def _hits(self, rows: Rows, scores: NDArray[np.floating]) -> list[Hit]:
        return [
            Hit(self.corpus[row].doc_id, self.corpus[row].title, float(score))
            for row, score in zip(rows, scores, strict=True)
        ]

    def _encode(self, report: Callable[[str, float], None]) -> NDArray[np.float32]:
        """The vectors of the corpus; equal titles share one, so they tie."""
        distinct = list(dict.fromkeys(self._titles))
        parts = []
        for start in range(0, len(distinct), _CHUNK):
            report("encoding titles", start / len(distinct))
            parts.append(self.ranker.encode_titles(distinct[start : start + _CHUNK]))
        vectors = np.concatenate(parts)
        if len(distinct) == len(self._titles):
            return vectors
        place = {title: row for row, title in enumerate(distinct)}
        return vectors[[place[title] for title in self._titles]]

    def _read(self, path: Path) -> NDArray[np.float32]:
        dimension = self.ranker.encode_queries([]).shape[1]
        doc_ids = [entry.doc_id for entry in self.corpus]
        vectors = read_vectors(path, len(self.corpus), dimension, doc_ids)
        sample = np.unique(np.linspace(0, len(vectors) - 1, _SAMPLE).astype(np.int64))
        with_prior = vectors.shape[1] > dimension
        fresh = self.ranker.encode_titles([self._titles[row] for row in sample], with_prior)
        check_made_by(path, vectors, sample, fresh)
        # The prior is the ranker's in either case: hybrids weigh it by themselves.
        return vectors[:, :dimension]
