"""From the user's files to what every system of the benchmark reads, once."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from rich.console import Console

from dssm_tf.benchmark.foreign import judgments_of_qrels
from dssm_tf.benchmark.inputs import (
    CLICKS,
    CORPUS,
    INPUTS,
    JUDGMENTS,
    LOG,
    RECORDED,
    SHARES,
    TRAFFIC,
    Inputs,
    data_name,
    write_clicks,
    write_traffic,
)
from dssm_tf.common.errors import OptionError, UserError
from dssm_tf.common.files import atomic_directory, atomic_write
from dssm_tf.common.progress import progress_of
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.evaluation.typos import misspelt
from dssm_tf.tables.click_log import LogRow, read_logs, traffic, write_log
from dssm_tf.tables.judgments import (
    CorpusTitle,
    Judgment,
    read_corpus,
    read_judgments,
    write_corpus,
    write_judgments,
)
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.splits import (
    HELD_OUT,
    in_words,
    is_held_out,
    judged_by_clicks,
    split_by_query,
    split_by_time,
)
from dssm_tf.tables.tally import MAX_REJECTED, Tally
from dssm_tf.text.rules import FOLDED

WORK = "work"
_SOURCE = "source.json"
_VERSION = 5  # of what `prepare` makes of the same files
_ROWS = "log.tsv"


@dataclass(frozen=True)
class Sources:
    """The user's files, and how judgments are made of them.

    Attributes:
        clicks: log files, globs or directories.
        judgments: TSV, or TREC qrels when `queries` is given; None to judge by clicks.
        corpus: TSV.
        queries: texts of the queries of a qrels file.
        judge_later: the share of the log's rows, the latest, that judges and is not learnt from.
        hold_out_queries: the share of the queries that is judged and not learnt from.
        typos: whether each judged query is ranked with a typing error, too, see `with_typo`.
        repeats: what pairs judged more than once are, see `read_judgments`.
        layout: the encoding of all files, and the sign between the thousands of clicks.
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
    repeats: Literal["refuse", "mean"] = "refuse"
    layout: Layout = field(default_factory=Layout)
    time_format: str | None = None
    max_reject_fraction: float = MAX_REJECTED

    def check(self) -> None:
        """Refuses options that do not go together.

        Raises:
            UserError: saying which.
        """
        for name, share in (
            ("--judge-later", self.judge_later),
            ("--hold-out-queries", self.hold_out_queries),
        ):
            if share is not None and not 0 < share <= 1:
                raise UserError(f"{name} {share:g}: expected a share above 0 and at most 1.")
        if self.judge_later is not None and (self.judgments or self.hold_out_queries):
            raise UserError(
                "--judge-later makes judgments of the log's later clicks; give it without "
                "--judgments and --hold-out-queries."
            )
        if not self.judgments and self.judge_later is None and self.hold_out_queries is None:
            raise UserError(
                "nothing to judge by: give --judgments FILE, or --judge-later 0.2 to judge by the "
                "log's later clicks, or --hold-out-queries 0.2 by the clicks of some queries."
            )
        if self.queries and not (self.judgments and self.corpus):
            raise UserError(
                "--queries gives a TREC qrels file its texts: give the file as --judgments, and "
                "--corpus for its titles."
            )

    def log_files(self) -> list[Path]:
        """The log's files, each once, as preprocess finds them.

        Raises:
            UserError: an entry matches nothing, or a file is of no known format.
        """
        from pipelines.sources import find_files

        return [Path(one.path) for one in find_files(self.clicks, "--clicks")]

    def fingerprint(self) -> dict[str, Any]:
        """What the prepared inputs depend on: file contents and settings."""
        files = {
            "judgments": self.judgments,
            "corpus": self.corpus,
            "queries": self.queries,
        }
        return {
            "version": _VERSION,
            "clicks": [_digest(path) for path in self.log_files()],
            **{name: path and _digest(path) for name, path in files.items()},
            "judge_later": self.judge_later,
            "hold_out_queries": self.hold_out_queries,
            "typos": self.typos,
            "repeats": self.repeats,
            "encoding": self.layout.encoding,
            "thousands": self.layout.thousands,
            "time_format": self.time_format,
            "max_reject_fraction": self.max_reject_fraction,
            "title_fields": [*self.layout.title_fields],
        }


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
    inputs = _prepared(sources, out, console)
    log = inputs.log()
    said = Tally.of(log["rows"]).lines() + ([in_words(log["split"])] if log["split"] else [])
    if console:
        for line in said:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    return inputs


