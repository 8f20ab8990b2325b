"""From the user's files to what every system of the benchmark reads, once."""

from __future__ import annotations

import json
import math
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console

from dssm_tf.baselines.base import Click
from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import OptionError, UserError
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
    Judgment,
    read_corpus,
    read_judgments,
    write_corpus,
    write_judgments,
)
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.reader import read_rows
from dssm_tf.tables.splits import (
    HELD_OUT,
    in_words,
    is_held_out,
    judged_by_clicks,
    split_by_query,
    split_by_time,
)
from dssm_tf.tables.tally import MAX_REJECTED, Tally
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import FOLDED

WORK, INPUTS = "work", "inputs"
SHARES = {"1/8": f"{INPUTS}-1-8", "1/4": f"{INPUTS}-1-4", "1/2": f"{INPUTS}-1-2"}
"""Of a learning curve, the folders with so much of the clicks."""

RECORDED = 4
"""Negatives that preprocess records unless a configuration asks for more."""

_CLICKS, _JUDGMENTS, _CORPUS, _TRAFFIC = "clicks.tsv", "judgments.tsv", "corpus.tsv", "traffic.tsv"
_ROWS, _FACTS = "log.tsv", "facts.json"
_COLUMNS = {"query": None, "title": None, "clicks": number}


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
        repeats: what pairs judged more than once are, see `read_judgments`.
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
    repeats: Literal["refuse", "mean"] = "refuse"
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
            raise UserError("--judge-later: expected it without --judgments, --hold-out-queries.")
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

    def provenance(self) -> dict[str, Any]:
        """The files as given, with their SHA-256."""
        found: dict[str, Any] = {
            "clicks": {
                "given": list(self.clicks),
                "sha256": [fingerprint(path) for path in self.log_files()],
            }
        }
        for name in ("judgments", "corpus", "queries"):
            if (path := getattr(self, name)) is not None:
                found[name] = {"given": str(path), "sha256": fingerprint(Path(path))}
        return found

    def settings(self) -> dict[str, Any]:
        """What the prepared inputs depend on besides the contents of files."""
        files = {"clicks", "judgments", "corpus", "queries"}
        return {name: str(value) for name, value in vars(self).items() if name not in files}


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
        return RankingTask(read_judgments(self.folder / _JUDGMENTS, repeats="mean"), corpus)

    def clicks(self) -> list[Click]:
        """The log as every system gets it: cleaned, one row a query and title."""
        return [row for _, row in read_rows(self.folder / _CLICKS, _COLUMNS)]

    def facts(self) -> dict[str, Any]:
        """Where the inputs are from, how the log was read, and how it was split."""
        found: dict[str, Any] = json.loads((self.folder / _FACTS).read_text("utf-8"))
        return found

    def traffic(self) -> Mapping[str, float]:
        """Clicks of each normalised query: in what judges where clicks do, else in the log."""
        path = self.folder / _TRAFFIC
        if path.exists():
            rows = read_rows(path, {"query": None, "clicks": number})
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
    inputs = Inputs(out / WORK / INPUTS)
    given = {"files": sources.provenance(), "settings": sources.settings()}
    if inputs.folder.exists():
        _refuse_others(inputs.facts()["given"], given, out)
    else:
        names = [path.name for path in out.iterdir()] if out.exists() else []
        if any(name != WORK and name[0] != "." for name in names):
            raise UserError(f"{out} exists and holds no benchmark; choose another --out.")
        with progress_of("reading the click log", None, console, unit=""):
            _write(sources, inputs.folder, given)
    facts = inputs.facts()
    lines = Tally.of(facts["rows"]).lines() + ([in_words(facts["split"])] if facts["split"] else [])
    if console:
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    return inputs


def _write(sources: Sources, folder: Path, given: dict[str, Any]) -> None:
    found = _judged(sources)
    if sources.typos:
        found = replace(found, judgments=[*found.judgments, *misspelt(found.judgments)])
    RankingTask(found.judgments, found.corpus)  # what is wrong shows before the slow part
    with atomic_directory(folder) as aside:
        write_judgments(aside / _JUDGMENTS, found.judgments)
        if found.corpus is not None:
            write_corpus(aside / _CORPUS, found.corpus)
        if found.rows is not None:
            write_log(aside / _ROWS, found.rows)
        if found.judging is not None:
            clicks = sorted(traffic(found.judging).items())
            rows = ((query, f"{count:.15g}") for query, count in clicks)
            write_table(aside / _TRAFFIC, ("query", "clicks"), rows)
        read = _preprocess(sources, aside, aside / data_name(RECORDED), RECORDED)
        from dssm_tf.data.preprocessed import Preprocessed

        _write_clicks(aside / _CLICKS, Preprocessed(aside / data_name(RECORDED)).log())
        read = read if found.tally is None else found.tally.described()
        with atomic_write(aside / _FACTS) as file:
            json.dump({"given": given, "rows": read, "split": found.split}, file, indent=2)


