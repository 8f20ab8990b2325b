"""What every adapter is: how a published data set becomes clicks, corpus and judgments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dssm_tf.datasets.output import Output
from dssm_tf.datasets.source import Source

Convert = Callable[[Source, Output, Mapping[str, str]], None]
"""Reads the source by the options, and writes the output."""

SPLIT_BY_QUERY = "no split is published: a share of the queries (--held-out) is judged only"
SPLIT_BY_TIME = "the latest share of the clicks (--held-out) becomes judgments"
BY_LATER_CLICKS = "by later clicks, per query: 3 most clicked, 2 at least half of that, 1 clicked"


@dataclass(frozen=True)
class Adapter:
    """One source of data.

    Args:
        title: what it is, in a few words.
        described: who publishes it, and under which name its files are described.
        licence: what may be done with it, as far as its publisher says.
        files: the files that are read.
        grades: where judgments and their grades come from.
        split: how clicks and judgments are kept apart.
        convert: does the work.
        held_out: the default share of queries or clicks that become judgments; None where the
            publisher has split the data.
        options: defaults of further settings by name, each with what it is after a space.
        columns: of the click log beside query, title, clicks and doc_id.
    """

    title: str
    described: str
    licence: str
    files: tuple[str, ...]
    grades: str
    split: str
    convert: Convert
    held_out: float | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
