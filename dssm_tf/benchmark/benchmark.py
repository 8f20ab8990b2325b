"""The main program of a benchmark: prepare, fit, measure, test, write."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.benchmark.external import saved_training_log
from dssm_tf.benchmark.fit import FACTS, JOB, is_finished, read_rankings
from dssm_tf.benchmark.folds import assign_folds, select_fold
from dssm_tf.benchmark.prepare import WORK, Inputs, Sources, ensure_data, prepare
from dssm_tf.benchmark.prior_rows import rank_with_prior
from dssm_tf.benchmark.systems import POPULARITY, System, choose_systems
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write, check_replaceable, exclusive_lock
from dssm_tf.common.progress import progress_of
from dssm_tf.common.versions import digest, versions
from dssm_tf.evaluation.evaluate import (
    compare,
    evaluate_condensed_run,
    evaluate_judged_only,
    evaluate_run,
    with_judgment_rate,
)
from dssm_tf.evaluation.evaluation import PRIOR_SUFFIX, Evaluation, Row
from dssm_tf.evaluation.metrics import metric_names, parse_metric, quality_metrics
from dssm_tf.evaluation.overlap import UNKNOWN, log_overlap
from dssm_tf.reports.files import write
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.training_log import TrainingLog

_PAPER_REFERENCES = ("bm25", "ptm", "dssm")
"""The systems that others are tested with by default (Shen et al. 2014, table 4).

