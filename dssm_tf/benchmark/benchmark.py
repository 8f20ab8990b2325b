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

from dssm_tf.benchmark.external import learned
from dssm_tf.benchmark.fit import ABOUT, JOB, RUN
from dssm_tf.benchmark.folds import folds, of_fold
from dssm_tf.benchmark.fusion import PRIOR, Hybrid, fuse
from dssm_tf.benchmark.prepare import WORK, Inputs, Sources, ensure_data, prepare
from dssm_tf.benchmark.systems import POPULARITY, System, choose_systems
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import alone, refuse_others
from dssm_tf.common.progress import progress_of
from dssm_tf.common.versions import digest, versions
from dssm_tf.evaluation.evaluate import compare, measured
from dssm_tf.evaluation.evaluation import PRIOR_SUFFIX, Evaluation, Row
from dssm_tf.evaluation.metrics import parse_metric
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


def benchmark(options: Options) -> Evaluation:
    """Runs what is not done yet, and writes tables and results.

    Args:
        options: what to run.

    Raises:
        UserError: options or inputs are unusable, or no system could be measured.
    """
    out, metrics = options.out, tuple(options.metrics)
    if min(options.seeds, options.jobs) < 1 or not metrics:
        raise UserError("--seeds, --jobs: expected 1 or more; --metrics: expected at least one.")
    for metric in (*metrics, options.tune):
        parse_metric(metric)
    systems = choose_systems(options.systems, options.sweeps, options.overrides, options.given)
    rows, hybrids = _table(options, systems)
    refuse_others(out, (WORK, "*"))
    options.sources.check()
    (out / WORK).mkdir(parents=True, exist_ok=True)
    with alone(out / WORK):
        inputs = prepare(options.sources, out)
        task, facts = inputs.task(), inputs.facts()
        fold = folds(task)
        for system in systems:
            ensure_data(inputs, system.negatives)
        jobs = {
            _folder(inputs, job): job
            for system in systems
            for seed in (range(options.seeds) if system.seeded else (None,))
            for job in [system.job(seed, options.tune)]
        }
        reasons = fit_all(jobs, options.jobs)
        errors = {jobs[folder]["name"]: reason for folder, reason in reasons.items() if reason}

        # Runs and what is known of them, by row and seed.
        found: dict[str, dict[int | None, tuple[pl.DataFrame, dict[str, Any]]]] = defaultdict(dict)
        for folder, job in jobs.items():
            if not reasons[folder]:
                about = json.loads((folder / ABOUT).read_text("utf-8"))
                found[job["name"]][job["seed"]] = pl.read_parquet(folder / RUN), about
        log_prior = inputs.prior()(task.titles).astype(np.float64)
        with progress_of("fusing", len(hybrids), unit="hybrids") as progress:
            for hybrid in hybrids:
                own = [name for name in hybrid.members if name != PRIOR]
                if failed := [name for name in own if not found[name]]:
                    if not hybrid.with_prior:  # else the row above says so
                        errors[hybrid.name] = f"its member {failed[0]} has no result"
                    continue
                for seed in max((found[name] for name in own), key=len):
                    # A member that is not random is beside every seed of the others.
                    runs = {
                        name: found[name].get(seed, [*found[name].values()][-1])[0] for name in own
                    }
                    found[hybrid.name][seed] = fuse(
                        hybrid, runs, log_prior, task, fold, options.tune
                    )
                progress.advance()

        for row in rows:
            row.error = errors.get(row.name)
            for seed, (run, about) in found[row.name].items():
                row.seeds.append(measured(of_fold(run, fold), task, metrics, seed, about))
        rows = [row for row in rows if row.seeds or row.error]
        done = [row for row in rows if row.seeds]
        if not done:
            raise UserError(f"no system could be measured; {rows[0].name}: {rows[0].error}")
        against = _against(options.against, [row.name for row in done])
        keys = [FOLDED.key(query) for query in task.queries]
        logged = {FOLDED.key(query) for query, _, _ in inputs.clicks()}
        saved = (learned(task.queries, Path(one.base)) for one in systems if one.kind == "model")
        known = np.array([key in logged for key in keys])
        seen = [known, *(one for one in saved if one is not None)]
        evaluation = Evaluation(
            task,
            metrics,
            rows,
            compare(done, metrics, task.counted, _pairs(done, against)),
            against,
            seen=np.any(seen, axis=0),
            half=fold,
            settings={
                "seeds": options.seeds,
                "tune": options.tune,
                "jobs": options.jobs,
                "overrides": list(options.overrides),
                "log": {"rows": facts["rows"], "split": facts["split"]},
                "inputs": facts["files"],
                "models": {one.name: one.fingerprints for one in systems if one.files},
                "versions": versions(),
            },
        )
        write(evaluation, out)
    return evaluation


