"""Converts the user's files to the inputs that all systems of a benchmark read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssm_tf.baselines.base import Click
from dssm_tf.common.checksums import sha256_of
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import (
    DATA_FILE_HINT,
    atomic_directory,
    atomic_write,
    refuse_special_file,
)
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import say
from dssm_tf.common.versions import digest
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.model.prior import TitlePrior
from dssm_tf.tables.click_log import SCHEMA, read_logs, write_log
from dssm_tf.tables.judgments import (
    CorpusTitle,
    read_corpus,
    read_judgments,
    write_corpus,
    write_judgments,
)
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.splits import (
    BENCHMARK_SPLIT,
    Split,
    check_fractions,
    check_has_times,
    derive_judgments,
    is_held_out,
    split_by_mask,
    split_log,
)
from dssm_tf.tables.tally import MAX_REJECTED
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.typos import with_typo

if TYPE_CHECKING:
    from pipelines.sources import InputFiles

WORK, INPUTS = "work", "inputs"
RECORDED_NEGATIVES = 4
"""Number of negatives that preprocess records, unless a configuration needs more."""

_LOG, _JUDGMENTS, _CORPUS = "log.tsv", "judgments.tsv", "corpus.tsv"
_DETAILS = "inputs.json"
_PATHS = ("clicks", "judgments", "corpus")


@dataclass(frozen=True)
class Sources:
    """The user's files, and how judgments are made from them.

    Attributes:
        clicks: log files, globs or directories.
        judgments: a table; None to make judgments from clicks.
        corpus: table of titles to rank; None to rank the judged titles of each query.
        judge_later: fraction of the log's rows, the latest ones, used as judgments and not for
            training.
        hold_out_queries: fraction of the queries used for evaluation and not for training.
        layout: layout of all files.
        max_reject_fraction: fraction of the log's rows, and of its clicks, that may be malformed.
        typos: whether to add a typing error to each judged query, see `with_typo`.
        ignore_other_files: whether directories may contain other files than tables.
        max_robot_fraction: fraction of the rows, and of the clicks, that may be dropped because
            their sessions look like those of robots.
    """

    clicks: Sequence[str]
    judgments: Path | None = None
    corpus: Path | None = None
    judge_later: float | None = None
    hold_out_queries: float | None = None
    layout: Layout = field(default_factory=Layout)
    max_reject_fraction: float = MAX_REJECTED
    typos: bool = False
    ignore_other_files: bool = False
    max_robot_fraction: float = 0.5

    def check(self) -> None:
        """Checks that the options can be combined and that the files exist.

        Raises:
            UserError: two options exclude each other, an option or a file is missing, or the log
                lacks timestamps, by which it would be split.
        """
        later, query_fraction = self.judge_later, self.hold_out_queries
        check_fractions(later, query_fraction)
        if later and self.judgments:
            raise UserError("--judge-later: cannot be combined with --judgments.")
        if not (self.judgments or later or query_fraction):
            raise UserError(
                "there are no judgments: give --judgments FILE, or derive them from clicks, with "
                "--judge-later 0.2 (the latest clicks) or --hold-out-queries 0.2 (the clicks of "
                "some queries)."
            )

        for flag, path in self._tables().items():
            refuse_special_file(path, DATA_FILE_HINT)
            if not path.is_file():
                raise UserError(f"--{flag} {path} cannot be read: there is no such file.")
        if later is not None:
            check_has_times(self.log_files().paths, self.layout)

    def _tables(self) -> dict[str, Path]:
        """The tables besides the log, by flag."""
        tables = {"judgments": self.judgments, "corpus": self.corpus}
        return {flag: path for flag, path in tables.items() if path}

    def log_files(self) -> InputFiles:
        """The log's files, without duplicates, as preprocess lists them.

        Raises:
            UserError: an entry matches nothing, or a file has an unknown format.
        """
        from pipelines.beam_log import load_beam

        load_beam()
        from pipelines.sources import find_files

        return find_files(self.clicks, "--clicks", ignore_others=self.ignore_other_files)

    def files(self) -> dict[str, dict[str, str]]:
        """The SHA-256 of each file, by flag and path."""
        tables = {flag: [path] for flag, path in self._tables().items()}
        paths = {"clicks": self.log_files().paths} | tables
        return {
            flag: {str(path): sha256_of(path) for path in files} for flag, files in paths.items()
        }


@dataclass(frozen=True)
class Inputs:
    """A directory that `prepare` wrote.

    Attributes:
        folder: contains clicks, judgments, a corpus if there is one, and the preprocessed log.
        max_robot_fraction: fraction of the log that may be dropped as robots; checked when
            `prepare` writes the directory.
    """

    folder: Path
    max_robot_fraction: float = 1.0

    def task(self) -> RankingTask:
        """The queries, titles and grades."""
        path = self.folder / _CORPUS
        corpus = read_corpus(path) if path.exists() else None
        return RankingTask(read_judgments(self.folder / _JUDGMENTS), corpus)

    def data(self, negatives: int = RECORDED_NEGATIVES) -> Path:
        """The directory of the log, preprocessed with the given number of negatives."""
        return self.folder / f"data-{negatives}"

    def clicks(self) -> list[Click]:
        """The cleaned log that all systems learn from, one row per query and title."""
        from dssm_tf.data.preprocessed import Preprocessed

        return Preprocessed(self.data()).log()

    def details(self) -> dict[str, Any]:
        """Facts about the inputs: file hashes, and how the log was read and split."""
        details: dict[str, Any] = json.loads((self.folder / _DETAILS).read_text("utf-8"))
        return details

    def titles(self) -> list[str]:
        """The titles for statistics such as IDF: the corpus, or else all judged or clicked ones."""
        task = self.task()
        clicked = [] if task.ranks_corpus else [title for _, title, _ in self.clicks()]
        return sorted({*task.titles, *clicked}, key=tie_key)

    def prior(self) -> TitlePrior:
        """The log-prior of titles, from their clicks, in nats."""
        from dssm_tf.data.format import Title

        clicked = (Title(title, int(clicks)) for _, title, clicks in self.clicks())
        return TitlePrior(clicked, FOLDED)


def prepare(sources: Sources, out: Path) -> Inputs:
    """Checks, cleans and writes the inputs, unless done before, and prints how the log is used.

    Args:
        sources: the user's files.
        out: directory of the benchmark.

    Raises:
        UserError: an input is missing or malformed, or nothing can be measured.
    """
    sources.check()
    inputs, files = Inputs(out / WORK / INPUTS), sources.files()
    options = {name: value for name, value in vars(sources).items() if name not in _PATHS}
    key = digest([[flag, *hashes.values()] for flag, hashes in files.items()], options)
    if not inputs.folder.exists() or inputs.details()["key"] != key:
        shutil.rmtree(inputs.folder, ignore_errors=True)  # inputs from other files or options
        with progress_of("reading the click log", None, unit=""):
            _write(sources, inputs.folder, {"files": files, "key": key})
    say(*inputs.details()["summary_lines"])
    return inputs


def _write(sources: Sources, folder: Path, details: dict[str, Any]) -> None:
    layout, later, query_fraction = sources.layout, sources.judge_later, sources.hold_out_queries
    corpus: Sequence[CorpusTitle] | None = None
    if sources.corpus:
        corpus = read_corpus(sources.corpus, layout.corpus)
    judgments = read_judgments(sources.judgments, layout) if sources.judgments else []
    files = sources.log_files()
    log_layout = layout.of_log(sources.corpus, sources.judgments)
    rows, tally = read_logs(files.paths, log_layout, sources.max_reject_fraction)
    rows = rows.sort(*SCHEMA)  # no figure depends on the order of a log
    summary_lines = [*files.notes, *tally.lines()]
    if not judgments:
        split = split_log(rows, later, query_fraction)
        judgments, corpus, notes = derive_judgments(split, corpus)
        summary_lines += [split.summary(), *notes]
    elif query_fraction:
        judgments = [
            judgment
            for judgment in judgments
            if is_held_out(judgment.query, query_fraction, BENCHMARK_SPLIT)
        ]
        # Queries of the log without judgments need not be held out.
        judged_keys = {FOLDED.key(judgment.query) for judgment in judgments}
        held_out = [query for query in rows["query"].unique() if FOLDED.key(query) in judged_keys]
        split = split_by_mask(rows, rows["query"].is_in(held_out))
    else:
        split = Split(rows, rows)
    if sources.typos:
        typos = {judgment.query: with_typo(judgment.query) for judgment in judgments}
        judgments = [judgment._replace(query=typos[judgment.query]) for judgment in judgments]
        changed = sum(query != typo for query, typo in typos.items())
        summary_lines.append(f"{changed:,} of {len(typos):,} judged queries have a typing error")
    RankingTask(judgments, corpus)  # raises errors before the slow steps
    details |= {
        "rows": tally.to_dict(),
        "split": "" if sources.judgments else split.summary(),
        "summary_lines": summary_lines,
    }
    with atomic_directory(folder) as directory:
        write_judgments(directory / _JUDGMENTS, judgments)
        if corpus is not None:
            write_corpus(directory / _CORPUS, corpus)
        write_log(directory / _LOG, split.train)
        ensure_data(Inputs(directory, sources.max_robot_fraction))
        with atomic_write(directory / _DETAILS) as file:
            json.dump(details, file, indent=2)


def ensure_data(inputs: Inputs, negatives: int = RECORDED_NEGATIVES) -> None:
    """Preprocesses the log with the given number of negatives, unless done before."""
    from pipelines.beam_log import load_beam, quiet_log

    load_beam()
    from pipelines.launcher import preprocess
    from pipelines.options import PreprocessOptions

    target = inputs.data(negatives)
    if not target.exists():
        # Towers may use the titles of a corpus, which every query ranks, but not judged titles.
        corpus = tuple(map(str, inputs.folder.glob(_CORPUS)))
        log = (str(inputs.folder / _LOG),)
        options = PreprocessOptions(
            input=log,
            output=str(target),
            corpus=corpus,
            negatives=negatives,
            max_robot_fraction=inputs.max_robot_fraction,
        )
        with quiet_log():
            preprocess(options)
