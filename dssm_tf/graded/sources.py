"""What a configuration has to learn from besides clicks, read and divided by query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import UserError
from dssm_tf.config import Config, JudgmentsConfig, ListsConfig
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.tables.graded_lists import GradedList, read_grades, read_scores
from dssm_tf.tables.splits import is_held_out
from dssm_tf.text.rules import Key, Rules

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
    def number(self) -> int:
        """Its place in `SOURCES`."""
        return SOURCES.index(self.name)

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
    if not config.lists:
        return ()
    known = {data.rules.key(title.text) for title in data.titles}
    divide = _Division.of(data)
    return tuple(
        _divided(name, section, known, divide, data) for name, section in config.lists.items()
    )


class _Division:
    """Says which queries are held out.

    Where the log has a validation part, that is its queries, and a share of those that the log
    does not have: one whose clicks are trained on would validate better than a new one.

    Args:
        validation: ids of the queries of the log's validation part.
        log: of those of the log, in either part.
        rules: of the log's texts.
    """

    def __init__(self, validation: set[int], log: set[int], rules: Rules) -> None:
        self._validation = validation
        self._log = log
        self._rules = rules

    @classmethod
    def of(cls, data: Preprocessed) -> _Division:
        """That of a data directory."""
        if not data.count("validation"):
            return cls(set(), set(), data.rules)
        validation = {data.rules.id(query) for query, _, _ in data.clicks("validation")}
        log = set(data.clicked_titles.queries.tolist())
        return cls(validation, log, data.rules)

    def holds_out(self, query: str, share: float) -> bool:
        """Whether a query validates."""
        key = self._rules.id(query)
        new = key not in self._log
        return key in self._validation or (new and is_held_out(query, share, _HELD_OUT))


def _divided(
    name: str, section: ListsConfig, known: set[Key], divide: _Division, data: Preprocessed
) -> Source:
    path, rules = Path(section.file), data.rules
    if isinstance(section, JudgmentsConfig):
        lists = read_grades(path, section.max_grade, rules, title_fields=data.spec.title_fields)
        judged = sum(len(one.titles) for one in lists)
        lists = [left for one in lists if (left := _unclicked(one, data)).titles]
        clicked = judged - sum(len(one.titles) for one in lists)
    else:
        lists, clicked = read_scores(path, rules), 0
    training: list[GradedList] = []
    held_out: list[GradedList] = []
    for one in lists:
        held = divide.holds_out(one.query, section.validation)
        (held_out if held else training).append(one)
    strangers = [
        (one.query, title) for one in lists for title in one.titles if rules.key(title) not in known
    ]
    source = Source(name, section, training, held_out, strangers, rules, clicked)
    if len(strangers) == source.pairs:
        raise UserError(
            f"{path}: none of its {source.pairs:,} pairs has a title that the data directory "
            f"holds, {strangers[0][1]!r:.60} for one; give the file that belongs to these data, or "
            "run preprocess with its titles as --corpus."
        )
    if all(len(set(one.values)) < 2 for one in training):
        raise UserError(
            f"{path}: none of the {len(training):,} queries to learn from has two titles with "
            "different numbers; titles are learned by comparing them with others of their query."
        )
    return source


def _unclicked(one: GradedList, data: Preprocessed) -> GradedList:
    """A list without the titles of grade 0 that somebody clicked for the query."""
    clicked = set(data.clicked_titles.of(data.rules.id(one.query)))
    pairs = [
        (title, grade)
        for title, grade in zip(one.titles, one.values, strict=True)
        if grade > 0 or data.rules.id(title) not in clicked
    ]
    return GradedList(one.query, tuple(t for t, _ in pairs), tuple(g for _, g in pairs))
