"""What a configuration has to learn from besides clicks, read and divided by query."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import UserError
from dssm_tf.config import Config, JudgmentsConfig, ListsConfig
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.rows import Rows
from dssm_tf.data.texts import Numbers
from dssm_tf.tables.graded_lists import GradedList, deal, read_grades, read_scores
from dssm_tf.tables.splits import is_held_out
from dssm_tf.text.rules import Rules

SOURCES = ("clicks", "judgments", "teacher")
"""Where labels come from, in the order of `BySource`'s losses; all but clicks are sections."""

_HELD_OUT = "graded validation"


@dataclass(frozen=True)
class Source:
    """A file of lists, divided into those to train on and those held out for validation.

    Args:
        name: of `SOURCES`.
        section: of the configuration.
        training: lists to train on.
        held_out: lists that validate; none of their queries is in `training`.
        strangers: of the lists' pairs, those with a title that the data directory does not hold.
        rules: of the data directory's texts.
        clicked: pairs left out: titles judged to be bad that were clicked for the query.
    """

    name: str
    section: ListsConfig
    training: Sequence[GradedList]
    held_out: Sequence[GradedList]
    strangers: Sequence[tuple[str, str]]
    rules: Rules
    clicked: int

    @property
    def pairs(self) -> int:
        """(query, title) pairs of both parts."""
        return sum(len(one.titles) for part in (self.training, self.held_out) for one in part)

    @property
    def query_ids(self) -> NDArray[np.int64]:
        """The id of each query of both parts."""
        return self.rules.column(one.query for one in (*self.training, *self.held_out))

    @property
    def about(self) -> str:
        """What it is, for a model card."""
        what = "grades" if self.name == "judgments" else "scores"
        arguments = ", ".join(
            f"{key} {value}" for key, value in self.section.loss.arguments.items()
        )
        return (
            f"{self.pairs:,} {what} of {len(self.training) + len(self.held_out):,} queries from "
            f"{Path(self.section.file).name} (SHA-256 {self.section.sha256[:16]}), "
            f"{len(self.held_out):,} of the queries held out; loss {self.section.loss.name}, "
            f"{arguments}, weight {self.section.weight:g}"
        )

    def said(self) -> Iterator[str]:
        """What a user should know before training: how much there is, and what is suspicious."""
        yield (
            f"{self.name}: {self.pairs:,} pairs of {len(self.training):,} queries to learn from "
            f"and {len(self.held_out):,} held out, {self.section.file}"
        )
        if self.clicked:
            yield (
                f"{self.name}: {self.clicked:,} pairs of grade 0 are left out, because somebody "
                "clicked the title for the query"
            )
        if self.strangers:
            query, title = self.strangers[0]
            yield (
                f"WARNING: {len(self.strangers):,} of {self.pairs:,} pairs of {self.name} have a "
                f"title that the data directory does not hold, such as {title!r:.60} for "
                f"{query!r:.40}; letter trigrams that only those titles have are not learned."
            )


def pinned(config: Config) -> Config:
    """The configuration with the SHA-256 of each file of lists, which a run is then tied to.

    Raises:
        UserError: a file cannot be read, or is not the one that the configuration asks for; or
            nothing would be learned from.
    """
    found = {}
    for name, section in config.lists.items():
        sha256 = fingerprint(Path(section.file))
        if section.sha256 not in ("", sha256):
            raise UserError(
                f"{name}.sha256: {section.file} has {sha256[:16]}..., the configuration asks for "
                f"{section.sha256[:16]}...; give the file that it was written for, or "
                f"take this one by dssm train --{name} {section.file}."
            )
        found[name] = section.model_copy(update={"sha256": sha256})
    if not (found or config.training.clicks):
        raise UserError(
            "training.clicks: false leaves nothing to learn from; give --judgments or --teacher."
        )
    return config.model_copy(update=found)


def read_sources(config: Config, data: Preprocessed) -> tuple[Source, ...]:
    """The files of lists, divided by query into what trains and what validates.

    Raises:
        UserError: a file is unusable, all of its titles are unknown, or no list is left to train
            on.
    """
    return tuple(_read(name, section, data) for name, section in config.lists.items())


