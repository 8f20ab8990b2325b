"""A corpus ready to be searched, in memory or in a directory: by words, by meaning and by both."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dssm_tf.common.checksums import check_files, files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.fusion import DEPTH, Scores, fuse
from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.retrieval.nearest import Nearest, Rows, Vectors, choose_nearest, probe_queries
from dssm_tf.tables.cells import one_line
from dssm_tf.tables.judgments import CorpusTitle
from dssm_tf.text.rules import FOLDED

if TYPE_CHECKING:
    from dssm_tf.evaluation.ranker import Ranker
    from dssm_tf.runtime.vector_ranker import VectorRanker

SYSTEMS = {"hybrid": "Words + meaning", "bm25": "Words (BM25)", "semantic": "Meaning (model)"}
"""The rankings of a query in the order they are shown, and what they are called."""

NOTHING_GOOD = "Nothing good was found; this is the best of what there is."
"""The note if no title is near the query or holds all of its words."""

NOTHING_FOUND = "Nothing was found: no title has a word of the query, and no word is known."
"""The note if there are no hits at all."""

TITLES, WORDS, NEAREST, MODEL = "titles.arrow", "words", "vectors.faiss", "model"
AGAIN = "Make it again: dssm index --model RUN --corpus CORPUS --out INDEX"


class Hit(NamedTuple):
    """A title that was found.

    Args:
        doc_id: its id.
        title: its text.
        score: what its ranking is sorted by.
        words: its score by BM25.
        similarity: the cosine of its vector and the query's.
        popularity: its weighted log-prior less that of the average clicked title: above 0 if it is
            clicked more than that one.
    """

    doc_id: str
    title: str
    score: float
    words: float
    similarity: float
    popularity: float

    def parts(self) -> str:
        """What a person is shown of the score: what is 0 adds nothing and is left out.

        >>> Hit("d1", "Red Hat", 1.0, words=2.5, similarity=0.8125, popularity=0.25).parts()
        'similarity 0.81, popularity +0.25, words 2.5'
        >>> Hit("d2", "Blue Box", 0.0, words=0.0, similarity=0.5, popularity=0.0).parts()
        'similarity 0.50'
        """
        parts = [f"similarity {self.similarity:.2f}"]
        if round(self.popularity, 2):
            parts.append(f"popularity {self.popularity:+.2f}")
        if self.words:
            parts.append(f"words {self.words:.1f}")
        return ", ".join(parts)


class Found(NamedTuple):
    """What a search found.

    Args:
        rankings: the best titles by each of `SYSTEMS`, equal scores in the order of the corpus.
        note: that nothing was found, or nothing good; else empty.
    """

    rankings: dict[str, list[Hit]]
    note: str


class Index:
    """The titles of a corpus with what finds them by words and by meaning.

    The semantic score is the model's, the cosine plus the weighted log-prior of the title. The
    hybrid joins the best 100 titles of both by `fuse`, with the weight that the model's validation
    queries chose.

    Args:
        model: which made the vectors and encodes the queries.
        titles: Arrow's table with `doc_id` and `title`.
        words: BM25 of the titles, of bm25s.
        nearest: finds titles by their vectors, prior included.
    """

    def __init__(self, model: VectorRanker, titles: Any, words: Any, nearest: Nearest) -> None:
        self.model, self.titles, self.nearest = model, titles, nearest
        self._words = words

    def __len__(self) -> int:
        return len(self.titles)

    @classmethod
    def build(
        cls,
        model: VectorRanker,
        corpus: Sequence[CorpusTitle],
        kind: str = "auto",
        queries: Sequence[str] = (),
    ) -> Index:
        """Makes an index in memory.

        Args:
            model: see the class.
            corpus: titles; equal ones tie.
            kind: see `choose_nearest`.
            queries: real ones to measure it on; made of the titles' words if there are none.

        Raises:
            UserError: no title holds a word, or faiss is not installed.
        """
        import pyarrow

        texts = [entry.title for entry in corpus]
        words = _count_words(texts)
        nearest = choose_nearest(
            _encode(model, texts),
            lambda: model.encode_queries(list(queries) or probe_queries(texts), prior=True),
            kind,
        )
        titles = pyarrow.table({"doc_id": [entry.doc_id for entry in corpus], "title": texts})
        return cls(model, titles, words, nearest)

    def save(self, directory: Path) -> None:
        """Writes the index into a directory that has its model in `MODEL`, and the checksums."""
        from pyarrow import feather

        feather.write_feather(self.titles, directory / TITLES, compression="uncompressed")
        self._words.save(directory / WORDS, show_progress=False)
        self.nearest.save(directory / NEAREST)
        write_checksums(directory, files_in(directory))

    @classmethod
    def open(cls, directory: Path | str) -> Index:
        """Maps what `save` wrote into memory, once its checksums are compared; loads the model.

        Raises:
            UserError: the directory is no index, or is damaged.
        """
        import bm25s
        from pyarrow import feather

        from dssm_tf.runtime import Ranker

        directory = Path(directory)
        check_files(directory, None, AGAIN)
        return cls(
            Ranker.load(directory / MODEL),
            feather.read_table(directory / TITLES, memory_map=True),
            bm25s.BM25.load(directory / WORDS, mmap=True),
            Nearest.open(directory / NEAREST),
        )

    @cached_property
    def bm25(self) -> Ranker:
        """BM25 as a ranker of any texts, for explanations."""
        from dssm_tf.baselines.bm25 import BM25

        return BM25().fit([], self.titles["title"].to_pylist())

    def search(self, query: str, k: int = 10) -> Found:
        """Finds the best `k` titles by each of `SYSTEMS`.

        A query whose words no title holds has no BM25 hits, and one whose letter trigrams the
        model has never seen has no semantic hits; the hybrid ranking is then the other one.

        Args:
            query: any text.
            k: titles of each system, at least 1.
        """
        query, depth, split = one_line(query), max(k, DEPTH), self.model.vocabulary.words
        bm25 = self._bm25_scores(query)
        matching = np.flatnonzero(bm25)
        by_words = matching[top_columns(bm25[matching], depth)]

        # A query's vector is its unit vector, zeros if nothing of it is known, and 1.
        vector = self.model.encode_queries([query], prior=True)[0]
        by_meaning = np.zeros(0, np.int64)
        if vector[:-1].any():
            by_meaning = self.nearest.search(vector, depth)[1]
        else:
            vector[-1] = 0

        pool = np.union1d(by_words, by_meaning)
        semantic, words = self.nearest.score(vector, pool), bm25[pool]
        fused = fuse(words, semantic, self.model.bm25_weight)
        by_both = pool[np.argsort(-fused, kind="stable")]
        # A title's last number is its prior.
        priors = self.nearest.score(np.eye(len(vector))[-1], pool)
        parts = words, semantic - vector[-1] * priors, priors - self.model.mean_prior

        def ranking(rows: Rows, scores: Scores) -> list[Hit]:
            best = np.searchsorted(pool, rows[:k])
            table = self.titles.take(rows[:k]).to_pydict()
            numbers = (of_pool[best].tolist() for of_pool in (scores, *parts))
            return list(map(Hit, table["doc_id"], table["title"], *numbers))

        rankings = {
            "hybrid": ranking(by_both, fused),
            "bm25": ranking(by_words, words),
            "semantic": ranking(by_meaning, semantic),
        }
        good = any(
            hit.similarity >= self.model.cutoff or {*split(query)} <= {*split(hit.title)}
            for hits in rankings.values()
            for hit in hits
        )
        return Found(rankings, "" if good else NOTHING_GOOD if len(pool) else NOTHING_FOUND)

    def _bm25_scores(self, query: str) -> Any:
        """BM25 of every title, float64 `(titles,)`."""
        words = [word for word in FOLDED.words(query) if word in self._words.vocab_dict]
        return self._words.get_scores(words) if words else np.zeros(len(self))


def _count_words(titles: Sequence[str]) -> Any:
    import bm25s

    # The library logs every index it builds, whatever the level of the root logger.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    tokens = [FOLDED.words(title) for title in titles]
    if not any(tokens):
        raise UserError(f"There are {len(titles)} titles and no word in them; give a corpus.")
    words = bm25s.BM25(method="lucene", dtype="float64", backend="numpy")
    words.index(tokens, create_empty_token=False, show_progress=False)
    return words


def _encode(model: VectorRanker, titles: Sequence[str]) -> Vectors:
    """The vectors of titles; titles that the model cannot tell apart share one, so they tie."""
    distinct, shared = model.vocabulary.rules.distinct(titles)
    return model.encode_titles(distinct, prior=True)[shared]
