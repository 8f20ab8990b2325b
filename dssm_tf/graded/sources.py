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
from dssm_tf.data.rows import Rows
from dssm_tf.data.texts import Numbers
from dssm_tf.tables.graded_lists import SCORES, GradedList, deal, read_lists
from dssm_tf.tables.layout import Layout
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
        return sum(len(one.titles) for one in (*self.training, *self.held_out))

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
    """A file's lists; if the log has a validation part, its queries validate.

    So does a share of the queries that the log does not have: one whose clicks are trained on
    would validate better than a new one. Titles of grade 0 that somebody clicked are left out.
    """
    path, rules = Path(section.file), data.rules
    if isinstance(section, JudgmentsConfig):
        layout = Layout(title_fields=data.spec.title_fields)
        lists = read_lists(path, "grade", (0, section.max_grade), rules, layout)
    else:
        lists = read_lists(path, "score", SCORES, rules)
    validating = set(data.parts["validation"].query.tolist())
    found = data.find("titles", [title for one in lists for title in one.titles])
    numbers, start = found.tolist(), 0
    parts: dict[bool, list[GradedList]] = {False: [], True: []}
    strangers, left_out = [], 0
    for one, query in zip(lists, data.find("queries", [one.query for one in lists]), strict=True):
        clicked = data.clicked[int(query)].as_py() if name == "judgments" and query >= 0 else ()
        end = start + len(one.titles)
        rows = [*zip(one.titles, one.values, numbers[start:end], strict=True)]
        start = end
        strangers += [(one.query, title) for title, _, number in rows if number < 0]
        kept = [(title, v) for title, v, number in rows if v > 0 or number not in clicked]
        new = query < 0 or not validating
        out = query in validating or (new and is_held_out(one.query, section.validation, _HELD_OUT))
        if kept:
            titles, values = zip(*kept, strict=True)
            parts[out].append(GradedList(one.query, titles, values))
        left_out += len(rows) - len(kept)
    if len(strangers) == len(found):
        raise UserError(
            f"{path}: none of its {len(found):,} pairs has a title that the data directory holds, "
            f"{strangers[0][1]!r:.60} for one; give the file that belongs to these data, or run "
            "preprocess with its titles as --corpus."
        )
    if all(len(set(one.values)) < 2 for one in parts[False]):
        raise UserError(
            f"{path}: none of the {len(parts[False]):,} queries to learn from has two titles with "
            "different numbers; titles are learned by comparing them with others of their query."
        )
    return Source(name, section, parts[False], parts[True], strangers, rules, left_out)


def list_rows(source: Source, numbers: Numbers) -> dict[str, Rows]:
    """The lists of a source as rows by part: a query with its titles, and their numbers as targets.

    Args:
        source: of lists.
        numbers: of the run's texts; those that the data lack are added.
    """
    section = source.section
    dealt = {
        part: [hand for one in lists for hand in deal(one, section.titles)]
        for part, lists in (("train", source.training), ("validation", source.held_out))
        if lists
    }
    width = max(len(one.titles) for lists in dealt.values() for one in lists)
    found = {}
    for part, lists in dealt.items():
        titles = np.full((len(lists), width), -1, np.int32)
        targets = np.zeros((len(lists), width), np.float32)
        for row, one in enumerate(lists):
            titles[row, : len(one.titles)] = numbers.of("titles", [*one.titles])
            targets[row, : len(one.titles)] = one.values
        found[part] = Rows(
            SOURCES.index(source.name),
            numbers.of("queries", [one.query for one in lists]),
            titles,
            np.ones(len(lists), np.float32),
            section.batch_size,
            section.weight,
            targets,
        )
    return found
