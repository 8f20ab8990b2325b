"""One system, one seed, in a process of its own: `python -m dssm_tf.benchmark.fit FOLDER`.

Reads `job.json` in the folder; writes `model/`, `about.json` and, last, `run.parquet` there. A
tower's run resumes where it was when the process was killed. The last line on the error stream says
why a fit failed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from dssm_tf.baselines.base import Baseline
from dssm_tf.benchmark.external import (
    cosine_scorer,
    cosines,
    in_training_log,
    latency_us,
    load_encoder,
    size_mb,
)
from dssm_tf.benchmark.folds import FINAL, by_fold, choose, describe_choice, folds, grid
from dssm_tf.benchmark.prepare import INPUTS, Inputs
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.evaluation.evaluation import about_vocabulary
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.runs import ScoreFunction, make_run, relevant_ranks, trec_run
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.export.load import load
from dssm_tf.tables.trec import read_run

JOB, ABOUT, RUN = "job.json", "about.json", "run.parquet"
_MODEL = "model"


class Candidate(NamedTuple):
    """A system with one setting of its tuned parameters.

    Attributes:
        about: costs and notes.
        scores: the scores that titles are ranked by; or a ranking that exists already.
        timed: scores to measure the latency of, if not `scores`.
        setting: values of the tuned parameters by name.
        baseline: the fitted model to save.
    """

    about: dict[str, Any]
    scores: ScoreFunction | pl.DataFrame
    timed: ScoreFunction | None = None
    setting: Mapping[str, Any] = MappingProxyType({})
    baseline: Baseline[Any] | None = None


class Fit(NamedTuple):
    """A fit: the job, the data to learn from, and the folder to write to."""

    job: Mapping[str, Any]
    inputs: Inputs
    task: RankingTask
    folder: Path


def fit(folder: Path) -> None:
    """Fits, tunes parameters, ranks and writes.

    Raises:
        UserError: the system cannot learn from these inputs or gives unusable scores.
    """
    job = json.loads((folder / JOB).read_text("utf-8"))
    inputs = Inputs(folder.parents[1] / INPUTS)
    task = inputs.task()
    candidates = KINDS[job["kind"]](Fit(job, inputs, task, folder))

    def run_of(candidate: Candidate) -> pl.DataFrame:
        scores = candidate.scores
        return scores if isinstance(scores, pl.DataFrame) else make_run(job["name"], scores, task)

    fold, about = folds(task), dict[str, Any]()
    chosen = [0] * 3
    if len(candidates) > 1:
        metric, count = job["tune"], len(task.queries)
        ranks = (relevant_ranks(run_of(candidate), task) for candidate in candidates)
        values = [per_query(frame, count, [metric])[metric] for frame in ranks]
        best = choose(np.stack(values), fold)
        chosen, about = (
            best or chosen,
            describe_choice([candidates[index].setting for index in best]),
        )
    runs = {index: run_of(candidates[index]) for index in dict.fromkeys(chosen)}
    final = candidates[chosen[FINAL]]
    about = final.about | about
    if final.baseline:
        model = folder / _MODEL
        final.baseline.save(model)
        about["megabytes"] = size_mb(model)
    timed = final.timed or final.scores
    if not isinstance(timed, pl.DataFrame):
        about["microseconds_per_query"] = latency_us(timed, task)
    with atomic_write(folder / ABOUT) as file:
        json.dump(about, file, indent=2)
    with atomic_write(folder / RUN, "wb") as file:
        by_fold([runs[index] for index in chosen]).write_parquet(file)


def _popularity(system: Fit) -> list[Candidate]:
    """Every query ranks by the titles' prior alone."""
    prior = system.inputs.prior()
    return [Candidate({}, lambda queries, titles: np.tile(prior(titles), (len(queries), 1)))]