def _prepared(sources: Sources, out: Path, console: Console | None) -> Inputs:
    sources.check()
    folder = out / WORK / INPUTS
    fingerprint = sources.fingerprint()
    if (folder / _SOURCE).exists():
        _refuse_others(json.loads((folder / _SOURCE).read_text("utf-8")), fingerprint, out)
        return Inputs(folder)
    if out.exists() and (not out.is_dir() or {path.name for path in out.iterdir()} - {WORK}):
        raise UserError(f"{out} exists and holds no benchmark; choose another --out.")
    with progress_of("reading the click log", None, console, unit=""):
        judgments, corpus, rows, tally, split, judging = _judged(sources)
    if sources.typos:
        judgments = [*judgments, *misspelt(judgments)]
    RankingTask(judgments, corpus)  # what is wrong with them shows before the slow part
    with atomic_directory(folder) as aside:
        write_judgments(aside / JUDGMENTS, judgments)
        if corpus is not None:
            write_corpus(aside / CORPUS, corpus)
        if rows is not None:
            write_log(aside / _ROWS, rows)
        if judging is not None:
            write_traffic(aside / TRAFFIC, traffic(judging))
        if console:
            console.print("preparing the click log", style="dim")
        data = aside / data_name(RECORDED)
        rows_read = _preprocess_for(sources, aside, data, RECORDED)
        from dssm_tf.data.preprocessed import Preprocessed

        write_clicks(aside / CLICKS, Preprocessed(data).log())
        log = {"rows": (tally or Tally.of(rows_read)).described(), "split": split}
        for name, content in ((LOG, log), (_SOURCE, fingerprint)):
            with atomic_write(aside / name) as file:
                json.dump(content, file, indent=2)
    return Inputs(folder)


def provenance(sources: Sources, inputs: Inputs) -> dict[str, Any]:
    """The user's files as given, with their SHA-256."""
    digests = json.loads((inputs.folder / _SOURCE).read_text("utf-8"))
    found: dict[str, Any] = {"clicks": {"given": list(sources.clicks), "sha256": digests["clicks"]}}
    for name in ("judgments", "corpus", "queries"):
        if (path := getattr(sources, name)) is not None:
            found[name] = {"given": str(path), "sha256": digests[name]}
    return found


def ensure_data(sources: Sources, inputs: Inputs, negatives: int) -> None:
    """Preprocesses the log with more recorded negatives, where that is not done yet."""
    target = inputs.folder / data_name(negatives)
    if not target.exists():
        _preprocess_for(sources, inputs.folder, target, negatives)


def ensure_shares(sources: Sources, inputs: Inputs) -> None:
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
        if folder.exists():
            continue
        with atomic_directory(folder) as aside:
            for file in inputs.folder.glob("*.*"):
                shutil.copy(file, aside)
            for file in (aside / _ROWS, aside / CLICKS):
                write_clicks(file, clicks)
            _preprocess_for(sources, aside, aside / data_name(RECORDED), RECORDED)


def _preprocess_for(sources: Sources, folder: Path, output: Path, negatives: int) -> dict[str, Any]:
    """Preprocesses the log that lies in a folder, or else the user's, see `_preprocess`."""
    rows = folder / _ROWS
    log = [rows] if rows.exists() else sources.log_files()
    limit = sources.max_reject_fraction
    return _preprocess([*map(str, log)], _offered(folder), output, negatives, limit)


