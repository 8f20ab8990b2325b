"""The whole of a benchmark, top to bottom: prepare, fit, fuse, measure, test, write."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console

from dssm_tf.benchmark.external import External, external, inner_products
from dssm_tf.benchmark.fit import ABOUT, JOB, RUN
from dssm_tf.benchmark.folds import folds, reported
from dssm_tf.benchmark.fusion import PRIOR, Hybrid, fuse
from dssm_tf.benchmark.prepare import (
    INPUTS,
    WORK,
    Inputs,
    Sources,
    ensure_data,
    ensure_shares,
    prepare,
)
from dssm_tf.benchmark.systems import POPULARITY, choose_systems
from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import alone, atomic_write
from dssm_tf.common.progress import progress_of
from dssm_tf.common.versions import versions
from dssm_tf.evaluation.evaluate import compare, measured
from dssm_tf.evaluation.evaluation import CLICKS, COST_NAMES, PRIOR_SUFFIX, Evaluation, Row
from dssm_tf.evaluation.metrics import parse_metric
from dssm_tf.evaluation.runs import make_run
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.reports.files import write
from dssm_tf.tables.judgments import CORPUS_COLUMNS
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import FOLDED

TYPOS = "typos"
"""Where in the directory the tables for queries with a typing error are."""

_PAPER_REFERENCES = ("bm25", "ptm", "dssm")
"""What the papers' superscripts are about, where `against` names nothing else (S14 table 4)."""


@dataclass(frozen=True)
class Options:
    """How a benchmark is run; the flags' help says what each does."""

    sources: Sources
    out: Path
    systems: Sequence[str] = ("all",)
    seeds: int = 3
    configs: Sequence[str] = ()
    sweeps: Sequence[str] = ()
    overrides: Sequence[str] = ()
    models: Mapping[str, Path] = field(default_factory=dict)
    runs: Mapping[str, Path] = field(default_factory=dict)
    embeddings: Mapping[str, tuple[Path, Path]] = field(default_factory=dict)
    encoders: Mapping[str, str] = field(default_factory=dict)
    hybrids: Sequence[str] = ()
    against: Sequence[str] = ()
    metrics: Sequence[str] = ("ndcg@1", "ndcg@3", "ndcg@10")
    tune: str = "ndcg@10"
    jobs: int = os.cpu_count() or 1


def benchmark(options: Options, console: Console | None = None) -> Evaluation:
    """Runs what is not done yet, and writes tables and results.

    Args:
        options: what to run.
        console: where to show progress; None shows none.

    Raises:
        UserError: options or inputs are unusable, or no system could be measured.
    """
    if min(options.seeds, options.jobs) < 1 or not options.metrics:
        raise UserError("--seeds, --jobs: expected 1 or more; --metrics: expected at least one.")
    for metric in (*options.metrics, options.tune):
        parse_metric(metric)
    fitted = [name for name in options.systems if name != POPULARITY]
    systems = choose_systems(
        fitted, options.configs, options.sweeps, options.overrides, options.encoders
    )
    (options.out / WORK).mkdir(parents=True, exist_ok=True)
    with alone(options.out / WORK):
        inputs = prepare(options.sources, options.out, console)
        task = inputs.task()
        fold = folds(task)
        _write_texts(task, options.out)
        given = external(task, options.models, options.runs, options.embeddings)
        if {"all", POPULARITY} & set(options.systems):
            given.insert(0, _popularity(inputs, task))
        each: list[tuple[str, str, Any]] = [(one.name, one.kind, one.sweep) for one in systems]
        each += [(one.name, one.kind, None) for one in given]
        each.sort(key=lambda one: one[1] != POPULARITY)  # above the others
        hybrids = _hybrids(options, [name for name, _, _ in each])
        rows = {name: Row(name, kind, sweep=sweep) for name, kind, sweep in each}
        if any(system.inputs != INPUTS for system in systems):
            ensure_shares(inputs)
        for system in systems:
            if system.kind == "tower":
                ensure_data(Inputs(options.out / WORK / system.inputs), system.negatives)
        jobs = {
            _folder(options.out, job): job
            for system in systems
            for seed in (range(options.seeds) if system.seeded else (None,))
            for job in [system.job(seed, options.tune)]
        }
        errors = fit_all(jobs, options.jobs, console)

        runs: dict[str, list[pl.DataFrame]] = defaultdict(list)  # by row, a run a seed

        def add(
            name: str, run: pl.DataFrame, about: Mapping[str, Any], seed: int | None = None
        ) -> None:
            runs[name].append(run)
            own = measured(reported(run, fold), task, options.metrics, seed, about)
            rows[name].seeds.append(own)

        for folder, job in jobs.items():
            if errors[folder]:
                rows[job["name"]].error = errors[folder]
            else:
                about = json.loads((folder / ABOUT).read_text("utf-8"))
                add(job["name"], pl.read_parquet(folder / RUN), about, job["seed"])
        for one in given:
            try:
                add(one.name, one.run(), one.about)
            except UserError as error:
                rows[one.name].error = str(error)

        learned_from = {system.name: system.inputs for system in systems}
        with progress_of("fusing", len(hybrids), console is not None, "hybrids") as progress:
            for hybrid in hybrids:
                own = [rows[name] for name in hybrid.members if name != PRIOR]
                row = Row(hybrid.name, "hybrid", prior=PRIOR in hybrid.members)
                failed = [one.name for one in own if not one.seeds]
                if hybrid.kind == "prior":
                    row.kind, row.sweep = own[0].kind, own[0].sweep
                    if failed:  # its row says so already
                        continue
                rows[row.name] = row
                if failed:
                    row.error = f"its member {failed[0]} has no result"
                    continue
                log = Inputs(options.out / WORK / learned_from.get(own[0].name, INPUTS))
                for number, of_seed in enumerate(max(own, key=lambda one: len(one.seeds)).seeds):
                    # A member that is not random stands beside every seed of the others.
                    at = {one.name: min(number, len(one.seeds) - 1) for one in own}
                    members = {name: runs[name][place] for name, place in at.items()}
                    prior = _log_prior(log, task)
                    run, about = fuse(hybrid, members, prior, task, fold, options.tune)
                    costs = [one.seeds[at[one.name]].about for one in own]
                    add(row.name, run, about | _sum_of(costs), of_seed.seed)
                progress.advance()
        table = [rows.pop(name) for base in list(rows) for name in (base, base + PRIOR_SUFFIX)
                 if name in rows]  # fmt: skip

        known = _known(task, inputs, given)
        evaluation = _evaluation(options, inputs, task, fold, known, table, ~task.misspelt)
        write(evaluation, options.out)
        if task.misspelt.any():
            typos = _evaluation(options, inputs, task, fold, known, table, task.misspelt)
            evaluation = replace(evaluation, misspelt=typos)
            (options.out / TYPOS).mkdir(exist_ok=True)
            write(typos, options.out / TYPOS)
    return evaluation