def _baseline(system: Fit) -> list[Candidate]:
    """A baseline with every combination of its search spaces, fitted no more often than needed.

    Parameters with a value in the job are not tuned.
    """
    from dssm_tf.systems import BASELINES

    job, inputs = system.job, system.inputs
    kind, fixed = BASELINES[job["base"]], dict(job["parameters"])
    fixed |= {} if job["seed"] is None else {"seed": job["seed"]}
    search_space, refit_search_space = (
        {name: values for name, values in space.items() if name not in fixed}
        for space in (kind.search_space, kind.refit_search_space)
    )
    clicks, titles = inputs.clicks(), inputs.titles()
    candidates = []
    for refit_values in grid(refit_search_space):
        started = time.monotonic()
        fitted = kind(**fixed, **refit_values).fit(clicks, titles)
        about = {"training_seconds": time.monotonic() - started}
        for values in grid(search_space):
            ranker = fitted.with_parameters(**values)
            setting = {**refit_values, **values}
            candidates.append(
                Candidate(about, ranker.score_matrix, setting=setting, baseline=ranker)
            )
    return candidates


def _tower(system: Fit) -> list[Candidate]:
    """A trained tower by its cosine; the prior is added in a further row, as for every system."""
    from dssm_tf.config import load_config
    from dssm_tf.export.compact import export_compact
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.runtime import Ranker as CompactRanker
    from dssm_tf.training.train import train

    job, folder = system.job, system.folder
    config, model = folder / "config.yaml", folder / _MODEL
    config.write_text(job["base"], "utf-8")
    resumed = model.exists()
    loaded = load_config(config, [f"training.seed={job['seed']}"])
    result = train(loaded, system.inputs.data(job["negatives"]), model, quiet=True)
    ranker = SemanticRanker.load(model, job["name"])
    shutil.rmtree(folder / "compact", ignore_errors=True)
    form = export_compact(model, folder / "compact")
    about = {
        # The time of an interrupted training is known since its last start only.
        "training_seconds": None if resumed else result.seconds or None,
        "epochs": result.epochs,
        "best_epoch": result.best_epoch,
        "prior_weight": result.prior_weight,
        "megabytes": size_mb(form),
        **about_vocabulary(ranker.vocabulary.unknown_share(system.task.queries)),
    }
    if result.convergence_warning:
        about["notes"] += [f"may have learned nothing: {result.convergence_warning}"]
    deployed = cosine_scorer(CompactRanker.load(form))
    return [Candidate(about, cosine_scorer(ranker), timed=deployed)]


def _saved(system: Fit) -> list[Candidate]:
    """A saved model by its cosine, without its prior; or a saved baseline."""
    path = Path(system.job["base"])
    ranker: Any = load(path, system.job["name"])
    about: dict[str, Any] = {"source": str(path), "megabytes": size_mb(path), "notes": []}
    if not isinstance(ranker, Baseline):
        about |= about_vocabulary(ranker.vocabulary.unknown_share(system.task.queries))
    known = in_training_log(system.task.queries, path)
    if known is None or known.any():  # a log without a judged query holds no judged click
        log = "an unknown log" if known is None else f"a log with {known.sum():,} of them"
        about["notes"] += [f"was trained elsewhere, on {log}: that may include judged clicks"]
    return [Candidate(about, cosine_scorer(ranker))]


def _encoder(system: Fit) -> list[Candidate]:
    encode, size = load_encoder(system.job["base"])
    return [Candidate({"megabytes": size}, cosines(encode, encode))]


def _run(system: Fit) -> list[Candidate]:
    path = Path(system.job["base"])
    run, notes = trec_run(system.job["name"], read_run(path), system.task)
    return [Candidate({"source": str(path), "notes": notes}, run)]


KINDS: dict[str, Callable[[Fit], list[Candidate]]] = {
    "popularity": _popularity,
    "baseline": _baseline,
    "tower": _tower,
    "encoder": _encoder,
    "model": _saved,
    "run": _run,
}
"""From a kind of system to its candidates: one, or several that cross validation chooses from."""


def _end_with_parent() -> None:
    """Ends this process when the benchmark is killed, so that a new one can take its place."""
    os.read(0, 1)  # until the other end of the pipe is closed
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        fit(Path(sys.argv[1]))
    except UserError as error:
        sys.exit(" ".join(str(error).split()))