def _read(name: str, section: ListsConfig, data: Preprocessed) -> Source:
    path, rules = Path(section.file), data.rules
    if isinstance(section, JudgmentsConfig):
        lists = read_grades(path, section.max_grade, rules, title_fields=data.spec.title_fields)
    else:
        lists = read_scores(path, rules)
    numbers = data.find("queries", [one.query for one in lists])
    places = data.find("titles", [title for one in lists for title in one.titles])
    ends = np.cumsum([len(one.titles) for one in lists])
    strangers = [
        (one.query, title)
        for one, titles in zip(lists, np.split(places, ends), strict=False)
        for title, place in zip(one.titles, titles.tolist(), strict=True)
        if place < 0
    ]
    clicked = 0
    if isinstance(section, JudgmentsConfig):
        judged = int(ends[-1])
        lists = [
            _unclicked(one, titles, data.clicked[query].as_py() if query >= 0 else ())
            for one, query, titles in zip(
                lists, numbers.tolist(), np.split(places, ends), strict=False
            )
        ]
        clicked = judged - sum(len(one.titles) for one in lists)
    held = _held_out(lists, numbers, section.validation, data)
    training, held_out = (
        [one for one, out in zip(lists, held, strict=True) if out == part and one.titles]
        for part in (False, True)
    )
    source = Source(name, section, training, held_out, strangers, rules, clicked)
    if len(strangers) == len(places):
        raise UserError(
            f"{path}: none of its {len(places):,} pairs has a title that the data directory "
            f"holds, {strangers[0][1]!r:.60} for one; give the file that belongs to these data, or "
            "run preprocess with its titles as --corpus."
        )
    if all(len(set(one.values)) < 2 for one in training):
        raise UserError(
            f"{path}: none of the {len(training):,} queries to learn from has two titles with "
            "different numbers; titles are learned by comparing them with others of their query."
        )
    return source


def _held_out(
    lists: Sequence[GradedList], numbers: NDArray[np.int64], share: float, data: Preprocessed
) -> list[bool]:
    """Which queries validate.

    Where the log has a validation part, that is its queries, and a share of those that the log
    does not have: one whose clicks are trained on would validate better than a new one.
    """
    validating = set(data.parts["validation"].query.tolist())
    return [
        number in validating
        or ((number < 0 or not validating) and is_held_out(one.query, share, _HELD_OUT))
        for one, number in zip(lists, numbers.tolist(), strict=True)
    ]


def _unclicked(one: GradedList, titles: NDArray[np.int64], clicked: Container[int]) -> GradedList:
    """A list without the titles of grade 0 that somebody clicked for the query."""
    pairs = [
        (title, grade)
        for title, grade, place in zip(one.titles, one.values, titles.tolist(), strict=True)
        if grade > 0 or place not in clicked
    ]
    return GradedList(one.query, tuple(t for t, _ in pairs), tuple(g for _, g in pairs))


def list_rows(source: Source, numbers: Numbers) -> dict[str, Rows]:
    """The lists of a source as rows by part: a query with its titles, and their numbers as targets.

    Args:
        source: of lists.
        numbers: of the training's texts; those that the data lack are added.
    """
    section = source.section
    parts = {
        part: [hand for one in lists for hand in deal(one, section.titles)]
        for part, lists in (("train", source.training), ("validation", source.held_out))
    }
    width = max(len(one.titles) for lists in parts.values() for one in lists)
    return {
        part: Rows(
            SOURCES.index(source.name),
            numbers.of("queries", [one.query for one in lists]),
            _filled([numbers.of("titles", [*one.titles]) for one in lists], width, -1, np.int32),
            np.ones(len(lists), np.float32),
            section.batch_size,
            section.weight,
            _filled([one.values for one in lists], width, 0, np.float32),
        )
        for part, lists in parts.items()
        if lists
    }


def _filled(lists: Sequence[Any], width: int, fill: int, kind: type) -> NDArray[Any]:
    matrix: NDArray[Any] = np.full((len(lists), width), fill, kind)
    for row, values in zip(matrix, lists, strict=True):
        row[: len(values)] = values
    return matrix
