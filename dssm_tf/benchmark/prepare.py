"""From the user's files to what every system of the benchmark reads, once."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from dssm_tf.baselines.base import Click
from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, atomic_write
from dssm_tf.common.progress import progress_of
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.evaluation.read import read_judged
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.evaluation.typos import misspelt
from dssm_tf.model.prior import TitlePrior
from dssm_tf.tables.cells import number
from dssm_tf.tables.click_log import LogRow, read_logs, traffic, write_log
from dssm_tf.tables.judgments import (
    CorpusTitle,
    read_corpus,
    read_judgments,
    write_corpus,
    write_judgments,
)
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.reader import read_rows
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
SHARES = {"1/8": f"{INPUTS}-1-8", "1/4": f"{INPUTS}-1-4", "1/2": f"{INPUTS}-1-2"}
"""Of a learning curve, the folders with so much of the clicks."""

RECORDED = 4
"""Negatives that preprocess records unless a configuration asks for more."""

_LOG, _JUDGMENTS, _CORPUS, _TRAFFIC = "log.tsv", "judgments.tsv", "corpus.tsv", "traffic.tsv"
_FACTS = "facts.json"
_PATHS = ("clicks", "judgments", "corpus", "queries")


@dataclass(frozen=True)
class Sources:
    """The user's files, and how judgments are made of them.

    Attributes:
        clicks: log files, globs or directories.
        judgments: a table, or TREC qrels when `queries` is given; None to judge by clicks.
        corpus: table of titles.
        queries: texts of the queries of a qrels file.
        judge_later: the share of the log's rows, the latest, that judges and is not learned from.
        hold_out_queries: the share of the queries that is judged and not learned from.
        typos: whether each judged query is ranked with a typing error, too, see `with_typo`.
        layout: of all files.
        time_format: of the log's time stamps, see `Clock`.
        max_reject_fraction: the share of the log's rows, and clicks, that may be malformed.
    """

    clicks: Sequence[str]
    judgments: Path | None = None
    corpus: Path | None = None
    queries: Path | None = None
    judge_later: float | None = None
    hold_out_queries: float | None = None
    typos: bool = False
    layout: Layout = field(default_factory=Layout)
    time_format: str | None = None
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
        if self.queries and not (self.judgments and self.corpus):
            raise UserError("--queries: expected TREC qrels as --judgments, and --corpus.")

    def log_files(self) -> list[Path]:
        """The log's files, each once, as preprocess finds them.

        Raises:
            UserError: an entry matches nothing, or a file is of no known format.
        """
        from pipelines.sources import find_files

        return [Path(one.path) for one in find_files(self.clicks, "--clicks")]

    def files(self) -> dict[str, dict[str, Any]]:
        """The files as given, with their SHA-256."""
        one = {"judgments": self.judgments, "corpus": self.corpus, "queries": self.queries}
        logs = {"given": list(self.clicks), "sha256": list(map(fingerprint, self.log_files()))}
        return {"clicks": logs} | {
            name: {"given": str(path), "sha256": fingerprint(path)}
            for name, path in one.items()
            if path is not None
        }


@dataclass(frozen=True)
class Inputs:
    """A directory that `prepare` wrote.

    Attributes:
        folder: holds clicks, judgments, perhaps a corpus and traffic, and the log as preprocess
            writes it, see `data_name`.
    """

    folder: Path

    def task(self) -> RankingTask:
        """The queries, titles and grades."""
        path = self.folder / _CORPUS
        corpus = read_corpus(path) if path.exists() else None
        return RankingTask(read_judgments(self.folder / _JUDGMENTS), corpus)

    def clicks(self) -> list[Click]:
        """The log as every system gets it: cleaned, one row a query and title."""
        from dssm_tf.data.preprocessed import Preprocessed

        return Preprocessed(self.folder / data_name(RECORDED)).log()

    def facts(self) -> dict[str, Any]:
        """Where the inputs are from, how the log was read, and how it was split."""
        found: dict[str, Any] = json.loads((self.folder / _FACTS).read_text("utf-8"))
        return found

    def traffic(self) -> Mapping[str, float]:
        """Clicks of each normalised query: in what judges where clicks do, else in the log."""
        rows = read_rows(self.folder / _TRAFFIC, {"query": None, "clicks": number})
        return {query: clicks for _, (query, clicks) in rows}

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


def prepare(sources: Sources, out: Path, console: Console | None = None) -> Inputs:
    """Checks, cleans and writes the inputs, or finds them done; says what of the log is used.

    Args:
        sources: the user's files.
        out: directory of the benchmark.
        console: where to say what is done.

    Raises:
        UserError: an input is missing or malformed, nothing can be measured, or `out` holds
            something else, or a benchmark of other inputs.
    """
    sources.check()
    inputs, files = Inputs(out / WORK / INPUTS), sources.files()
    key = {name: one["sha256"] for name, one in files.items()}
    key |= {name: str(one) for name, one in vars(sources).items() if name not in _PATHS}
    if inputs.folder.exists():
        before = inputs.facts()["key"]
        changed = [name for name in before | key if before.get(name) != key.get(name)]
        if changed:
            flags = ", ".join("--" + name.replace("_", "-") for name in changed)
            raise UserError(
                f"{out} holds a benchmark of other inputs ({flags} changed); its results would not "
                "be comparable. Choose another --out, or remove it."
            )
    else:
        names = [path.name for path in out.iterdir()] if out.exists() else []
        if any(name != WORK and name[0] != "." for name in names):
            raise UserError(f"{out} exists and holds no benchmark; choose another --out.")
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
        judgments = read_judged(sources.judgments, sources.queries, corpus, layout)
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
        both = (
            split_by_query(rows, share)
            if share
            else split_by_time(rows, later or 0.0, sources.time_format)
        )
        judgments, corpus = judged_by_clicks(both, corpus)
        rows, judging, split = both.learned, both.judging, both.in_words()
    if sources.typos:
        judgments += misspelt(judgments)
    RankingTask(judgments, corpus)  # what is wrong shows before the slow part
    with atomic_directory(folder) as aside:
        write_judgments(aside / _JUDGMENTS, judgments)
        if corpus is not None:
            write_corpus(aside / _CORPUS, corpus)
        write_log(aside / _LOG, rows)
        clicks = sorted(traffic(judging).items())
        counts = ((query, f"{count:.15g}") for query, count in clicks)
        write_table(aside / _TRAFFIC, ("query", "clicks"), counts)
        ensure_data(Inputs(aside), RECORDED)
        with atomic_write(aside / _FACTS) as file:
            said = [*tally.lines(), *filter(None, [split])]
            facts |= {"rows": tally.described(), "split": split, "said": said}
            json.dump(facts, file, indent=2)


def ensure_data(inputs: Inputs, negatives: int) -> None:
    """Preprocesses the log with so many recorded negatives, where that is not done yet."""
    from pipelines.launcher import preprocess
    from pipelines.options import PreprocessOptions

    folder, target = inputs.folder, inputs.folder / data_name(negatives)
    if not target.exists():
        # The titles that every query ranks, for the towers to know; judged titles alone are not.
        corpus = tuple(map(str, folder.glob(_CORPUS)))
        preprocess(
            PreprocessOptions((str(folder / _LOG),), str(target), corpus, negatives=negatives)
        )


def ensure_shares(inputs: Inputs) -> None:
    """Writes `SHARES` of the clicks as inputs beside the whole, where that is not done yet.

    Each click is kept by a throw of the dice, those of an eighth among those of a quarter, and
    what judges stays as it is.
    """
    draw = np.random.default_rng(0)
    clicks = inputs.clicks()
    for name in reversed(SHARES.values()):
        wholes = [math.ceil(count) for _, _, count in clicks]
        kept = draw.binomial(wholes, 0.5)
        clicks = [
            (query, title, count * part / whole)
            for (query, title, count), part, whole in zip(clicks, kept, wholes, strict=True)
            if part
        ]
        folder = inputs.folder.parent / name
        if not folder.exists():
            with atomic_directory(folder) as aside:
                for file in inputs.folder.glob("*.*"):
                    shutil.copy(file, aside)
                rows = ((query, title, f"{count:.15g}") for query, title, count in clicks)
                write_table(aside / _LOG, ("query", "title", "clicks"), rows)
                ensure_data(Inputs(aside), RECORDED)
