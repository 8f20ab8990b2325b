"""What every process of a benchmark reads: judgments, corpus and the cleaned click log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dssm_tf.baselines.base import Click
from dssm_tf.common.files import atomic_write
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.model.prior import TitlePrior
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.text.normalize import normalize

CLICKS, JUDGMENTS, CORPUS = "clicks.tsv", "judgments.tsv", "corpus.tsv"
TRAFFIC = "traffic.tsv"
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
        rows = (self.folder / CLICKS).read_text("utf-8").split("\n")[1:]
        cells = (row.split("\t") for row in rows if row)
        return [(query, title, float(clicks)) for query, title, clicks in cells]

    def traffic(self) -> Mapping[str, float]:
        """Clicks of each normalised query: in what judges where clicks do, else in the log."""
        path = self.folder / TRAFFIC
        if path.exists():
            rows = path.read_text("utf-8").split("\n")[1:]
            pairs = (row.split("\t") for row in rows if row)
            return {query: float(clicks) for query, clicks in pairs}
        clicks: dict[str, float] = defaultdict(float)
        for query, _, count in self.clicks():
            clicks[normalize(query)] += count
        return clicks

    def titles(self) -> list[str]:
        """What statistics of titles are taken from: the corpus; without one, all titles known."""
        task = self.task()
        clicked = [] if task.whole_corpus else [title for _, title, _ in self.clicks()]
        return sorted({*task.titles, *clicked}, key=tie_key)

    def prior(self) -> TitlePrior:
        """The log-prior of titles by the clicks of the whole log."""
        from dssm_tf.data.schema import Title

        return TitlePrior(Title(title, int(clicks)) for _, title, clicks in self.clicks())


def data_name(negatives: int) -> str:
    """The directory of the log preprocessed with so many recorded negatives."""
    return f"data-{negatives}"


def write_traffic(path: Path, clicks: Mapping[str, float]) -> None:
    """Writes what `Inputs.traffic` reads."""
    with atomic_write(path) as file:
        file.write("query\tclicks\n")
        file.writelines(f"{query}\t{count:.15g}\n" for query, count in sorted(clicks.items()))


def write_clicks(path: Path, clicks: list[Click]) -> None:
    """Writes what `Inputs.clicks` reads."""
    with atomic_write(path) as file:
        file.write("query\ttitle\tclicks\n")
        file.writelines(f"{query}\t{title}\t{count:.15g}\n" for query, title, count in clicks)
