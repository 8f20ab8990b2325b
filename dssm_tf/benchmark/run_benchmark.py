"""The whole of a benchmark: prepare, fit and measure each system, fuse, test, write."""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dssm_tf.benchmark import foreign
from dssm_tf.benchmark.cross_validation import ByHalf, halves
from dssm_tf.benchmark.finished import finished_source
from dssm_tf.benchmark.fusion import HYBRIDS, Hybrid, fuse, to_deploy
from dssm_tf.benchmark.inputs import INPUTS, Inputs
from dssm_tf.benchmark.moved import MODEL
from dssm_tf.benchmark.prepare import (
    WORK,
    Sources,
    ensure_data,
    ensure_shares,
    prepare,
    provenance,
)
from dssm_tf.benchmark.scheduler import Job, cores, run_jobs
from dssm_tf.benchmark.systems import (
    POPULARITY,
    PRIOR,
    System,
    choose_systems,
    folder_name,
)
from dssm_tf.benchmark.worker import POOL, RANKED, RESULT
from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.progress import progress_of
from dssm_tf.common.versions import versions
from dssm_tf.evaluation.evaluate import DEPTH, Measured, measure
from dssm_tf.evaluation.evaluation import (
    CLICKS,
    COST_NAMES,
    PRIOR_SUFFIX,
    Evaluation,
    Row,
    SeedResult,
    values_of,
)
from dssm_tf.evaluation.metrics import parse_metric
from dssm_tf.evaluation.ranking import Ranking
from dssm_tf.evaluation.significance import compare
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.reports.files import write
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
    curves: Sequence[str] = ()
    hybrids: Sequence[str] = ()
    against: Sequence[str] = ()
    metrics: Sequence[str] = ("ndcg@1", "ndcg@3", "ndcg@10")
    tune: str = "ndcg@10"
    cross: tuple[str, str] | None = None
    jobs: int | None = None


def run_benchmark(options: Options, console: Console | None = None) -> Evaluation:
    """Runs what is not done yet, and writes tables and results.

    Args:
        options: what to run.
        console: where to show progress; None shows none.

    Raises:
        UserError: options or inputs are unusable, or no system could be measured.
    """
    _check(options)
    names = [name for name in options.systems if name != POPULARITY]
    systems = choose_systems(
        names,
        options.configs,
        options.sweeps,
        options.overrides,
        options.encoders,
        options.curves,
    )
    options.out.mkdir(parents=True, exist_ok=True)
    with _lock(options.out):
        inputs = prepare(options.sources, options.out, console)
        task = inputs.task()
        _write_texts(task, options.out)
        benchmark = _Benchmark(options, inputs, task, systems, console)
        benchmark.check()
        if options.curves:
            ensure_shares(options.sources, inputs)
        for system in systems:
            if system.negatives:
                learned = Inputs(inputs.folder.parent / system.inputs)
                ensure_data(options.sources, learned, system.negatives)
        evaluation = benchmark.run()
        write(evaluation, options.out, options.cross)
        if evaluation.misspelt:
            (options.out / TYPOS).mkdir(exist_ok=True)
            write(evaluation.misspelt, options.out / TYPOS, options.cross)
    return evaluation


def _check(options: Options) -> None:
    if options.seeds < 1:
        raise UserError(f"--seeds {options.seeds}: expected 1 or more.")
    if options.jobs is not None and options.jobs < 1:
        raise UserError(f"--jobs {options.jobs}: expected 1 or more.")
    for name in (*options.metrics, options.tune):
        try:
            parse_metric(name)
        except ValueError as error:
            raise UserError(str(error)) from None
    if not options.metrics:
        raise UserError("--metrics names none; expected some, such as ndcg@1,ndcg@10,mrr@10,map.")


@contextmanager
def _lock(out: Path) -> Iterator[None]:
    """Keeps a second benchmark out of the same directory while the block runs.

    Raises:
        UserError: one is running there.
    """
    (out / WORK).mkdir(exist_ok=True)
    with open(out / WORK / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"a benchmark is running in {out}; wait, or choose another.") from None
        yield


