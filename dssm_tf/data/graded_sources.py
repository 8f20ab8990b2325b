"""Reads lists of graded or scored titles, and splits them by query into training and validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.checksums import expected_sha256
from dssm_tf.common.errors import UserError
from dssm_tf.config.lists import JudgmentsConfig, ListsConfig
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.rows import TrainingRows
from dssm_tf.data.texts import TextIndexer
from dssm_tf.tables.graded_lists import SCORE_LIMITS, GradedList, chunk_list, read_lists
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.splits import is_held_out
from dssm_tf.text.rules import TextRules
from dssm_tf.text.stable_hash import pair_fingerprints

SOURCES = ("clicks", "judgments", "teacher")
"""The sources of labels, in the order of the losses of `BySource`."""

_SPLIT_PURPOSE = "graded validation"  # see `is_held_out`: splits of the log have other purposes


@dataclass(frozen=True)
class GradedSource:
    """A file of lists, split into training and validation lists.

    Args:
        name: one of `SOURCES`.
        section: its section of the configuration.
        training: lists to train on.
        validation: lists that are not trained on; `training` has none of their queries.
        unknown_pairs: (query, title) pairs whose title is not in the data directory.
        rules: text rules of the data directory.
        excluded_pairs: number of pairs that are not used, because the title has grade 0 but was
            clicked for the query.
    """

    name: str
    section: ListsConfig
    training: Sequence[GradedList]
    validation: Sequence[GradedList]
    unknown_pairs: Sequence[tuple[str, str]]
    rules: TextRules
    excluded_pairs: int

    @property
    def pairs(self) -> int:
        """Number of (query, title) pairs, training and validation."""
        return sum(len(graded.titles) for graded in (*self.training, *self.validation))

    @property
    def query_ids(self) -> NDArray[np.int64]:
        """The id of each query, training and validation; see `TextRules.id`."""
        return self.rules.ids(graded.query for graded in (*self.training, *self.validation))

    @property
    def pair_ids(self) -> NDArray[np.int64]:
        """The id of each (query, title) pair, training and validation; see `pair_fingerprints`."""
        lists = [*self.training, *self.validation]
        titles = self.rules.ids(title for graded in lists for title in graded.titles)
        counts = [len(graded.titles) for graded in lists]
        return pair_fingerprints(np.repeat(self.query_ids, counts), titles)

    @property
    def description(self) -> str:
        """One sentence for a model card."""
        values = "grades" if self.name == "judgments" else "scores"
        queries = len(self.training) + len(self.validation)
        return (
            f"{self.pairs:,} {values} of {queries:,} queries from "
            f"{Path(self.section.file).name} (SHA-256 {self.section.sha256[:16]}), "
            f"{len(self.validation):,} of the queries held out; loss "
            f"{self.section.loss.summary()}, weight {self.section.weight:g}"
        )

    def summary_lines(self) -> Iterator[str]:
        """Lines for the terminal before training: sizes, and warnings about the data."""
        yield (
            f"{self.name}: {self.pairs:,} pairs of {len(self.training):,} queries to train on "
            f"and {len(self.validation):,} for validation, {self.section.file}"
        )
        if self.excluded_pairs:
            yield (
                f"{self.name}: {self.excluded_pairs:,} pairs of grade 0 are left out, because the "
                "title was clicked for the query"
            )
        if self.unknown_pairs:
            query, title = self.unknown_pairs[0]
            yield (
                f"WARNING: {len(self.unknown_pairs):,} of {self.pairs:,} pairs of {self.name} have "
                f"a title that is not in the data directory, such as {title!r:.60} for "
                f"{query!r:.40}; letter n-grams that only those titles have are not learned."
            )


def with_file_hashes(sections: Mapping[str, ListsConfig]) -> dict[str, ListsConfig]:
    """Adds each file's SHA-256 to its section, so that a resumed run detects a changed file.

    Args:
        sections: sections by their key in the configuration.

    Raises:
        UserError: a file cannot be read, or its SHA-256 is not that of its section.
    """
    hashed = {}
    for name, section in sections.items():
        accept = f"dssm train --{name} {section.file}"
        sha256 = expected_sha256(f"{name}.sha256", Path(section.file), section.sha256, accept)
        hashed[name] = section.model_copy(update={"sha256": sha256})
    return hashed


def read_sources(
    sections: Mapping[str, ListsConfig], data: Preprocessed
) -> tuple[GradedSource, ...]:
    """Reads the files of lists and splits each by query into training and validation.

    Args:
        sections: sections by their key in the configuration.
        data: the preprocessed data directory.

    Raises:
        UserError: a file is unusable, all of its titles are unknown, or no list is left to train
            on.
    """
    return tuple(_read(name, section, data) for name, section in sections.items())


def _read(name: str, section: ListsConfig, data: Preprocessed) -> GradedSource:
    """Reads and splits a file of lists.

    Two kinds of queries are held out: those in the log's validation split, and a fraction of those
    that are not in the log. Queries in the log's training split are not held out, because their
    metrics would be too high. If the log has no validation split, the fraction is of all queries.
    Titles of grade 0 that were clicked for the query are not used.
    """
    path, rules = Path(section.file), data.rules
    if isinstance(section, JudgmentsConfig):
        layout = Layout(title_fields=data.spec.title_fields)
        lists = read_lists(path, "grade", (0, section.max_grade), rules, layout)
    else:
        lists = read_lists(path, "score", SCORE_LIMITS, rules)
    validation_queries = set(data.splits["validation"].query.tolist())
    query_indices = data.find("queries", [graded.query for graded in lists])
    title_indices = data.find("titles", [title for graded in lists for title in graded.titles])
    training: list[GradedList] = []
    validation: list[GradedList] = []
    unknown_pairs: list[tuple[str, str]] = []
    excluded_pairs = first_title = 0
    for graded, query in zip(lists, query_indices.tolist(), strict=True):
        in_log = query >= 0
        clicked = data.clicked[query].as_py() if name == "judgments" and in_log else ()
        end_title = first_title + len(graded.titles)
        indices = title_indices[first_title:end_title].tolist()
        first_title = end_title
        rows = list(zip(graded.titles, graded.values, indices, strict=True))
        unknown_pairs += [(graded.query, title) for title, _, index in rows if index < 0]
        usable = [
            (title, value) for title, value, index in rows if value > 0 or index not in clicked
        ]
        excluded_pairs += len(rows) - len(usable)
        if not usable:
            continue
        titles, values = zip(*usable, strict=True)
        may_validate = not in_log or not validation_queries
        if query in validation_queries or (
            may_validate and is_held_out(graded.query, section.validation, _SPLIT_PURPOSE)
        ):
            validation.append(GradedList(graded.query, titles, values))
        else:
            training.append(GradedList(graded.query, titles, values))
    if len(unknown_pairs) == len(title_indices):
        raise UserError(
            f"{path}: none of the titles of its {len(title_indices):,} pairs is in the data "
            f"directory, such as {unknown_pairs[0][1]!r:.60}; give the file that belongs to this "
            "data, or run preprocess with its titles as --corpus."
        )
    if all(len(set(graded.values)) < 2 for graded in training):
        raise UserError(
            f"{path}: none of the {len(training):,} queries to train on has two titles with "
            "different values; a list trains the model by the differences between its titles."
        )
    return GradedSource(name, section, training, validation, unknown_pairs, rules, excluded_pairs)


def list_rows(source: GradedSource, indexer: TextIndexer) -> dict[str, TrainingRows]:
    """Converts the lists of a source to rows, by split. A title's grade or score is its target.

    Args:
        source: file of lists.
        indexer: maps texts to indices; texts that the data directory lacks are added to it.
    """
    section = source.section
    chunks_by_split = {
        split: [chunk for graded in lists for chunk in chunk_list(graded, section.titles)]
        for split, lists in (("train", source.training), ("validation", source.validation))
        if lists
    }
    width = max(len(chunk.titles) for chunks in chunks_by_split.values() for chunk in chunks)
    rows = {}
    for split, chunks in chunks_by_split.items():
        titles = np.full((len(chunks), width), -1, np.int32)
        targets = np.zeros((len(chunks), width), np.float32)
        for row, chunk in enumerate(chunks):
            titles[row, : len(chunk.titles)] = indexer.add_texts("titles", [*chunk.titles])
            targets[row, : len(chunk.titles)] = chunk.values
        rows[split] = TrainingRows(
            SOURCES.index(source.name),
            indexer.add_texts("queries", [chunk.query for chunk in chunks]),
            titles,
            np.ones(len(chunks), np.float32),
            section.batch_size,
            section.weight,
            targets,
        )
    return rows
