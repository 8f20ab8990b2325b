"""A corpus ready to be searched, in memory or in a directory: by words, by meaning and by both."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dssm_tf.common.checksums import check_files, files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.fusion import DEPTH, fuse
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.retrieval.nearest import Nearest
from dssm_tf.runtime.vector_ranker import VectorRanker
from dssm_tf.tables.cells import one_line
from dssm_tf.tables.judgments import CorpusTitle
from dssm_tf.text.rules import FOLDED

SYSTEMS = {"hybrid": "Words + meaning", "bm25": "Words (BM25)", "semantic": "Meaning (model)"}
"""The rankings of a query in the order they are shown, and what they are called."""

NOTHING_GOOD = "Nothing good was found; this is the best of what there is."
"""The note if no title is near the query or holds all of its words."""

NOTHING_FOUND = "Nothing was found: no title has a word of the query, and no word is known."
"""The note if there are no hits at all."""

TITLES, WORDS, NEAREST, MODEL = "titles.arrow", "words", "vectors.faiss", "model"
_PROBES = 200  # queries made of titles, to measure a fast index
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


@dataclass
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

    model: VectorRanker
    titles: Any
    words: Any
    nearest: Nearest

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
            kind: see `Nearest.build`.
            queries: real ones to measure a fast index on; every other word of some titles if there
                are none.

        Raises:
            UserError: no title holds a word, or faiss is not installed.
        """
        import bm25s
        import pyarrow

        texts = [entry.title for entry in corpus]
        tokens = [FOLDED.words(title) for title in texts]
        if not any(tokens):
            raise UserError(f"There are {len(texts)} titles and no word in them; give a corpus.")
        # The library logs every index it builds, whatever the level of the root logger.
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        words = bm25s.BM25(method="lucene", dtype="float64", backend="numpy")
        words.index(tokens, create_empty_token=False, show_progress=False)
        probes = tokens[:: 1 + len(tokens) // _PROBES]
        # Titles that the model cannot tell apart share a vector, so they tie.
        distinct, shared = model.vocabulary.rules.distinct(texts)
        nearest = Nearest.build(
            model.encode_titles(distinct, prior=True)[shared],
            kind,
            lambda: model.encode_queries(
                queries or [" ".join(title[::2]) for title in probes], prior=True
            ),
        )
        titles = pyarrow.table({"doc_id": [entry.doc_id for entry in corpus], "title": texts})
        return cls(model, titles, words, nearest)

    def save(self, directory: Path) -> None:
        """Writes the index into a directory that has its model in `MODEL`, and the checksums."""
        from pyarrow import feather

        feather.write_feather(self.titles, directory / TITLES, compression="uncompressed")
        try:
            self.words.save(directory / WORDS, show_progress=False)
        except OSError as error:
            if error.errno is None:  # it writes with `np.save`, see `common/arrays.py`
                raise UserError(
                    f"{directory / WORDS} cannot be written: {error}. Is the disk full?"
                ) from error
            raise
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

        from dssm_tf import runtime

        directory = Path(directory)
        check_files(directory, None, AGAIN)
        return cls(
            runtime.Ranker.load(directory / MODEL),
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
        asked = [word for word in FOLDED.words(query) if word in self.words.vocab_dict]
        bm25 = self.words.get_scores(asked) if asked else np.zeros(len(self))
        matching = np.flatnonzero(bm25)
        by_words = matching[top_columns(bm25[matching], depth)]

        # A query's vector is its unit vector, zeros if nothing of it is known, and 1.
        vector = self.model.encode_queries([query], prior=True)[0]
        known = bool(vector[:-1].any())
        by_meaning = self.nearest.search(vector, depth)[1] if known else np.zeros(0, np.int64)

        pool = np.union1d(by_words, by_meaning)
        scores, words = self.nearest.score(vector, pool), bm25[pool]
        # A title's last number is its prior.
        priors = self.nearest.score(np.eye(len(vector))[-1], pool)
        parts = words, scores - priors, priors - self.model.mean_prior
        semantic = scores if known else np.zeros_like(scores)
        rankings = {}
        for system, ordered_by, count in (
            ("hybrid", fuse(words, semantic, self.model.bm25_weight), len(pool)),
            ("bm25", words, np.count_nonzero(words)),
            ("semantic", semantic, len(pool) if known else 0),
        ):
            best = np.argsort(-ordered_by, kind="stable")[: min(k, count)]
            table = self.titles.take(pool[best]).to_pydict()
            numbers = (of_pool[best].tolist() for of_pool in (ordered_by, *parts))
            rankings[system] = list(map(Hit, table["doc_id"], table["title"], *numbers))
        good = any(
            hit.similarity >= self.model.cutoff or {*split(query)} <= {*split(hit.title)}
            for hits in rankings.values()
            for hit in hits
        )
        note = ""
        if not len(pool):
            note = NOTHING_FOUND
        elif not good:
            note = NOTHING_GOOD
        return Found(rankings, note)