class _Judged(NamedTuple):
    """What a log and the user's files come to.

    Attributes:
        judgments: grades.
        corpus: titles; None for each query its judged ones.
        rows: to learn from, where the log is not learnt from as it is.
        tally: of the log, if it was read for them.
        split: how it was divided, see `Split.described`.
        judging: rows of later or held-out clicks.
    """

    judgments: list[Judgment]
    corpus: Sequence[CorpusTitle] | None
    rows: list[LogRow] | None = None
    tally: Tally | None = None
    split: dict[str, dict[str, Any]] | None = None
    judging: list[LogRow] | None = None


def _judged(sources: Sources) -> _Judged:
    encoding, fields = sources.layout.encoding, sources.layout.title_fields
    corpus = read_corpus(sources.corpus, encoding, fields) if sources.corpus else None
    judgments: list[Judgment] | None = None
    if sources.judgments and sources.queries and corpus is not None:
        judgments = judgments_of_qrels(sources.judgments, sources.queries, corpus, encoding)
    elif sources.judgments:
        judgments = read_judgments(
            sources.judgments, repeats=sources.repeats, encoding=encoding, title_fields=fields
        )
    later, share = sources.judge_later, sources.hold_out_queries
    if later is None and share is None and sources.layout == Layout():
        return _Judged(judgments or [], corpus)
    rows, tally = read_logs(sources.log_files(), sources.layout, sources.max_reject_fraction)
    rows.sort()  # no figure depends on the order of a log
    if judgments is not None:
        if share is None:
            return _Judged(judgments, corpus, rows, tally)
        judgments = [one for one in judgments if is_held_out(one.query, share, HELD_OUT)]
        # Queries of the log that nobody judged need not be held out.
        chosen = {FOLDED.key(one.query) for one in judgments}
        learned = [one for one in rows if FOLDED.key(one.query) not in chosen]
        judging = [one for one in rows if FOLDED.key(one.query) in chosen]
        return _Judged(judgments, corpus, learned, tally, judging=judging)
    split = (
        split_by_time(rows, later, sources.time_format)
        if later is not None
        else split_by_query(rows, share or 0.0)
    )
    judged, titles = judged_by_clicks(split, corpus)
    return _Judged(judged, titles, split.learned, tally, split.described(), split.judging)


def _offered(folder: Path) -> list[str]:
    """The titles that every query ranks, for the towers to know; judged titles alone are not."""
    corpus = folder / CORPUS
    return [str(corpus)] if corpus.exists() else []


def _preprocess(
    log: Sequence[str], corpus: Sequence[str], output: Path, negatives: int, max_rejected: float
) -> dict[str, Any]:
    """Preprocesses a log; returns what there is to say of its rows, see `Tally.described`."""
    from pipelines.launcher import preprocess
    from pipelines.options import PreprocessOptions

    options = PreprocessOptions(
        tuple(log),
        str(output),
        tuple(corpus),
        negatives=negatives,
        max_reject_fraction=max_rejected,
    )
    try:
        rows: dict[str, Any] = preprocess(options)["rows"]
    except OptionError as error:
        option = "--clicks" if error.option == "--input" else error.option
        raise OptionError(option, error.problem) from error
    return rows


def _refuse_others(before: dict[str, Any], now: dict[str, Any], out: Path) -> None:
    """Raises UserError when the benchmark in `out` had other inputs."""
    changed = [
        "the version of this package" if name == "version" else "--" + name.replace("_", "-")
        for name, value in now.items()
        if before.get(name) != value
    ]
    if changed:
        raise UserError(
            f"{out} holds a benchmark of other inputs ({', '.join(changed)} changed); its results "
            "would not be comparable. Choose another --out, or remove it."
        )


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    return digest.hexdigest()