In the table, a superscript says that a system is significantly better than one of them.
"""


@dataclass(frozen=True)
class Options:
    """Options of a benchmark; the help of the flags describes them."""

    sources: Sources
    out: Path
    systems: Sequence[str] = ("all",)
    seeds: int = 3
    sweeps: Sequence[str] = ()
    overrides: Sequence[str] = ()
    existing: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    against: Sequence[str] = ()
    metrics: Sequence[str] = ("ndcg@1", "ndcg@3", "ndcg@10")
    tune: str = "ndcg@10"
    judged_only: bool = False
    jobs: int = os.cpu_count() or 1


def measure_systems(options: Options) -> Evaluation:
    """Fits the systems that have no result yet, measures all, and writes tables and results.

    Args:
        options: systems, inputs and metrics.

    Raises:
        UserError: options or inputs are unusable, or no system could be measured.
    """
    out = options.out
    if min(options.seeds, options.jobs) < 1 or not options.metrics:
        raise UserError("--seeds, --jobs: expected 1 or more; --metrics: expected at least one.")
    metric_names(options.metrics)
    parse_metric(options.tune)
    systems = choose_systems(options.systems, options.sweeps, options.overrides, options.existing)
    rows = _create_rows(options, systems)
    check_replaceable(out, (WORK, "*"))
    options.sources.check()
    (out / WORK).mkdir(parents=True, exist_ok=True)
    with exclusive_lock(out / WORK):
        inputs = prepare(options.sources, out)
        task, details = inputs.task(), inputs.details()
        metrics = metric_names(with_judgment_rate(options.metrics, task))
        fold = assign_folds(task)
        for system in systems:
            ensure_data(inputs, system.negatives)
        jobs = {}
        for system in systems:
            seeds = range(options.seeds) if system.seeded else (None,)
            for seed in seeds:
                job = system.job(seed, options.tune)
                jobs[_folder(inputs, job)] = job
        reasons = fit_all(jobs, options.jobs)
        errors = {jobs[folder]["name"]: reason for folder, reason in reasons.items() if reason}

        folders: dict[str, dict[int | None, Path]] = defaultdict(dict)
        for folder, job in jobs.items():
            if not reasons[folder]:
                folders[job["name"]][job["seed"]] = folder
        log_prior = inputs.prior()(task.titles).astype(np.float64)
        judged_only_rows = []
        # Only the rankings of one row and seed are in memory at a time.
        with progress_of("measuring", len(rows), unit="rows") as progress:
            for row in rows:
                row.error = errors.get(row.name)
                judged_only_row = Row(row.name, row.kind, prior=row.prior)
                for seed, folder in folders[_system_of(row)].items():
                    rankings = read_rankings(folder)
                    facts = json.loads((folder / FACTS).read_text("utf-8"))
                    if row.prior:
                        rankings, facts = rank_with_prior(
                            rankings, log_prior, task, fold, options.tune
                        )
                    run = select_fold(rankings.run, fold)
                    row.seeds.append(evaluate_run(run, task, metrics, seed, facts))
                    if options.judged_only:
                        condensed_run = select_fold(rankings.condensed, fold)
                        judged_only_row.seeds.append(
                            evaluate_condensed_run(condensed_run, task, seed)
                        )
                if judged_only_row.seeds:
                    judged_only_rows.append(judged_only_row)
                progress.advance()
        rows = [row for row in rows if row.seeds or row.error]
        measured_rows = [row for row in rows if row.seeds]
        if not measured_rows:
            raise UserError(f"no system could be measured; {rows[0].name}: {rows[0].error}")
        against = _reference_systems(options.against, [row.name for row in measured_rows])
        training_log = TrainingLog.from_clicks(inputs.clicks(), FOLDED)
        saved_training_logs = {
            system.name: saved_training_log(Path(system.base))
            for system in systems
            if system.kind == "model"
        }
        known_logs = [
            training_log,
            *(log for log in saved_training_logs.values() if log is not None),
        ]
        overlaps = {
            row.name: log_overlap(task, saved_training_logs[_system_of(row)], training_log)
            for row in measured_rows
            if _system_of(row) in saved_training_logs
        }
        overlaps |= {row.name: UNKNOWN for row in measured_rows if row.kind == "run"}
        evaluation = Evaluation(
            task,
            metrics,
            rows,
            compare(
                measured_rows,
                quality_metrics(metrics),
                task.has_relevant,
                _row_pairs_to_test(measured_rows, against),
            ),
            against,
            in_log=np.any([log.has_queries(task.queries) for log in known_logs], axis=0),
            overlaps=overlaps,
            log_overlap=log_overlap(task, training_log),
            fold=fold,
            settings={
                "seeds": options.seeds,
                "tune": options.tune,
                "jobs": options.jobs,
                "overrides": list(options.overrides),
                "log": {"rows": details["rows"], "split": details["split"]},
                "inputs": details["files"],
                "models": {system.name: system.file_hashes for system in systems if system.files},
                "versions": versions(),
            },
        )
        if options.judged_only:
            row_pairs = _row_pairs_to_test(judged_only_rows, against)
            judged_only = evaluate_judged_only(task, judged_only_rows, against, row_pairs)
            judged_only = replace(judged_only, overlaps=overlaps)
            evaluation = replace(evaluation, judged_only=judged_only)
        write(evaluation, out)
    return evaluation


def _system_of(row: Row) -> str:
    """The name of the system that a row ranks by, with or without the prior."""
    return row.name.removesuffix(PRIOR_SUFFIX) if row.prior else row.name


def fit_all(jobs: Mapping[Path, Mapping[str, Any]], processes: int) -> dict[Path, str]:
    """Fits the systems that are not fitted yet, once per seed, each in its own process.

    Args:
        jobs: the jobs of `fit` by folder.
        processes: number of parallel processes, which share the cores equally.

    Returns:
        The reason why the fit failed, by folder; empty if it succeeded.
    """
    threads = str(max(1, (os.cpu_count() or 1) // processes))
    thread_variables = (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
    )
    environment = {
        **dict.fromkeys(thread_variables, threads),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **os.environ,
    }
    started: list[subprocess.Popen[bytes]] = []

    def fit_in_process(folder: Path) -> str:
        """Fits the system of a folder; returns the reason if the fit failed."""
        if is_finished(folder):
            return ""
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / JOB) as file:
            file.write(json.dumps(jobs[folder], indent=2))
        command = [sys.executable, "-m", "dssm_tf.benchmark.fit", str(folder)]
        path = folder / "log.txt"
        with path.open("ab") as output_file, subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output_file, stderr=output_file, env=environment
        ) as process:  # fmt: skip
            started.append(process)
            code = process.wait()
        if code < 0:
            return f"ended by signal {-code}; its output is in {path}"
        if code == 0:
            return ""
        output = path.read_text("utf-8", "replace").rstrip()
        return output.split("\n")[-1] or f"ended with code {code}"

    reasons: dict[Path, str] = {}
    with ThreadPoolExecutor(processes) as pool:
        try:
            with progress_of("benchmark", len(jobs), unit="fits") as progress:
                for folder, reason in zip(jobs, pool.map(fit_in_process, jobs), strict=True):
                    reasons[folder] = reason
                    progress.advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in started:
                process.terminate()
            raise
    return reasons


def _folder(inputs: Inputs, job: Mapping[str, Any]) -> Path:
    """The folder of a fit, named by a hash of everything that its result depends on."""
    stem = re.sub(r"[^\w.+=-]+", "_", job["name"])[:60]
    seed = "" if job["seed"] is None else f"-seed{job['seed']}"
    name = f"{stem}{seed}-{digest(job, inputs.details()['key'])}"
    return (inputs.folder.parent / "systems" / name).resolve()


def _create_rows(options: Options, systems: Sequence[System]) -> list[Row]:
    """Creates all rows, still without results, and checks all names.

    Raises:
        UserError: a name is unknown, or two rows have the same name.
    """
    names = [system.name for system in systems]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated:
        raise UserError(f"two rows are called {repeated!r}; rename one.")
    if not names:
        raise UserError("there is no system to measure; name some with --systems.")
    rows = {}
    for system in systems:
        rows[system.name] = Row(system.name, system.kind, sweep=system.sweep)
        if system.name != POPULARITY:
            name = system.name + PRIOR_SUFFIX
            rows[name] = Row(name, system.kind, sweep=system.sweep, prior=True)
    if unknown := {*options.against} - {*rows, "all"}:
        raise UserError(
            f"--against {min(unknown)}: there is no such row; the rows are {', '.join(rows)}."
        )
    return [*rows.values()]


def _reference_systems(requested: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The systems that others are tested with, without and with the prior; only rows in `names`."""
    if "all" in requested:
        return tuple(names)
    requested = requested or [name for name in _PAPER_REFERENCES if name in names] or names[:1]
    references = dict.fromkeys([*requested, *(name + PRIOR_SUFFIX for name in requested)])
    return tuple(name for name in references if name in names)


def _row_pairs_to_test(rows: Sequence[Row], against: Sequence[str]) -> list[tuple[Row, Row]]:
    """The pairs of rows to test.

    A row of `against` is tested with each other row that also has the prior, or also lacks it. Each
    system with the prior is tested with the same system without it.
    """
    return [
        (later, earlier)
        for earlier, later in combinations(rows, 2)
        if later.name == earlier.name + PRIOR_SUFFIX
        or (later.prior == earlier.prior and {later.name, earlier.name} & set(against))
    ]
