"""`Adapter`: describes a published data set and converts it to clicks, corpus and judgments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dssm_tf.datasets.output import DatasetWriter
from dssm_tf.datasets.source import Source

Convert = Callable[[Source, DatasetWriter, Mapping[str, str]], None]
"""Converts: the files of the publisher, the writer of the tables, and the options by key."""

SPLIT_BY_QUERY = (
    "no split is published: a fraction of the queries (--held-out) is used only for judgments"
)
SPLIT_BY_TIME = "the latest clicks (the fraction --held-out) become judgments"
BY_LATER_CLICKS = "by later clicks, per query: 3 most clicked, 2 at least half of that, 1 clicked"


class Option(NamedTuple):
    """A setting of a data set, which `--set KEY=VALUE` changes.

    Args:
        default: value without `--set`.
        description: meaning and allowed values.
    """

    default: str
    description: str


@dataclass(frozen=True)
class Adapter:
    """One published data set.

    Args:
        title: title of the data set, in a few words.
        origin: where it is published, and the documentation or paper that describes it.
        license: its license, as the publisher states it.
        files: the files that are read.
        grades: the origin of judgments and their grades.
        split: how clicks and judgments are separated.
        convert: reads the source and writes the output.
        held_out: default fraction of queries or clicks that become judgments; None if the
            publisher has split the data.
        options: further settings by key.
        columns: columns of the click log besides query, title, clicks and doc_id.
    """

    title: str
    origin: str
    license: str
    files: tuple[str, ...]
    grades: str
    split: str
    convert: Convert
    held_out: float | None = None
    options: Mapping[str, Option] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