class _Benchmark:
    """One run: what its steps have in common."""

    def __init__(
        self,
        options: Options,
        inputs: Inputs,
        task: RankingTask,
        systems: Sequence[System],
        console: Console | None,
    ) -> None:
        self._options = options
        self._inputs = inputs
        self._task = task
        self._half = halves(task)
        self._systems = systems
        self._console = console
        self._popularity = any(name in ("all", POPULARITY) for name in options.systems)
        self._jobs = options.jobs or cores()
        # Where the rankings of each row and seed can be had again, for fusions.
        self._rankings: dict[str, list[Callable[[], ByHalf]]] = {}
        self._foreign: dict[str, tuple[str, foreign.Foreign]] = {}
        self._hybrids: list[Hybrid] = []
        self._priors: dict[str, NDArray[np.float64]] = {}
        in_log = {FOLDED.key(query) for query, _, _ in inputs.clicks()}
        self._known = np.array([FOLDED.key(query) in in_log for query in task.queries], bool)

    def check(self) -> None:
        """Reads foreign systems and checks every name, before anything slow.

        Raises:
            UserError: naming what is wrong.
        """
        options = self._options
        names = [POPULARITY] * self._popularity + [system.name for system in self._systems]
        names += [*options.models, *options.runs, *options.embeddings]
        clash = next((name for name in names if names.count(name) > 1), None)
        if clash or PRIOR in names:
            raise UserError(f"two rows are called {clash or PRIOR!r}; name one otherwise.")
        for name, path in options.models.items():
            found = finished_source(name, path, self._task)
            self._foreign[name] = (found.kind, found.system)
            if found.known is not None:
                self._known |= found.known
        for name, path in options.runs.items():
            self._foreign[name] = ("run", foreign.run_source(name, path, self._task))
        ids = self._task.query_ids, self._task.doc_ids
        for name, paths in options.embeddings.items():
            vectors = foreign.embedding_source(name, paths, *ids)
            self._foreign[name] = ("embeddings", vectors)
        if not names:
            raise UserError("there is no system to measure; name some with --systems.")
        members = tuple(names)  # a hybrid is no member of another
        self._hybrids = [Hybrid.with_prior(name) for name in names if name != POPULARITY]
        names += [hybrid.name for hybrid in self._hybrids]
        for text in dict.fromkeys(options.hybrids):
            hybrid = Hybrid.parse(text, members)
            if text not in names:
                self._hybrids.append(hybrid)
                names.append(text)
        for option, wanted in (("--against", options.against), ("--cross", options.cross or ())):
            for name in wanted:
                if name not in names and name != "all":
                    raise UserError(
                        f"{option} {name}: there is no such row; the rows are {', '.join(names)}."
                    )

    def run(self) -> Evaluation:
        """Fits, measures, fuses and tests.

        Raises:
            UserError: no system could be measured.
        """
        rows = [self._popularity_row()] if self._popularity else []
        rows += self._fitted_rows()
        for name, (kind, system) in self._foreign.items():
            rows.append(self._measured_row(name, kind, system))
        rows = self._with_hybrids(rows)
        misspelt = self._task.misspelt
        evaluation = self._evaluation(rows, np.flatnonzero(~misspelt))
        if misspelt.any():
            typos = self._evaluation(rows, np.flatnonzero(misspelt))
            evaluation = replace(evaluation, misspelt=typos)
        return evaluation

    def _evaluation(self, rows: Sequence[Row], queries: NDArray[np.int64]) -> Evaluation:
        rows = [row.part(queries) for row in rows]
        measured = [row for row in rows if row.seeds]
        if not measured:
            raise UserError(f"no system could be measured; {rows[0].name}: {rows[0].error}")
        against = self._against(measured)
        metrics = tuple(self._options.metrics)
        with progress_of("testing differences", None, self._console, unit=""):
            comparisons = compare(
                values_of(measured, metrics),
                metrics,
                pairs=_pairs(measured, against),
            )
        clicks = self._inputs.traffic()
        task = self._task.part(queries)
        traffic = [clicks.get(FOLDED.key(query), 0.0) for query in task.queries]
        return Evaluation(
            task,
            metrics,
            rows,
            comparisons,
            against,
            seen=self._known[queries],
            half=self._half[queries],
            traffic=np.array(traffic, dtype=np.float64),
            settings=self._settings(),
        )

    def _settings(self) -> dict[str, Any]:
        options = self._options
        return {
            "seeds": options.seeds,
            "tune": options.tune,
            "jobs": self._jobs,
            "overrides": list(options.overrides),
            "judge_later": options.sources.judge_later,
            "hold_out_queries": options.sources.hold_out_queries,
            "typos": options.sources.typos,
            "log": self._inputs.log(),
            "distinct_pairs": len(self._inputs.clicks()),
            "inputs": provenance(options.sources, self._inputs),
            "models": {
                name: {"given": str(path), "sha256": fingerprint(path)}
                for name, path in options.models.items()
            },
            "versions": versions(),
        }

    def _against(self, rows: Sequence[Row]) -> tuple[str, ...]:
        """The systems that superscripts are about, and the same with the prior, if not failed."""
        names = [row.name for row in rows if not _in_curve(row)]
        if "all" in self._options.against:
            return tuple(names)
        wanted = self._options.against or [name for name in _PAPER_REFERENCES if name in names]
        wanted = wanted or names[:1]
        both = [*wanted, *(name + PRIOR_SUFFIX for name in wanted)]
        return tuple(dict.fromkeys(name for name in both if name in names))

    def _fitted_rows(self) -> list[Row]:
        options = self._options
        jobs: list[Job] = []
        for system in self._systems:
            for seed in range(options.seeds) if system.seeded else (None,):
                specification = system.specification(seed or 0, options.tune)
                folder = options.out / WORK / "systems" / folder_name(system.name, specification)
                jobs.append(Job(system.name, seed, folder.resolve(), specification))
        run_jobs(jobs, self._jobs, self._console)
        rows = {
            system.name: Row(system.name, system.kind, sweep=system.sweep)
            for system in self._systems
        }
        for job in jobs:
            if job.error:
                rows[job.name].error = job.error
                continue
            load = partial(ByHalf.load, job.folder / RANKED, self._task, self._half)
            about = json.loads((job.folder / RESULT).read_text("utf-8"))
            self._add(rows[job.name], job.seed, load(), about, load)
        return list(rows.values())

    def _popularity_row(self) -> Row:
        source = foreign.InnerProducts(
            np.ones((len(self._task.queries), 1)), self._prior()[:, None]
        )
        clicked = {title for _, title, _ in self._inputs.clicks()}
        system = foreign.Foreign(source, None, {"parameters": len(clicked)})
        return self._measured_row(POPULARITY, POPULARITY, system)

    def _measured_row(self, name: str, kind: str, system: foreign.Foreign) -> Row:
        """A row that is measured in this process: it only looks scores up."""
        row = Row(name, kind)
        try:
            by_half = ByHalf.of_one(measure(name, system.source, self._task, POOL), self._half)
        except UserError as error:
            row.error = str(error)
            return row
        about = {"megabytes": system.megabytes, **system.about}
        self._add(row, None, by_half, about, lambda: by_half)
        return row

    def _with_hybrids(self, done: Sequence[Row]) -> list[Row]:
        """All rows: those with the prior each behind the one without, then other hybrids."""
        rows = {row.name: [row] for row in done}
        folders = {system.name: system.inputs for system in self._systems}
        for hybrid in self._hybrids:
            own = [name for name in hybrid.members if name != PRIOR]
            failed = [name for name in own if not self._rankings.get(name)]
            if hybrid.kind != "prior":
                row = Row(hybrid.name, "hybrid", prior=PRIOR in hybrid.members)
                rows[row.name] = [row]
                if failed:
                    row.error = f"its member {failed[0]} has no result"
            elif not failed:
                (base,) = rows[own[0]]
                row = Row(hybrid.name, base.kind, sweep=base.sweep, prior=True)
                rows[base.name].append(row)
            if failed:
                continue
            seeds = max((rows[name][0].seeds for name in own), key=len)
            queries = len(seeds) * len(self._task.queries)
            with progress_of(hybrid.name, queries, self._console, "queries") as progress:
                for seed, of_seed in enumerate(seeds):
                    # A member that is not random stands beside every seed of the others.
                    members = {
                        name: loads[min(seed, len(loads) - 1)]()
                        for name in own
                        for loads in [self._rankings[name]]
                    }
                    by_half, about = fuse(
                        hybrid,
                        members,
                        self._prior(folders.get(own[0], INPUTS)),
                        self._task,
                        self._options.tune,
                        POOL,
                        progress.advance,
                    )
                    if seed == 0 and "final" in about and hybrid.kind != "prior":
                        self._write_hybrid(hybrid, about["final"], done)
                    about |= self._costs_of([row for row in done if row.name in own], seed)
                    self._add(row, of_seed.seed, by_half, about)
        return [row for both in rows.values() for row in both]

    def _write_hybrid(self, hybrid: Hybrid, final: Mapping[str, Any], rows: Sequence[Row]) -> None:
        """Writes what a hybrid's final choice is, with those of its members, for `dssm search`."""
        fitted = {system.name: system for system in self._systems}
        members: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for row in rows:
            system = fitted.get(row.name)
            if system is not None and system.kind == "baseline" and row.seeds:
                tuned = row.seeds[0].about.get("final", {}).get("values", {})
                members[row.name] = (system.base, {**system.parameters, **tuned})
            else:
                trained = row.kind in ("tower", "model")
                members[row.name] = (MODEL if trained else f"{row.kind} {row.name}", {})
        name = re.sub(r"[^\w.+=-]+", "_", hybrid.name)
        to_deploy(hybrid, final, members, POOL).save(self._options.out / HYBRIDS / f"{name}.json")

    @staticmethod
    def _costs_of(members: Sequence[Row], seed: int) -> dict[str, Any]:
        """A hybrid costs what its members cost; unknown where one of them is unknown."""
        found: dict[str, Any] = {}
        for name in COST_NAMES:
            costs = [row.seeds[min(seed, len(row.seeds) - 1)].about.get(name) for row in members]
            found[name] = None if None in costs else sum(costs)
        return found

    def _add(
        self,
        row: Row,
        seed: int | None,
        by_half: ByHalf,
        about: Mapping[str, Any],
        load: Callable[[], ByHalf] | None = None,
    ) -> None:
        """Adds what a seed came to; `load` has it again, for a hybrid."""
        from dssm_tf.evaluation import tf_ranking

        joined: Measured = by_half.joined()
        values = tf_ranking.per_query(joined.ranks, list(self._options.metrics))
        # What files and reports show; fusions load the deeper rankings again.
        rankings = [Ranking(c[:DEPTH].copy(), s[:DEPTH].copy()) for c, s in joined.rankings]
        row.seeds.append(SeedResult(seed, values, rankings, about))
        if load:
            self._rankings.setdefault(row.name, []).append(load)

    def _prior(self, folder: str = INPUTS) -> NDArray[np.float64]:
        """The log-prior of the task's titles by the clicks of a folder, in nats."""
        if folder not in self._priors:
            prior = Inputs(self._inputs.folder.parent / folder).prior()
            self._priors[folder] = prior(self._task.titles).astype(np.float64)
        return self._priors[folder]


def _in_curve(row: Row) -> bool:
    return row.sweep is not None and row.sweep[0] == CLICKS


def _pairs(rows: Sequence[Row], against: Sequence[str]) -> list[tuple[str, str]]:
    """What is tested: rows with the prior among each other, rows without, and each with its own.

    So no system with the prior is said to be better than one without. Points of a learning curve
    are not tested.
    """
    return [
        (later.name, earlier.name)
        for earlier, later in combinations([row for row in rows if not _in_curve(row)], 2)
        if later.name == earlier.name + PRIOR_SUFFIX
        or (later.prior == earlier.prior and {later.name, earlier.name} & set(against))
    ]


def _write_texts(task: RankingTask, out: Path) -> None:
    """Writes `queries.tsv` and `titles.tsv`: what to embed for `--embeddings`, in order."""
    for name, heads, rows in (
        ("queries.tsv", ("query_id", "query"), zip(task.query_ids, task.queries, strict=True)),
        ("titles.tsv", ("doc_id", "title"), zip(task.doc_ids, task.titles, strict=True)),
    ):
        with atomic_write(out / name) as file:
            file.writelines("\t".join(row) + "\n" for row in [heads, *rows])
