"""What every process of a benchmark reads: judgments, corpus and the cleaned click log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dssm_tf.baselines.base import Click
from dssm_tf.common.files import atomic_write
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.model.prior import TitlePrior
from dssm_tf.tables.judgments import read_corpus, read_judgments

CLICKS, JUDGMENTS, CORPUS = "clicks.tsv", "judgments.tsv", "corpus.tsv"
RECORDED = 4
"""Negatives that preprocess records unless a configuration asks for more."""


@dataclass(frozen=True)
class Inputs:
    """A directory that `prepare` wrote.

    Attributes:
        folder: holds `clicks.tsv`, `judgments.tsv`, perhaps `corpus.tsv`, and the log as
            preprocess writes it, see `data_name`.
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


def write_clicks(path: Path, clicks: list[Click]) -> None:
    """Writes what `Inputs.clicks` reads."""
    with atomic_write(path) as file:
        file.write("query\ttitle\tclicks\n")
        file.writelines(f"{query}\t{title}\t{count:.15g}\n" for query, title, count in clicks)
