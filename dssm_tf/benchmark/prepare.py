"""From the user's files to what every system of the benchmark reads, once."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dssm_tf.baselines.base import Click
from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, atomic_write
from dssm_tf.common.progress import progress_of
from dssm_tf.common.versions import digest
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.evaluation.typos import misspelt
from dssm_tf.model.prior import TitlePrior
from dssm_tf.tables.click_log import LogRow, read_logs, traffic, write_log
from dssm_tf.tables.judgments import (
    CorpusTitle,
    read_corpus,
    read_judgments,
    write_corpus,
    write_judgments,
)
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.splits import (
    HELD_OUT,
    is_held_out,
    judged_by_clicks,
    split_by_query,
    split_by_time,
)
from dssm_tf.tables.tally import MAX_REJECTED
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import FOLDED

WORK, INPUTS = "work", "inputs"
SHARES = {"1/8": 3, "1/4": 2, "1/2": 1}
"""Of a learning curve, how often the clicks are halved."""

RECORDED = 4
"""Negatives that preprocess records unless a configuration asks for more."""

_LOG, _JUDGMENTS, _CORPUS = "log.tsv", "judgments.tsv", "corpus.tsv"
_FACTS = "facts.json"
_PATHS = ("clicks", "judgments", "corpus")


def data_name(negatives: int = RECORDED, share: str = "") -> str:
    """The directory of the log, or of a share of it, preprocessed with so many negatives.

    >>> data_name(8, "1/4")
    'data-8-1-4'
    """
    return "-".join(["data", str(negatives), *filter(None, share.split("/"))])


DATA = data_name()
"""What every system learns from, unless it needs more negatives or is to learn from less."""


@dataclass(frozen=True)
class Sources:
    """The user's files, and how judgments are made of them.

    Attributes:
        clicks: log files, globs or directories.
        judgments: a table; None to judge by clicks.
        corpus: table of titles.
        judge_later: the share of the log's rows, the latest, that judges and is not learned from.
        hold_out_queries: the share of the queries that is judged and not learned from.
        typos: whether each judged query is ranked with a typing error, too, see `with_typo`.
        layout: of all files.
        max_reject_fraction: the share of the log's rows, and clicks, that may be malformed.
    """

    clicks: Sequence[str]
    judgments: Path | None = None
    corpus: Path | None = None
    judge_later: float | None = None
    hold_out_queries: float | None = None
    typos: bool = False
    layout: Layout = field(default_factory=Layout)
    max_reject_fraction: float = MAX_REJECTED

    def check(self) -> None:
        """Refuses options that do not go together.

        Raises:
            UserError: saying which.
        """
        later, held_out = self.judge_later, self.hold_out_queries
        for name, share in (("--judge-later", later), ("--hold-out-queries", held_out)):
            if share is not None and not 0 < share <= 1:
                raise UserError(f"{name} {share:g}: expected a share above 0 and at most 1.")
        if later is not None and (self.judgments or held_out):
            raise UserError(
                "--judge-later: cannot be combined with --judgments or --hold-out-queries."
            )
        if not (self.judgments or later or held_out):
            raise UserError(
                "nothing to judge by: give --judgments FILE, or --judge-later 0.2 to judge by the "
                "log's later clicks, or --hold-out-queries 0.2 by the clicks of some queries."
            )

    def log_files(self) -> list[Path]:
        """The log's files, each once, as preprocess finds them.

        Raises:
            UserError: an entry matches nothing, or a file is of no known format.
        """
        from pipelines.sources import find_files

        return [Path(one.path) for one in find_files(self.clicks, "--clicks")]

    def files(self) -> dict[str, dict[str, str]]:
        """By flag, the SHA-256 of each file."""
        given = {"judgments": self.judgments, "corpus": self.corpus}
        paths = {"clicks": self.log_files()} | {flag: [one] for flag, one in given.items() if one}
        return {
            flag: {str(one): fingerprint(one) for one in found} for flag, found in paths.items()
        }


@dataclass(frozen=True)
class Inputs:
    """A directory that `prepare` wrote.

    Attributes:
        folder: holds clicks, judgments, perhaps a corpus, and the log as preprocess writes it.
    """

    folder: Path

    def task(self) -> RankingTask:
        """The queries, titles and grades."""
        path = self.folder / _CORPUS
        corpus = read_corpus(path) if path.exists() else None
        return RankingTask(read_judgments(self.folder / _JUDGMENTS), corpus)

    def clicks(self, data: str = DATA) -> list[Click]:
        """The log as every system gets it: cleaned, one row a query and title.

        Args:
            data: see `data_name`.
        """
        from dssm_tf.data.preprocessed import Preprocessed

        return Preprocessed(self.folder / data).log()

    def facts(self) -> dict[str, Any]:
        """Where the inputs are from, how the log was read and split, and clicks by query."""
        found: dict[str, Any] = json.loads((self.folder / _FACTS).read_text("utf-8"))
        return found

    def titles(self, data: str = DATA) -> list[str]:
        """What statistics of titles are taken from: the corpus; without one, all titles known."""
        task = self.task()
        clicked = [] if task.whole_corpus else [title for _, title, _ in self.clicks(data)]
        return sorted({*task.titles, *clicked}, key=tie_key)

    def log_prior(self, task: RankingTask, data: str = DATA) -> NDArray[np.float64]:
        """The log-prior of the task's titles by the clicks, in nats."""
        from dssm_tf.data.format import Title

        clicked = (Title(title, int(clicks)) for _, title, clicks in self.clicks(data))
        return TitlePrior(clicked, FOLDED)(task.titles).astype(np.float64)


