"""Fits one system with one seed in a separate process: `python -m dssm_tf.benchmark.fit FOLDER`.

Reads `job.json` in the folder; writes `model/`, `facts.json`, `condensed.parquet` and, last,
`run.parquet` there. The training of a tower resumes after a kill. If a fit fails, the last line of
standard error gives the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.baselines.base import Baseline
from dssm_tf.benchmark.external import (
    cosine_scorer,
    cosines,
    latency_us,
    load_encoder,
    size_mb,
)
from dssm_tf.benchmark.folds import (
    FINAL,
    assign_folds,
    choose,
    describe_choice,
    grid,
    join_rankings,
)
from dssm_tf.benchmark.prepare import INPUTS, Inputs
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.evaluation.evaluation import vocabulary_facts
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.runs import (
    Rankings,
    ScoreFunction,
    rank_titles,
    relevant_ranks,
    trec_run,
)
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.export.compact import copy_compact
from dssm_tf.export.load import find_model, load
from dssm_tf.tables.trec import read_run

JOB, FACTS, RUN, CONDENSED = "job.json", "facts.json", "run.parquet", "condensed.parquet"
_COMPACT = "compact"
_MODEL = "model"


class Candidate(NamedTuple):
    """A system with one setting of the parameters that cross-validation chooses.

    Attributes:
        facts: size, training time, notes and other facts, written to `facts.json`.
        scores: returns the function that scores titles; or finished rankings.
        timed: function whose latency is measured; None to measure `scores`.
        setting: values of the tuned parameters by name.
        baseline: returns the fitted model to save.

    A model with encoded titles needs 0.1 GB for a million titles. So `scores` and `baseline` make
    the model when they are called, and only one setting is in memory at a time.
    """

    facts: dict[str, Any]
    scores: Callable[[], ScoreFunction] | Rankings
    timed: ScoreFunction | None = None
    setting: Mapping[str, Any] = MappingProxyType({})
    baseline: Callable[[], Baseline[Any]] | None = None


class FitContext(NamedTuple):
    """Arguments of the functions in `KINDS`.

    Attributes:
        job: content of `job.json`.
        inputs: data to learn from.
        task: judged queries to rank.
        folder: folder to write to.
    """

    job: Mapping[str, Any]
    inputs: Inputs
    task: RankingTask
    folder: Path


def fit(folder: Path) -> None:
    """Fits a system, tunes its parameters, ranks, and writes the model and the run.

    Raises:
        UserError: the system cannot learn from these inputs, or its scores are unusable.
    """
    job = json.loads((folder / JOB).read_text("utf-8"))
    inputs = Inputs(folder.parents[1] / INPUTS)
    task = inputs.task()
    candidates = KINDS[job["kind"]](FitContext(job, inputs, task, folder))

    def rank(candidate: Candidate) -> Rankings:
        scores = candidate.scores
        return scores if isinstance(scores, Rankings) else rank_titles(job["name"], scores(), task)

    facts: dict[str, Any] = {}
    chosen = [0, 0, 0]  # index of a candidate for fold 0, for fold 1, and `FINAL`
    if len(candidates) > 1:
        metric, count = job["tune"], len(task.queries)
        ranks = (relevant_ranks(rank(candidate).run, task) for candidate in candidates)
        values = [per_query(frame, count, [metric])[metric] for frame in ranks]
        best = choose(np.stack(values), assign_folds(task))
        facts = describe_choice([candidates[index].setting for index in best])
        chosen = best or chosen
    rankings = {index: rank(candidates[index]) for index in dict.fromkeys(chosen)}
    final = candidates[chosen[FINAL]]
    facts = final.facts | facts
    if final.baseline:
        model = folder / _MODEL
        final.baseline().save(model)
        facts["megabytes"] = size_mb(model)
    if not isinstance(final.scores, Rankings):
        facts["microseconds_per_query"] = latency_us(final.timed or final.scores(), task)
    # The compact model of a tower was needed for its size and its latency only.
    shutil.rmtree(folder / _COMPACT, ignore_errors=True)
    with atomic_write(folder / FACTS) as file:
        json.dump(facts, file, indent=2)
    write_rankings(join_rankings([rankings[index] for index in chosen]), folder)


def write_rankings(rankings: Rankings, folder: Path) -> None:
    """Writes both runs, `run.parquet` last: a folder that contains it is finished."""
    for name, run in ((CONDENSED, rankings.condensed), (RUN, rankings.run)):
        with atomic_write(folder / name, "wb") as file:
            run.write_parquet(file)


def read_rankings(folder: Path) -> Rankings:
    """Reads the rankings of a finished fit."""
    return Rankings(pl.read_parquet(folder / RUN), pl.read_parquet(folder / CONDENSED))


def is_finished(folder: Path) -> bool:
    """Whether a folder has the rankings of a finished fit."""
    return (folder / RUN).exists() and (folder / CONDENSED).exists()


def _rank_by_popularity(context: FitContext) -> list[Candidate]:
    """Ranks the titles by their prior, in the same order for every query."""
    prior = context.inputs.prior()

    def scores(queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.floating[Any]]:
        return np.tile(prior(titles), (len(queries), 1))

    return [Candidate({}, lambda: scores)]


def _fit_baseline(context: FitContext) -> list[Candidate]:
    """Fits a baseline with every combination of its search spaces.

    Only parameters in `refit_search_space` need a new fit. Parameters with a value in the job are
    not tuned.
    """
    from dssm_tf.systems import BASELINES

    job, inputs = context.job, context.inputs
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
        facts = {"training_seconds": time.monotonic() - started}
        for values in grid(search_space):
            setting = {**refit_values, **values}
            baseline = partial(fitted.with_parameters, **values)
            scores = partial(_score_matrix, baseline)
            candidates.append(Candidate(facts, scores, setting=setting, baseline=baseline))
    return candidates


def _score_matrix(baseline: Callable[[], Baseline[Any]]) -> ScoreFunction:
    return baseline().score_matrix


def _train_tower(context: FitContext) -> list[Candidate]:
    """Trains a tower and ranks by its cosine. The benchmark adds the prior in another row."""
    from dssm_tf import runtime
    from dssm_tf.config import load_config
    from dssm_tf.export.compact import export_compact
    from dssm_tf.model.load_run import load_run
    from dssm_tf.training.train import train

    job, folder = context.job, context.folder
    config, model = folder / "config.yaml", folder / _MODEL
    with atomic_write(config) as file:
        file.write(job["base"])
    resumed = model.exists()
    loaded = load_config(config, [f"training.seed={job['seed']}"])
    result = train(loaded, context.inputs.data(job["negatives"]), model, quiet=True)
    ranker = load_run(model, job["name"])
    shutil.rmtree(folder / _COMPACT, ignore_errors=True)
    compact = export_compact(model, folder / _COMPACT)
    facts = {
        # If the training was interrupted, only the time since its last start is known.
        "training_seconds": None if resumed else result.seconds or None,
        "epochs": result.epochs,
        "best_epoch": result.best_epoch,
        "prior_weight": result.prior_weight,
        "megabytes": size_mb(compact),
        **vocabulary_facts(ranker.vocabulary.unknown_fraction(context.task.queries)),
    }
    if result.convergence_warning:
        facts["notes"] += [f"may have learned nothing: {result.convergence_warning}"]
    deployed = cosine_scorer(runtime.load(compact))
    scores = cosine_scorer(ranker)
    return [Candidate(facts, lambda: scores, timed=deployed)]


def _load_saved_model(context: FitContext) -> list[Candidate]:
    """Loads a saved model, which ranks by its cosine without its prior, or a saved baseline.

    The size and the latency of a run are those of its compact model, as for configurations. A
    custom tower has no compact form, so its run is measured.
    """
    from dssm_tf import runtime

    path = Path(context.job["base"])
    ranker: Any = load(path, context.job["name"])
    facts: dict[str, Any] = {"source": str(path), "megabytes": size_mb(path), "notes": []}
    timed = None
    if not isinstance(ranker, Baseline):
        facts |= vocabulary_facts(ranker.vocabulary.unknown_fraction(context.task.queries))
        location = find_model(path)
        config = getattr(ranker, "config", None)
        is_run = location is not None and location.kind == "run"
        if is_run and config is not None and config.tower.name != "custom":
            compact = context.folder / _COMPACT
            shutil.rmtree(compact, ignore_errors=True)
            copy_compact(path, compact)
            facts["megabytes"] = size_mb(compact)
            timed = cosine_scorer(runtime.load(compact))
    scores = cosine_scorer(ranker)
    return [Candidate(facts, lambda: scores, timed=timed)]


def _load_encoder(context: FitContext) -> list[Candidate]:
    encode, size = load_encoder(context.job["base"])
    scores = cosines(encode, encode)
    return [Candidate({"megabytes": size}, lambda: scores)]


def _read_trec_run(context: FitContext) -> list[Candidate]:
    path = Path(context.job["base"])
    rankings, notes = trec_run(context.job["name"], read_run(path), context.task)
    return [Candidate({"source": str(path), "notes": notes}, rankings)]


KINDS: dict[str, Callable[[FitContext], list[Candidate]]] = {
    "popularity": _rank_by_popularity,
    "baseline": _fit_baseline,
    "tower": _train_tower,
    "encoder": _load_encoder,
    "model": _load_saved_model,
    "run": _read_trec_run,
}
"""For each kind of system, the function that creates its candidates."""


def _end_with_parent() -> None:
    """Ends this process if the benchmark is killed, so that a new benchmark can use the folder."""
    os.read(0, 1)  # returns when the other end of the pipe is closed
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        fit(Path(sys.argv[1]))
    except UserError as error:
        sys.exit(" ".join(str(error).split()))
