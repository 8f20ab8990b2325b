"""The whole of a benchmark, top to bottom: prepare, fit, fuse, measure, test, write."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from dssm_tf.benchmark.external import learned
from dssm_tf.benchmark.fit import ABOUT, JOB, RUN
from dssm_tf.benchmark.folds import folds, reported
from dssm_tf.benchmark.fusion import PRIOR, Hybrid, fuse
from dssm_tf.benchmark.prepare import WORK, Inputs, Sources, ensure_data, prepare
from dssm_tf.benchmark.systems import POPULARITY, System, choose_systems
from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import alone, atomic_write
from dssm_tf.common.progress import progress_of
from dssm_tf.common.versions import digest, versions
from dssm_tf.evaluation.evaluate import compare, measured
from dssm_tf.evaluation.evaluation import CLICKS, COST_NAMES, PRIOR_SUFFIX, Evaluation, Row
from dssm_tf.evaluation.metrics import parse_metric
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.reports.files import write
from dssm_tf.text.rules import FOLDED

_PAPER_REFERENCES = ("bm25", "ptm", "dssm")
"""What the papers' superscripts are about, where `against` names nothing else (S14 table 4)."""


@dataclass(frozen=True)
class Options:
    """How a benchmark is run; the flags' help says what each does."""

    sources: Sources
    out: Path
    systems: Sequence[str] = ("all",)
    seeds: int = 3
    sweeps: Sequence[str] = ()
    overrides: Sequence[str] = ()
    given: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
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
    systems = choose_systems(options.systems, options.sweeps, options.overrides, options.given)
    hybrids = _hybrids(options, systems)
    work = options.out / WORK
    if options.out.exists() and any(options.out.iterdir()) and not work.exists():
        raise UserError(f"{options.out} exists and holds no benchmark; choose another --out.")
    work.mkdir(parents=True, exist_ok=True)
    with alone(work):
        inputs = prepare(options.sources, options.out, console)
        task = inputs.task()
        fold = folds(task)
        for system in systems:
            ensure_data(inputs, system.negatives, system.share)
        jobs = {
            _folder(inputs, job): job
            for system in systems
            for seed in (range(options.seeds) if system.seeded else (None,))
            for job in [system.job(seed, options.tune)]
        }
        errors = fit_all(jobs, options.jobs, console)

        rows: dict[str, Row] = {}
        for system in systems:
            rows[system.name] = Row(system.name, system.kind, sweep=system.sweep)
            with_prior = system.name + PRIOR_SUFFIX
            rows[with_prior] = Row(with_prior, system.kind, sweep=system.sweep, prior=True)
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

        data = {system.name: system.data for system in systems}
        priors = {name: inputs.log_prior(task, name) for name in set(data.values())}
        with progress_of("fusing", len(hybrids), console is not None, "hybrids") as progress:
            for hybrid in hybrids:
                row = rows.setdefault(
                    hybrid.name, Row(hybrid.name, "hybrid", prior=PRIOR in hybrid.members)
                )
                own = [rows[name] for name in hybrid.members if name != PRIOR]
                if failed := [one.name for one in own if not one.seeds]:
                    if not hybrid.with_prior:  # else the row above says so
                        row.error = f"its member {failed[0]} has no result"
                    continue
                for number, of_seed in enumerate(max(own, key=lambda one: len(one.seeds)).seeds):
                    # A member that is not random stands beside every seed of the others.
                    at = {one.name: min(number, len(one.seeds) - 1) for one in own}
                    members = {name: runs[name][place] for name, place in at.items()}
                    prior = priors[data[own[0].name]]
                    run, about = fuse(hybrid, members, prior, task, fold, options.tune)
                    costs = [one.seeds[at[one.name]].about for one in own]
                    add(row.name, run, about | _sum_of(costs), of_seed.seed)
                progress.advance()

        evaluation = _evaluation(options, inputs, task, systems, list(rows.values()))
        write(evaluation, options.out)
    return evaluation


