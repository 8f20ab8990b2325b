"""`dssm experiment order`: who reads order, a negation, a topic, and how far apart."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from dssm_tf.common import figures
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.dse.experiments.report import Run, experiment
from dssm_tf.order.log import KINDS
from dssm_tf.order.report import Curves, Fitted, by_distance, by_share, order_page, tables
from dssm_tf.order.trial import METRIC, MODELS, Log, fit, prepare, start
from dssm_tf.tables.writer import write_table

FIGURE, PAGE, ROWS, LOGS = "order", "order.html", "order.tsv", "logs"
_FARTHEST = 50
_LEAST = 40  # queries of a distance
_COLUMNS = ("model", "seed", "share", "kind", "distance", METRIC)


class Dials(NamedTuple):
    """What is varied, and how much of everything there is.

    Args:
        distances: from a word that matters to the next; a log has all of them.
        share: of queries that turn on order or a negation, in the log of the curves by distance.
        shares: further ones, each a log of its own.
        seeds: logs of each share, drawn anew, and trainings of each model.
        queries: of a log.
        judged: of each kind and distance.
        epochs: of a training.
    """

    distances: tuple[int, ...] = (1, 2, 4, 8)
    share: float = 0.6
    shares: tuple[float, ...] = (0.2, 1.0)
    seeds: int = 1
    queries: int = 2000
    judged: int = 100
    epochs: int = 12

    def check(self) -> None:
        """Raises UserError where a dial cannot be turned so far."""
        for share in (self.share, *self.shares):
            if not 0 < share <= 1:
                raise UserError(f"--share is {share:g}; expected above 0, and 1 at most.")
        for distance in self.distances:
            if not 1 <= distance <= _FARTHEST:
                raise UserError(
                    f"--distances holds {distance}; expected 1, side by side, to {_FARTHEST} words."
                )
        if len(set(self.distances)) < len(self.distances):
            raise UserError(f"--distances holds one twice: {' '.join(map(str, self.distances))}.")
        least = _LEAST * len(self.distances)
        if self.queries < least:
            raise UserError(
                f"--queries is {self.queries}; expected at least {least}, {_LEAST} a distance."
            )
        for name in ("seeds", "epochs"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name} is {getattr(self, name)}; expected at least 1.")


QUICK = Dials(distances=(1, 8), shares=(), queries=1000, epochs=4)
"""To see that it works, not how well."""


def order(
    out: Path | str,
    dials: Dials | None = None,
    *,
    quick: bool = False,
    seed: int = 0,
    jobs: int | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Runs the experiment and writes its tables, figure and page, and the logs themselves.

    Args:
        out: directory to write, new.
        dials: what is varied; the default, or `QUICK`, if not given.
        quick: whether to say that it was quick.
        seed: the first of the seeds.
        jobs: trainings at a time, each in a process of its own; one a core if not given.
        console: where to print; None is silent.

    Returns:
        What `results.json` holds.

    Raises:
        UserError: a dial is out of its range, `out` exists, or a process was killed.
    """
    dials = dials or (QUICK if quick else Dials())
    dials.check()
    if jobs is not None and jobs < 1:
        raise UserError(f"--jobs is {jobs}; expected at least 1.")
    shares = sorted({dials.share, *dials.shares})
    logs = [
        Log(one, share, dials.distances, dials.queries, dials.judged)
        for share in sorted(shares, key=lambda share: share != dials.share)
        for one in range(seed, seed + dials.seeds)
    ]
    with experiment(out, console, len(logs) * len(MODELS)) as run:
        work = run.directory / LOGS
        fitted = sorted(_fit_all(logs, work, dials.epochs, jobs or _cores(), run))
        for left in [*work.glob("*/data"), *(work / log.name / m for log in logs for m in MODELS)]:
            shutil.rmtree(left)
        _write_rows(fitted, run.directory / ROWS)
        groups = dials.judged // 2
        curves = by_distance(fitted, dials.share, groups)
        mixed = by_share(fitted, groups) if len(shares) > 1 else {}
        _draw(curves, mixed, dials, run.directory)
        results = {
            **dials._asdict(),
            "distances": list(dials.distances),
            "shares": list(dials.shares),
            "quick": quick,
            "seed": seed,
            "metric": METRIC,
            "by_distance": _plain(curves),
            "by_share": _plain({"log": mixed})["log"],
        }
        preface = (
            f"NDCG@1 of two titles, of which one is right: chance is .5; {dials.queries:,} queries "
            f"a log, {dials.judged} judged of each kind and distance, {dials.seeds} "
            f"{'seed' if dials.seeds == 1 else 'seeds'},"
        )
        run.finish(results, tables(curves, mixed, dials.share), preface)
        with atomic_write(run.directory / PAGE) as file:
            file.write(order_page(curves, mixed, run.results, run.directory / f"{FIGURE}.svg"))
    return run.results


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _fit_all(logs: Sequence[Log], work: Path, epochs: int, jobs: int, run: Run) -> Iterator[Fitted]:
    """Trains every model on every log, as soon as that is written."""
    told = run.told("order")
    with _processes(jobs) as pool:
        told("writing logs")
        writing = {pool.submit(prepare, log, work / log.name): log for log in logs}
        training: dict[Future[Any], tuple[str, Log]] = {}
        for done in as_completed(writing):
            done.result()
            log = writing[done]
            for model in MODELS:
                training[pool.submit(fit, log, work / log.name, model, epochs)] = model, log
        told("training")
        for ended in as_completed(training):
            model, log = training[ended]
            yield Fitted(model, log.seed, log.share, ended.result())
            run.fitted()
            told(f"{model}, share {log.share:g}, seed {log.seed}")


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with this one, and with the first error."""
    pool = ProcessPoolExecutor(
        jobs,
        multiprocessing.get_context("spawn"),
        initializer=start,
        initargs=(os.getpid(), max(1, _cores() // jobs)),
    )
    try:
        yield pool
    except BrokenProcessPool:
        raise UserError(
            "a training process was killed, perhaps for want of memory; give fewer --jobs."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _write_rows(fitted: Sequence[Fitted], path: Path) -> None:
    rows = (
        (one.model, str(one.seed), f"{one.share:g}", kind, str(distance), f"{value:.4f}")
        for one in fitted
        for kind, row in one.found.items()
        for distance, value in row.items()
    )
    write_table(path, _COLUMNS, rows)


def _draw(curves: Mapping[str, Curves], mixed: Curves, dials: Dials, directory: Path) -> None:
    named = {
        "order": "order: oslo .. rome, or rome .. oslo",
        "negation": "negation: pool .. not .. spa",
        "topic": "topic: opera .. canal, or opera .. ruins",
    }
    words = "words from one that matters to the next"
    panels = [
        figures.Panel(named[kind], words, dials.distances, curves[kind], {"chance": 0.5})
        for kind in KINDS
    ]  # fmt: skip
    if mixed:
        shares = sorted(next(iter(mixed.values())))
        best = [1 - share / 2 for share in shares]
        levels: dict[str, float | list[float]] = {"chance": 0.5, "best without order": best}
        panels.append(
            figures.Panel(
                "the whole log", "share of queries of order and negation", shares, mixed, levels
            )
        )
    figures.save(figures.curves_by_model(panels, "NDCG@1"), directory, FIGURE)


def _plain(curves: Mapping[str, Curves]) -> dict[str, Any]:
    """Curves as JSON holds them."""
    return {
        name: {
            model: {f"{x:g}": point._asdict() for x, point in row.items()}
            for model, row in models.items()
        }
        for name, models in curves.items()
    }