@dataclass(frozen=True)
class _Judged:
    """What a log and the user's files come to.

    Attributes:
        judgments: grades.
        corpus: titles; None for each query its judged ones.
        rows: to learn from, where the log is not learned from as it is.
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
    layout, later, share = sources.layout, sources.judge_later, sources.hold_out_queries
    corpus = read_corpus(sources.corpus, layout=layout) if sources.corpus else None
    judgments: list[Judgment] = []
    if sources.judgments:
        judgments = read_judged(sources.judgments, sources.queries, corpus, sources.repeats, layout)
    if later is None and share is None and layout == Layout():
        return _Judged(judgments, corpus)
    rows, tally = read_logs(sources.log_files(), layout, sources.max_reject_fraction)
    rows.sort()  # no figure depends on the order of a log
    if sources.judgments and share is None:
        return _Judged(judgments, corpus, rows, tally)
    if sources.judgments:
        judgments = [one for one in judgments if is_held_out(one.query, share or 0.0, HELD_OUT)]
        # Queries of the log that nobody judged need not be held out.
        chosen = {FOLDED.key(one.query) for one in judgments}
        parts: tuple[list[LogRow], list[LogRow]] = ([], [])
        for row in rows:
            parts[FOLDED.key(row.query) in chosen].append(row)
        return _Judged(judgments, corpus, parts[0], tally, judging=parts[1])
    split = (
        split_by_query(rows, share or 0.0)
        if later is None
        else split_by_time(rows, later, sources.time_format)
    )
    judgments, titles = judged_by_clicks(split, corpus)
    return _Judged(judgments, titles, split.learned, tally, split.described(), split.judging)


def ensure_data(sources: Sources, inputs: Inputs, negatives: int) -> None:
    """Preprocesses the log with more recorded negatives, where that is not done yet."""
    target = inputs.folder / data_name(negatives)
    if not target.exists():
        _preprocess(sources, inputs.folder, target, negatives)


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
            for file in (aside / _ROWS, aside / _CLICKS):
                _write_clicks(file, clicks)
            _preprocess(sources, aside, aside / data_name(RECORDED), RECORDED)


def _preprocess(sources: Sources, folder: Path, output: Path, negatives: int) -> dict[str, Any]:
    """Preprocesses the log that lies in a folder, or else the user's; tells what was read."""
    from pipelines.launcher import preprocess
    from pipelines.options import PreprocessOptions

    rows, corpus = folder / _ROWS, folder / _CORPUS
    options = PreprocessOptions(
        tuple(map(str, [rows] if rows.exists() else sources.log_files())),
        str(output),
        # The titles that every query ranks, for the towers to know; judged titles alone are not.
        (str(corpus),) if corpus.exists() else (),
        negatives=negatives,
        max_reject_fraction=sources.max_reject_fraction,
    )
    try:
        found: dict[str, Any] = preprocess(options)["rows"]
    except OptionError as error:
        option = "--clicks" if error.option == "--input" else error.option
        raise OptionError(option, error.problem) from error
    return found


def _write_clicks(path: Path, clicks: Sequence[Click]) -> None:
    write_table(
        path, [*_COLUMNS], ((query, title, f"{count:.15g}") for query, title, count in clicks)
    )


def _refuse_others(before: dict[str, Any], now: dict[str, Any], out: Path) -> None:
    """Raises UserError when the benchmark in `out` had other inputs."""
    old, new = (
        {name: one["sha256"] for name, one in given["files"].items()} | given["settings"]
        for given in (before, now)
    )
    changed = [name for name in old | new if old.get(name) != new.get(name)]
    if changed:
        flags = ", ".join("--" + name.replace("_", "-") for name in changed)
        raise UserError(
            f"{out} holds a benchmark of other inputs ({flags} changed); its results would not be "
            "comparable. Choose another --out, or remove it."
        )