def fit_all(jobs: Mapping[Path, Mapping[str, Any]], at_a_time: int) -> dict[Path, str]:
    """Fits what has no run yet, each in a process of its own; tells why one failed, else nothing.

    Args:
        jobs: what `fit` is given, by its folder.
        at_a_time: processes at a time; each may use an equal share of the cores.
    """
    threads = str(max(1, (os.cpu_count() or 1) // at_a_time))
    few = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    environment = {**dict.fromkeys(few, threads), "TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}
    running: list[subprocess.Popen[bytes]] = []

    def run(folder: Path) -> str:
        if (folder / RUN).exists():
            return ""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / JOB).write_text(json.dumps(jobs[folder], indent=2), "utf-8")
        command = [sys.executable, "-m", "dssm_tf.benchmark.fit", str(folder)]
        path = folder / "log.txt"
        with path.open("ab") as log, subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment
        ) as process:  # fmt: skip
            running.append(process)
            code = process.wait()
        if code < 0:
            return f"ended by signal {-code}; its output is in {path}"
        said = path.read_text("utf-8", "replace").rstrip()
        return (said.split("\n")[-1] or f"ended with code {code}") if code else ""

    reasons: dict[Path, str] = {}
    with ThreadPoolExecutor(at_a_time) as pool:
        try:
            with progress_of("benchmark", len(jobs), unit="systems") as progress:
                for folder, reason in zip(jobs, pool.map(run, jobs), strict=True):
                    reasons[folder] = reason
                    progress.advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.terminate()
            raise
    return reasons


def _folder(inputs: Inputs, job: Mapping[str, Any]) -> Path:
    """Where a fit lies: in a folder named by all that its run depends on."""
    stem = re.sub(r"[^\w.+=-]+", "_", job["name"])[:60]
    seed = "" if job["seed"] is None else f"-seed{job['seed']}"
    name = f"{stem}{seed}-{digest(job, inputs.facts()['key'])}"
    return (inputs.folder.parent / "systems" / name).resolve()


def _table(options: Options, systems: Sequence[System]) -> tuple[list[Row], list[Hybrid]]:
    """The rows, still empty, and which of them are hybrids; checks all names.

    Raises:
        UserError: naming what is wrong.
    """
    names = [system.name for system in systems]
    clash = next((name for name in names if names.count(name) > 1), None)
    if clash or PRIOR in names:
        raise UserError(f"two rows are called {clash or PRIOR!r}; rename one.")
    if not names:
        raise UserError("there is no system to measure; name some with --systems.")
    rows, hybrids = {}, {}
    for one in systems:
        rows[one.name] = Row(one.name, one.kind, sweep=one.sweep)
        if one.name != POPULARITY:
            name = one.name + PRIOR_SUFFIX
            rows[name] = Row(name, one.kind, sweep=one.sweep, prior=True)
            hybrids[name] = Hybrid(name, (one.name, PRIOR), with_prior=True)
    for text in options.hybrids:
        hybrid = hybrids.setdefault(text, Hybrid.parse(text, names))
        rows.setdefault(text, Row(text, "hybrid", prior=PRIOR in hybrid.members))
    for name in {*options.against} - {*rows, "all"}:
        raise UserError(f"--against {name}: there is no such row; the rows are {', '.join(rows)}.")
    return [*rows.values()], [*hybrids.values()]


def _against(asked: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The systems that superscripts are about, and the same with the prior, if not failed."""
    if "all" in asked:
        return tuple(names)
    asked = asked or [name for name in _PAPER_REFERENCES if name in names] or names[:1]
    both = dict.fromkeys([*asked, *(name + PRIOR_SUFFIX for name in asked)])
    return tuple(name for name in both if name in names)


def _pairs(rows: Sequence[Row], against: Sequence[str]) -> list[tuple[Row, Row]]:
    """What is tested: rows with the prior among each other, rows without, and each with its own.

    So no system with the prior is said to be better than one without.
    """
    return [
        (later, earlier)
        for earlier, later in combinations(rows, 2)
        if later.name == earlier.name + PRIOR_SUFFIX
        or (later.prior == earlier.prior and {later.name, earlier.name} & set(against))
    ]
