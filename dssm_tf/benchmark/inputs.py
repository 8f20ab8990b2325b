"""What every process of a benchmark reads: judgments, corpus and the cleaned click log."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dssm_tf.baselines.base import Click
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.model.prior import TitlePrior
from dssm_tf.tables.cells import number
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.reader import read_rows
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import FOLDED

CLICKS, JUDGMENTS, CORPUS = "clicks.tsv", "judgments.tsv", "corpus.tsv"
TRAFFIC = "traffic.tsv"
LOG = "log.json"
_COLUMNS = {"query": None, "title": None, "clicks": number}
_TRAFFIC_COLUMNS = {"query": None, "clicks": number}
INPUTS = "inputs"
SHARES = {"1/8": f"{INPUTS}-1-8", "1/4": f"{INPUTS}-1-4", "1/2": f"{INPUTS}-1-2"}
"""Of a learning curve, the folders with so much of the clicks."""

RECORDED = 4
"""Negatives that preprocess records unless a configuration asks for more."""


@dataclass(frozen=True)
class Inputs:
    """A directory that `prepare` wrote.

    Attributes:
        folder: holds `clicks.tsv`, `judgments.tsv`, perhaps `corpus.tsv` and `traffic.tsv`, and
            the log as preprocess writes it, see `data_name`.
    """

    folder: Path

    def task(self) -> RankingTask:
        """The queries, titles and grades."""
        path = self.folder / CORPUS
        corpus = read_corpus(path) if path.exists() else None
        return RankingTask(read_judgments(self.folder / JUDGMENTS, repeats="mean"), corpus)

    def clicks(self) -> list[Click]:
        """The log as every system gets it: cleaned, one row a query and title."""
        return [row for _, row in read_rows(self.folder / CLICKS, _COLUMNS)]

    def log(self) -> dict[str, Any]:
        """How the log was read (`Tally.described`) and, if it was, split (`Split.described`)."""
        found: dict[str, Any] = json.loads((self.folder / LOG).read_text("utf-8"))
        return found

    def traffic(self) -> Mapping[str, float]:
        """Clicks of each normalised query: in what judges where clicks do, else in the log."""
        path = self.folder / TRAFFIC
        if path.exists():
            rows = read_rows(path, _TRAFFIC_COLUMNS)
            return {query: clicks for _, (query, clicks) in rows}
        clicks: dict[str, float] = defaultdict(float)
        for query, _, count in self.clicks():
            clicks[FOLDED.key(query)] += count
        return clicks

    def titles(self) -> list[str]:
        """What statistics of titles are taken from: the corpus; without one, all titles known."""
        task = self.task()
        clicked = [] if task.whole_corpus else [title for _, title, _ in self.clicks()]
        return sorted({*task.titles, *clicked}, key=tie_key)

    def prior(self) -> TitlePrior:
        """The log-prior of titles by the clicks of the whole log."""
        from dssm_tf.data.titles import Title

        return TitlePrior((Title(title, int(clicks)) for _, title, clicks in self.clicks()), FOLDED)


def data_name(negatives: int) -> str:
    """The directory of the log preprocessed with so many recorded negatives."""
    return f"data-{negatives}"


def write_traffic(path: Path, clicks: Mapping[str, float]) -> None:
    """Writes what `Inputs.traffic` reads."""
    rows = ((query, f"{count:.15g}") for query, count in sorted(clicks.items()))
    write_table(path, _TRAFFIC_COLUMNS, rows)


def write_clicks(path: Path, clicks: list[Click]) -> None:
    """Writes what `Inputs.clicks` reads."""
    write_table(path, _COLUMNS, ((query, title, f"{count:.15g}") for query, title, count in clicks))