def fit_all(
    jobs: Mapping[Path, Mapping[str, Any]], at_a_time: int, console: Console | None = None
) -> dict[Path, str]:
    """Fits what has no run yet, each in a process of its own; tells why one failed, else nothing.

    A process that was killed, as the system does where memory runs out, runs again at the end,
    alone.

    Args:
        jobs: what `fit` is given, by its folder.
        at_a_time: processes at a time; each may use an equal share of the cores.
        console: where to show progress.
    """
    threads = str(max(1, (os.cpu_count() or 1) // at_a_time))
    few = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    environment = {**dict.fromkeys(few, threads), "TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}
    running: set[subprocess.Popen[bytes]] = set()

    def run(folder: Path) -> int:
        if (folder / RUN).exists():
            return 0
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / JOB) as file:
            json.dump(jobs[folder], file, indent=2)
        command = [sys.executable, "-m", "dssm_tf.benchmark.fit", str(folder), str(os.getpid())]
        with (folder / "log.txt").open("ab") as log, subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        ) as process:  # fmt: skip
            running.add(process)
            return process.wait()

    codes: dict[Path, int] = {}
    with ThreadPoolExecutor(at_a_time) as pool:
        try:
            with progress_of("benchmark", len(jobs), console is not None, "systems") as progress:
                for folder, code in zip(jobs, pool.map(run, jobs), strict=True):
                    codes[folder] = code
                    progress.advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.terminate()
            raise
    killed = [folder for folder, code in codes.items() if code == -signal.SIGKILL]
    codes |= {folder: run(folder) for folder in killed if at_a_time > 1}
    return {folder: _reason(folder, code) for folder, code in codes.items()}


def _reason(folder: Path, code: int) -> str:
    """Why a process failed: the last line that it wrote."""
    if code == 0:
        return ""
    if code < 0:
        return f"ended by signal {-code}; its output is in {folder / 'log.txt'}"
    lines = (folder / "log.txt").read_text("utf-8", "replace").split("\n")
    return next((line for line in reversed(lines) if line), f"ended with code {code}")


def _folder(out: Path, job: Mapping[str, Any]) -> Path:
    """Where a fit lies: in a folder named by all that its run depends on."""
    text = json.dumps(job, sort_keys=True, default=str)
    stem = re.sub(r"[^\w.+=-]+", "_", job["name"])[:60]
    seed = "" if job["seed"] is None else f"-seed{job['seed']}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return (out / WORK / "systems" / f"{stem}{seed}-{digest}").resolve()


def _popularity(inputs: Inputs, task: RankingTask) -> External:
    """Every query ranks by the titles' prior alone."""
    scores = inner_products(np.ones((len(task.queries), 1)), _log_prior(inputs, task)[:, None])
    parameters = len({title for _, title, _ in inputs.clicks()})
    run = partial(make_run, POPULARITY, scores, task)
    return External(POPULARITY, POPULARITY, run, {"parameters": parameters})


def _hybrids(options: Options, names: Sequence[str]) -> list[Hybrid]:
    """Every row with the prior, and what was asked for; checks all names.

    Raises:
        UserError: naming what is wrong.
    """
    clash = next((name for name in names if names.count(name) > 1), None)
    if clash or PRIOR in names:
        raise UserError(f"two rows are called {clash or PRIOR!r}; rename one.")
    if not names:
        raise UserError("there is no system to measure; name some with --systems.")
    found = [Hybrid.with_prior(name) for name in names if name != POPULARITY]
    hybrids = {hybrid.name: hybrid for hybrid in found}
    for text in options.hybrids:
        hybrids.setdefault(text, Hybrid.parse(text, names))
    rows = [*names, *hybrids]
    for name in options.against:
        if name not in rows and name != "all":
            raise UserError(
                f"--against {name}: there is no such row; the rows are {', '.join(rows)}."
            )
    return list(hybrids.values())


def _log_prior(inputs: Inputs, task: RankingTask) -> NDArray[np.float64]:
    """The log-prior of the task's titles by the clicks of a log, in nats."""
    return inputs.prior()(task.titles).astype(np.float64)


def _sum_of(costs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A hybrid costs what its members cost; unknown where one of them is unknown."""
    found = {name: [one.get(name) for one in costs] for name in COST_NAMES}
    return {name: None if None in one else sum(one) for name, one in found.items()}


def _known(task: RankingTask, inputs: Inputs, given: Sequence[External]) -> NDArray[np.bool_]:
    """`(queries,)`, whether a log that something learned from holds a query."""
    logged = {FOLDED.key(query) for query, _, _ in inputs.clicks()}
    known = np.array([FOLDED.key(query) in logged for query in task.queries])
    return np.any([known, *(one.known for one in given if one.known is not None)], 0)


def _evaluation(
    options: Options,
    inputs: Inputs,
    task: RankingTask,
    fold: NDArray[np.int64],
    known: NDArray[np.bool_],
    rows: Sequence[Row],
    chosen: NDArray[np.bool_],
) -> Evaluation:
    """The results for some of the queries."""
    queries = np.flatnonzero(chosen)
    rows, task = [row.part(queries) for row in rows], task.part(queries)
    done = [row for row in rows if row.seeds]
    if not done:
        raise UserError(f"no system could be measured; {rows[0].name}: {rows[0].error}")
    against, metrics = _against(options, done), tuple(options.metrics)
    clicks = inputs.traffic()
    return Evaluation(
        task,
        metrics,
        rows,
        compare(done, metrics, _pairs(done, against)),
        against,
        seen=known[queries],
        half=fold[queries],
        traffic=np.array([clicks.get(FOLDED.key(query), 0.0) for query in task.queries]),
        settings=_settings(options, inputs),
    )


def _settings(options: Options, inputs: Inputs) -> dict[str, Any]:
    facts, sources = inputs.facts(), options.sources
    models = options.models.items()
    return {
        "seeds": options.seeds,
        "tune": options.tune,
        "jobs": options.jobs,
        "overrides": list(options.overrides),
        "judge_later": sources.judge_later,
        "hold_out_queries": sources.hold_out_queries,
        "typos": sources.typos,
        "log": {"rows": facts["rows"], "split": facts["split"]},
        "distinct_pairs": len(inputs.clicks()),
        "inputs": facts["files"],
        "models": {
            name: {"given": str(path), "sha256": fingerprint(path)} for name, path in models
        },
        "versions": versions(),
    }


def _in_curve(row: Row) -> bool:
    return row.sweep is not None and row.sweep[0] == CLICKS


def _against(options: Options, rows: Sequence[Row]) -> tuple[str, ...]:
    """The systems that superscripts are about, and the same with the prior, if not failed."""
    names = [row.name for row in rows if not _in_curve(row)]
    if "all" in options.against:
        return tuple(names)
    wanted = options.against or [name for name in _PAPER_REFERENCES if name in names] or names[:1]
    both = dict.fromkeys([*wanted, *(name + PRIOR_SUFFIX for name in wanted)])
    return tuple(name for name in both if name in names)


def _pairs(rows: Sequence[Row], against: Sequence[str]) -> list[tuple[Row, Row]]:
    """What is tested: rows with the prior among each other, rows without, and each with its own.

    So no system with the prior is said to be better than one without. Points of a learning curve
    are not tested.
    """
    return [
        (later, earlier)
        for earlier, later in combinations([row for row in rows if not _in_curve(row)], 2)
        if later.name == earlier.name + PRIOR_SUFFIX
        or (later.prior == earlier.prior and {later.name, earlier.name} & set(against))
    ]


def _write_texts(task: RankingTask, out: Path) -> None:
    """Writes what to embed for `--embeddings`, in order."""
    queries = zip(task.query_ids, task.queries, strict=True)
    write_table(out / "queries.tsv", ("query_id", "query"), queries)
    titles = zip(task.doc_ids, task.titles, strict=True)
    write_table(out / "titles.tsv", CORPUS_COLUMNS, titles)
