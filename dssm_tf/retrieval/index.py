"""The index of models that give one vector per text: their ranking, and that of BM25."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.common.checksums import check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.paths import AnyPath
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.retrieval.example_queries import examples_from_table
from dssm_tf.retrieval.hits import NO_GOOD_MATCH_NOTE, NO_KNOWN_NGRAM_NOTE, Hit, SearchResult
from dssm_tf.retrieval.index_checks import check_bm25, sample_problem
from dssm_tf.retrieval.lexical import build_bm25
from dssm_tf.retrieval.maxsim_files import read_table
from dssm_tf.retrieval.nearest import Nearest
from dssm_tf.retrieval.saving import save_with_model
from dssm_tf.retrieval.title_filters import Filters, TitleFilters
from dssm_tf.runtime.compact_files import INDEX_MODEL
from dssm_tf.runtime.good_match import FIRST_TITLES, is_good_match
from dssm_tf.runtime.vector_ranker import VectorRanker
from dssm_tf.tables.cells import one_line
from dssm_tf.tables.judgments import CorpusTitle
from dssm_tf.text.rules import FOLDED

TITLES, WORDS, NEAREST, MODEL = "titles.arrow", "words", "vectors.faiss", INDEX_MODEL
_PROBES = 200  # number of queries, made from titles, to measure a fast index
_CANDIDATES = 100  # minimum number of titles that the index of vectors returns
_REBUILD_HINT = "Build it again: dssm index --model RUN --corpus CORPUS --out INDEX"


@dataclass
class VectorIndex:
    """The titles of a corpus with an index of vectors, and one of words for BM25.

    The score is the model's: the cosine plus the weighted log-prior of the title.

    Args:
        model: the model that encoded the titles and encodes queries.
        title_table: Arrow table with `doc_id` and `title`, in the order of the corpus.
        lexical: BM25 index of the titles, by bm25s.
        nearest: index of the titles' vectors, which include the prior.
    """

    model: VectorRanker
    title_table: Any
    lexical: Any
    nearest: Nearest

    def __len__(self) -> int:
        return len(self.title_table)

    @property
    def summary(self) -> str:
        """Describes the kind of search and its recall."""
        return self.nearest.summary

    @classmethod
    def build(
        cls,
        model: VectorRanker,
        corpus: Sequence[CorpusTitle],
        kind: str = "auto",
        queries: Sequence[str] = (),
    ) -> VectorIndex:
        """Builds an index in memory.

        Args:
            model: model that encodes titles and queries.
            corpus: titles to index; equal titles tie.
            kind: see `Nearest.build`.
            queries: queries to measure a fast index; if empty, every other word of some titles.

        Raises:
            UserError: no title has a word, or faiss is not installed.
        """
        import pyarrow

        texts = [entry.title for entry in corpus]
        tokens = [FOLDED.words(title) for title in texts]
        if not any(tokens):
            raise UserError(f"None of the {len(texts)} titles has a word; use another corpus.")
        lexical = build_bm25(tokens)
        probes = tokens[:: 1 + len(tokens) // _PROBES]
        # Titles with the same words for the model share one vector, so they tie.
        distinct, indices = model.vocabulary.rules.distinct(texts)
        nearest = Nearest.build(
            model.encode_titles(distinct, prior=True)[indices],
            kind,
            lambda: model.encode_queries(
                queries or [" ".join(words[::2]) for words in probes], prior=True
            ),
        )
        title_table = pyarrow.table({"doc_id": [entry.doc_id for entry in corpus], "title": texts})
        return cls(model, title_table, lexical, nearest)

    def save(self, directory: AnyPath, model: AnyPath) -> None:
        """Writes the index and its model into a new directory; see `save_with_model`."""
        save_with_model(directory, model, self.model, self.write)

    def write(self, directory: Path) -> None:
        """Writes the index and checksums into a directory that already contains `MODEL`."""
        from pyarrow import feather

        feather.write_feather(self.title_table, directory / TITLES, compression="uncompressed")
        try:
            self.lexical.save(directory / WORDS, show_progress=False)
        except OSError as error:
            if error.errno is None:  # from `np.save`, see `common/arrays.py`
                raise UserError(
                    f"{directory / WORDS} cannot be written: {error}. Is the disk full?"
                ) from error
            raise
        self.nearest.save(directory / NEAREST)
        write_checksums(directory)

    @classmethod
    def open(cls, directory: Path | str, mapped: bool = True) -> VectorIndex:
        """Checks and memory-maps a directory that `save` wrote, and loads its model.

        Args:
            directory: the index.
            mapped: False to read the files into memory, see `open_index`.

        Raises:
            UserError: the directory is not an index, or a checksum does not match.
        """
        import bm25s

        from dssm_tf import runtime

        directory = Path(directory)
        contents = (TITLES, WORDS, NEAREST, MODEL)
        if directory.is_dir() and not any((directory / name).exists() for name in contents):
            raise UserError(f"{directory} is not an index; expected one that `dssm index` wrote.")
        check_files(directory, None, _REBUILD_HINT)
        model = runtime.CompactRanker.load(directory / MODEL)
        title_table = read_table(directory / TITLES, ("doc_id", "title"), mapped, has_more=True)
        check_bm25(directory / WORDS, len(title_table), _REBUILD_HINT, mapped)
        nearest = Nearest.open(directory / NEAREST, _REBUILD_HINT, mapped)
        # The numbers of a title's vector and its prior, and the one that `Nearest` adds.
        dimension = model.encode_titles([], prior=True).shape[1] + 1
        if (nearest.index.ntotal, nearest.index.d) != (len(title_table), dimension):
            raise UserError(
                f"{directory / NEAREST} has {nearest.index.ntotal} vectors of {nearest.index.d} "
                f"numbers; expected {len(title_table)} of {dimension}. {_REBUILD_HINT}"
            )
        lexical = bm25s.BM25.load(directory / WORDS, mmap=mapped)
        if problem := sample_problem(model, title_table["title"], lexical, nearest.index):
            raise UserError(f"{directory}: {problem}. {_REBUILD_HINT}")
        return cls(model, title_table, lexical, nearest)

    @cached_property
    def bm25(self) -> Ranker:
        """BM25 as a ranker of any text, for explanations."""
        from dssm_tf.baselines.bm25 import BM25

        return BM25().fit([], self.title_table["title"].to_pylist())

    @cached_property
    def example_queries(self) -> list[str]:
        """Queries to try, made from titles."""
        return examples_from_table(self.title_table)

    @cached_property
    def filters(self) -> TitleFilters:
        """Filters by id and by the fields of titles."""
        return TitleFilters(self.title_table, self.model.vocabulary.rules)

    def search(self, query: str, k: int = 10, filters: Filters | None = None) -> SearchResult:
        """Returns the best `k` titles by each system.

        BM25 has no hits if no title has a word of the query. The model has none if its vocabulary
        has no letter n-gram of the query.

        Args:
            query: any text.
            k: number of titles per system, at least 1.
            filters: the accepted values of fields, see `TitleFilters`; None for all titles.

        Raises:
            UserError: a filter is not one of this index.
        """
        allowed = self.filters.mask(filters) if filters else None
        query, split = one_line(query), self.model.vocabulary.words
        words = [word for word in FOLDED.words(query) if word in self.lexical.vocab_dict]
        bm25 = self.lexical.get_scores(words) if words else np.zeros(len(self))
        matching = np.flatnonzero(bm25 if allowed is None else bm25 * allowed)
        lexical_rows = matching[top_columns(bm25[matching], max(k, FIRST_TITLES))]

        # The query's unit vector (zeros if it has no known n-gram), followed by 1.
        vector = self.model.encode_queries([query], prior=True)[0]
        semantic_rows = np.zeros(0, np.int64)
        if vector[:-1].any():
            semantic_rows = self.nearest.search(vector, max(k, _CANDIDATES), allowed)[1]

        rankings: dict[str, list[Hit]] = {}
        for system, rows in (("semantic", semantic_rows), ("bm25", lexical_rows)):
            rows = np.sort(rows)  # titles with equal scores stay in the order of the corpus
            scores = self.nearest.score(vector, rows)
            # The last component of a title's vector is its prior.
            priors = self.nearest.score(np.eye(len(vector))[-1], rows)
            values = bm25[rows] if system == "bm25" else scores
            best = np.argsort(-values, kind="stable")[: max(k, FIRST_TITLES)]
            entries = self.title_table.take(rows[best]).to_pydict()
            columns = (
                numbers[best].tolist()
                for numbers in (scores, scores - priors, priors, bm25[rows], values)
            )
            rankings[system] = list(map(Hit, entries["doc_id"], entries["title"], *columns))
        has_good_match = any(
            is_good_match(self.model.cutoff, hit.similarity, split(query), split(hit.title))
            for hits in rankings.values()
            for hit in hits[:FIRST_TITLES]
        )
        note = ""
        if not any(rankings.values()):
            note = NO_KNOWN_NGRAM_NOTE
        elif not has_good_match:
            note = NO_GOOD_MATCH_NOTE
        return SearchResult({name: hits[:k] for name, hits in rankings.items()}, note)