def prepare(sources: Sources, out: Path, console: Console | None = None) -> Inputs:
    """Checks, cleans and writes the inputs, or finds them done; says what of the log is used.

    Args:
        sources: the user's files.
        out: directory of the benchmark.
        console: where to say what is done.

    Raises:
        UserError: an input is missing or malformed, or nothing can be measured.
    """
    sources.check()
    inputs, files = Inputs(out / WORK / INPUTS), sources.files()
    others = {name: one for name, one in vars(sources).items() if name not in _PATHS}
    key = digest([[flag, *found.values()] for flag, found in files.items()], others)
    if not inputs.folder.exists() or inputs.facts()["key"] != key:
        shutil.rmtree(inputs.folder, ignore_errors=True)  # those of other files or options
        with progress_of("reading the click log", None, console is not None, unit=""):
            _write(sources, inputs.folder, {"files": files, "key": key})
    facts = inputs.facts()
    if console:
        for line in facts["said"]:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    return inputs


def _write(sources: Sources, folder: Path, facts: dict[str, Any]) -> None:
    layout, later, share = sources.layout, sources.judge_later, sources.hold_out_queries
    corpus: Sequence[CorpusTitle] | None = None
    if sources.corpus:
        corpus = read_corpus(sources.corpus, layout=layout)
    judgments = []
    if sources.judgments:
        judgments = read_judgments(sources.judgments, layout)
    rows, tally = read_logs(sources.log_files(), layout, sources.max_reject_fraction)
    rows.sort()  # no figure depends on the order of a log
    split, judging = "", rows
    if judgments and share:
        judgments = [one for one in judgments if is_held_out(one.query, share, HELD_OUT)]
        # Queries of the log that nobody judged need not be held out.
        chosen = {FOLDED.key(one.query) for one in judgments}
        parts: tuple[list[LogRow], list[LogRow]] = ([], [])
        for row in rows:
            parts[FOLDED.key(row.query) in chosen].append(row)
        rows, judging = parts
    elif not judgments:
        both = split_by_query(rows, share) if share else split_by_time(rows, later or 0.0)
        judgments, corpus = judged_by_clicks(both, corpus)
        rows, judging, split = both.learned, both.judging, both.in_words()
    if sources.typos:
        judgments += misspelt(judgments)
    RankingTask(judgments, corpus)  # what is wrong shows before the slow part
    said = [*tally.lines(), *filter(None, [split])]
    facts |= {"rows": tally.described(), "split": split, "said": said, "traffic": traffic(judging)}
    with atomic_directory(folder) as aside:
        write_judgments(aside / _JUDGMENTS, judgments)
        if corpus is not None:
            write_corpus(aside / _CORPUS, corpus)
        write_log(aside / _LOG, rows)
        ensure_data(Inputs(aside))
        with atomic_write(aside / _FACTS) as file:
            json.dump(facts, file, indent=2)


def ensure_data(inputs: Inputs, negatives: int = RECORDED, share: str = "") -> None:
    """Preprocesses the log, or a share of its clicks, where that is not done yet.

    Args:
        inputs: which get a directory `data_name`.
        negatives: how many to record for each pair.
        share: one of `SHARES`, or all clicks.
    """
    from pipelines.launcher import preprocess
    from pipelines.options import PreprocessOptions

    log, target = inputs.folder / _LOG, inputs.folder / data_name(negatives, share)
    if target.exists():
        return
    if share:
        log = inputs.folder / f"{target.name}.tsv"
        rows = thinned(inputs.clicks(), SHARES[share])
        cells = ((query, title, f"{count:.15g}") for query, title, count in rows)
        write_table(log, ("query", "title", "clicks"), cells)
    # The titles that every query ranks, for the towers to know; judged titles alone are not.
    corpus = tuple(map(str, inputs.folder.glob(_CORPUS)))
    preprocess(PreprocessOptions((str(log),), str(target), corpus, negatives=negatives))


def thinned(clicks: Sequence[Click], halvings: int) -> list[Click]:
    """Clicks of which each is kept by a throw of the dice, those of an eighth among a quarter's."""
    draw, clicks = np.random.default_rng(0), list(clicks)
    for _ in range(halvings):
        wholes = [math.ceil(count) for _, _, count in clicks]
        kept = draw.binomial(wholes, 0.5)
        clicks = [
            (query, title, count * part / whole)
            for (query, title, count), part, whole in zip(clicks, kept, wholes, strict=True)
            if part
        ]
    return clicks
