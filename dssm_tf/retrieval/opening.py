"""Builds or opens the index that fits a model: an index of words, or one of title vectors."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import local_path
from dssm_tf.export.load import find_model
from dssm_tf.retrieval.hits import SearchResult
from dssm_tf.retrieval.index import VectorIndex
from dssm_tf.retrieval.maxsim_arrays import Progress
from dssm_tf.retrieval.maxsim_files import SETTINGS
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.title_columns import with_columns
from dssm_tf.retrieval.title_filters import Filters, with_field_names
from dssm_tf.runtime.boosts import Boosts
from dssm_tf.runtime.compact_files import INDEX_MODEL
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_rules import read_rules
from dssm_tf.runtime.vector_ranker import require_vectors
from dssm_tf.tables.judgments import CorpusTitle

AnyIndex = VectorIndex | MaxSimIndex
"""Both have `title_table`, `search`, `save`, `write`, `model`, `filters`, `summary`, a length."""


def build_index(
    model: object,
    source: object,
    corpus: Sequence[CorpusTitle],
    kind: str = "auto",
    queries: Sequence[str] = (),
    similar_words: int | None = None,
    progress: Progress = lambda fraction, state: None,
) -> AnyIndex:
    """Builds an index in memory: of words for a maxsim model, otherwise of a vector per title.

    Args:
        model: the trained model.
        source: the directory of the model, for error messages.
        corpus: titles to index.
        kind: for a model that gives one vector per text, see `Nearest.build`.
        queries: for such a model, queries to measure a fast index with.
        similar_words: for a maxsim model, see `MaxSimIndex`; None for the default.
        progress: called with the finished fraction and the current step.

    Raises:
        UserError: an option does not apply to this kind of model, the model is neither a maxsim
            model nor gives one vector per text, no title has a word, or a library is not installed.
    """
    if isinstance(model, MaxSimRanker):
        if kind == "fast" or queries:
            raise UserError(
                f"{source} is a maxsim model, whose index compares all titles; leave --kind and "
                "--queries out."
            )
        if similar_words is None:
            return MaxSimIndex.build(model, corpus, progress=progress)
        return MaxSimIndex.build(model, corpus, similar_words, progress=progress)
    if similar_words is not None:
        raise UserError(f"{source} is not a maxsim model; leave --similar-words out.")
    progress(0.0, "encoding titles")
    return VectorIndex.build(require_vectors(model, source), corpus, kind, queries)


def name_fields(index: AnyIndex, names: Sequence[str]) -> None:
    """Stores the names of the fields of the titles in an index; filters use them."""
    index.title_table = with_field_names(index.title_table, names)


def store_columns(index: AnyIndex, columns: Mapping[str, Sequence[str]]) -> None:
    """Stores columns of the catalog in an index; filters and boosts use them.

    Args:
        index: a new index.
        columns: the cells of each column, `(entries,)`, by name; a missing cell is an empty text.
    """
    index.title_table = with_columns(index.title_table, columns)


def search_index(
    index: AnyIndex, query: str, k: int, filters: Filters | None, boosts: Boosts | None
) -> SearchResult:
    """Searches any index.

    Args:
        index: the index.
        query: any text.
        k: number of titles per ranking, at least 1.
        filters: see `title_filters`; None for all titles.
        boosts: see `runtime.boosts`; None for no boosts.

    Raises:
        UserError: the index cannot apply a filter or a boost, or its model has no boosts.
    """
    if isinstance(index, MaxSimIndex):
        return index.search(query, k, filters=filters, boosts=boosts)
    if boosts:
        raise UserError(
            f"boosts are for the score maxsim; {index.model.name} gives one vector per text."
        )
    return index.search(query, k, filters)


def open_index(directory: Path | str, mapped: bool = True, rules: Path | None = None) -> AnyIndex:
    """Checks and memory-maps a directory that `dssm index` wrote, and loads its model.

    Args:
        directory: the index.
        mapped: False reads the files into memory. With memory maps, the process crashes if a file
            is truncated, and results change if a file is overwritten.
        rules: a file of rules by hand, which replace those of the index; None to keep those.

    Raises:
        UserError: the directory is not an index, a file is damaged, a library is not installed, a
            rule is not valid, or `rules` is given for a model without the score maxsim.
    """
    directory = local_path(directory)
    if not directory.exists():
        raise UserError(f"{directory} does not exist; expected an index that `dssm index` wrote.")
    if find_model(directory) is not None and not (directory / INDEX_MODEL).exists():
        raise UserError(
            f"{directory} is a model, not an index; build its index: dssm index --model "
            f"{shlex.quote(str(directory))} --corpus CORPUS --out INDEX."
        )
    if (directory / SETTINGS).exists():
        index = MaxSimIndex.open(directory, mapped)
        if rules is None:
            return index
        return index.with_rules(read_rules(rules, index.model.vocabulary))
    if rules is not None:
        raise UserError(f"{rules} cannot be applied: rules are for models with the score maxsim.")
    return VectorIndex.open(directory, mapped)