def fit_all(
    jobs: Mapping[Path, Mapping[str, Any]], at_a_time: int, console: Console | None = None
) -> dict[Path, str]:
    """Fits what has no run yet, each in a process of its own; tells why one failed, else nothing.

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

    reasons: dict[Path, str] = {}
    with ThreadPoolExecutor(at_a_time) as pool:
        try:
            with progress_of("benchmark", len(jobs), console is not None, "systems") as progress:
                for folder, code in zip(jobs, pool.map(run, jobs), strict=True):
                    reasons[folder] = _reason(folder, code)
                    progress.advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.terminate()
            raise
    return reasons


def _reason(folder: Path, code: int) -> str:
    """Why a process failed: the last line that it wrote."""
    if code == 0:
        return ""
    if code < 0:
        return f"ended by signal {-code}; its output is in {folder / 'log.txt'}"
    lines = (folder / "log.txt").read_text("utf-8", "replace").split("\n")
    return next((line for line in reversed(lines) if line), f"ended with code {code}")


def _folder(inputs: Inputs, job: Mapping[str, Any]) -> Path:
    """Where a fit lies: in a folder named by all that its run depends on."""
    stem = re.sub(r"[^\w.+=-]+", "_", job["name"])[:60]
    seed = "" if job["seed"] is None else f"-seed{job['seed']}"
    name = f"{stem}{seed}-{digest(job, inputs.facts()['key'])}"
    return (inputs.folder.parent / "systems" / name).resolve()


def _hybrids(options: Options, systems: Sequence[System]) -> list[Hybrid]:
    """Every row with the prior, and what was asked for; checks all names.

    Raises:
        UserError: naming what is wrong.
    """
    names = [system.name for system in systems]
    clash = next((name for name in names if names.count(name) > 1), None)
    if clash or PRIOR in names:
        raise UserError(f"two rows are called {clash or PRIOR!r}; rename one.")
    if not names:
        raise UserError("there is no system to measure; name some with --systems.")
    single = (name for name in names if name != POPULARITY)
    found = [Hybrid(name + PRIOR_SUFFIX, (name, PRIOR), True) for name in single]
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


def _sum_of(costs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A hybrid costs what its members cost; unknown where one of them is unknown."""
    found = {name: [one.get(name) for one in costs] for name in COST_NAMES}
    return {name: None if None in one else sum(one) for name, one in found.items()}


def _evaluation(
    options: Options,
    inputs: Inputs,
    task: RankingTask,
    systems: Sequence[System],
    rows: Sequence[Row],
) -> Evaluation:
    """The results with their tests."""
    rows = [row for row in rows if row.seeds or row.error]
    done = [row for row in rows if row.seeds]
    if not done:
        raise UserError(f"no system could be measured; {rows[0].name}: {rows[0].error}")
    against, clicks = _against(options, done), inputs.facts()["traffic"]
    keys = [FOLDED.key(query) for query in task.queries]
    logged = {FOLDED.key(query) for query, _, _ in inputs.clicks()}
    saved = (learned(task.queries, Path(one.base)) for one in systems if one.kind == "model")
    seen = [np.array([key in logged for key in keys]), *(one for one in saved if one is not None)]
    return Evaluation(
        task,
        tuple(options.metrics),
        rows,
        compare(done, options.metrics, task.counted, _pairs(done, against)),
        against,
        seen=np.any(seen, axis=0),
        half=folds(task),
        traffic=np.array([clicks.get(key, 0.0) for key in keys]),
        settings=_settings(options, inputs, systems),
    )


def _settings(options: Options, inputs: Inputs, systems: Sequence[System]) -> dict[str, Any]:
    facts = inputs.facts()
    return {
        "seeds": options.seeds,
        "tune": options.tune,
        "jobs": options.jobs,
        "overrides": list(options.overrides),
        "log": {"rows": facts["rows"], "split": facts["split"]},
        "inputs": facts["files"],
        "models": {
            one.name: {str(path): fingerprint(path) for path in one.files}
            for one in systems
            if one.files
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
