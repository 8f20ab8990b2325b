"""One system, one seed, in a process of its own: `python -m dssm_tf.benchmark.fit FOLDER PARENT`.

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
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from dssm_tf.baselines.base import Baseline
from dssm_tf.benchmark.external import load_encoder, megabytes, microseconds
from dssm_tf.benchmark.folds import FINAL, by_fold, choose, described, folds, grid, to_choose_by
from dssm_tf.benchmark.prepare import Inputs
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.evaluation.by_cosine import without_prior
from dssm_tf.evaluation.evaluation import about_vocabulary
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.runs import by_ranker, make_run, relevant_ranks
from dssm_tf.evaluation.task import RankingTask

JOB, ABOUT, RUN = "job.json", "about.json", "run.parquet"
_MODEL = "model"


class Candidate(NamedTuple):
    """A fitted system with one setting of its free parameters.

    Attributes:
        setting: values by name.
        ranker: with them.
        about: costs and notes.
        deployed: the ranker as it is used, where that is another form.
        usual: how many of these values the system has by default.
    """

    setting: dict[str, Any]
    ranker: Ranker
    about: dict[str, Any]
    deployed: Ranker | None = None
    usual: int = 0


def fit(folder: Path) -> None:
    """Fits, chooses free parameters, ranks and writes.

    Raises:
        UserError: the system cannot learn from these inputs or gives unusable scores.
    """
    job = json.loads((folder / JOB).read_text("utf-8"))
    inputs = Inputs(folder.parents[1] / job["inputs"])
    task, tune = inputs.task(), job["tune"]
    make = {"tower": _tower, "encoder": _encoder, "baseline": _baseline}[job["kind"]]
    candidates = make(job, inputs, folder)
    fold, about = folds(task), dict[str, Any]()
    chosen = [max(range(len(candidates)), key=lambda at: candidates[at].usual)] * 3
    if len(candidates) > 1:
        values = np.stack([
            to_choose_by(relevant_ranks(_run(job, one, task), task), tune, task)
            for one in candidates
        ])  # fmt: skip
        best = choose(values, fold)
        chosen, about = best or chosen, described([candidates[at].setting for at in best])
    runs = {place: _run(job, candidates[place], task) for place in dict.fromkeys(chosen)}
    final = candidates[chosen[FINAL]]
    about = final.about | about
    if job["kind"] == "baseline":
        model, ranker = folder / _MODEL, cast("Baseline", final.ranker)
        ranker.save(model)
        about["parameters"] = _learned_numbers(model) + len(final.setting)
        about["megabytes"] = megabytes(model)
    about["microseconds_per_query"] = microseconds(final.deployed or final.ranker, task)
    with atomic_write(folder / ABOUT) as file:
        json.dump(about, file, indent=2)
    with atomic_write(folder / RUN, "wb") as file:
        by_fold([runs[place] for place in chosen]).write_parquet(file)


def _run(job: dict[str, Any], candidate: Candidate, task: RankingTask) -> Any:
    return make_run(job["name"], by_ranker(candidate.ranker, task), task)


def _baseline(job: dict[str, Any], inputs: Inputs, folder: Path) -> list[Candidate]:
    """A baseline with every combination of its free parameters, fitted as seldom as that allows."""
    from dssm_tf.systems import BASELINES

    make, given = BASELINES[job["base"]], dict(job["parameters"])
    given |= {} if job["seed"] is None else {"seed": job["seed"]}
    free, refit = (
        {name: values for name, values in one.items() if name not in given}
        for one in (make.free, make.fitted_free)
    )
    clicks, titles, default = inputs.clicks(), inputs.titles(), make(**given)
    found = []
    for variant in grid(refit):
        started = time.monotonic()
        fitted = make(**given, **variant).fit(clicks, titles)
        seconds = time.monotonic() - started
        for setting in grid(free):
            ranker, setting = fitted.with_parameters(**setting), {**variant, **setting}
            usual = sum(getattr(default, name) == value for name, value in setting.items())
            found.append(Candidate(setting, ranker, {"training_seconds": seconds}, usual=usual))
    return found


def _tower(job: dict[str, Any], inputs: Inputs, folder: Path) -> list[Candidate]:
    from dssm_tf.config import load_config
    from dssm_tf.export.compact import export_compact
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.runtime import Ranker as CompactRanker
    from dssm_tf.training.train import train

    config = folder / "config.yaml"
    config.write_text(job["base"], "utf-8")
    model, resumed = folder / _MODEL, (folder / _MODEL).exists()
    loaded = load_config(config, [f"training.seed={job['seed']}"])
    result = train(loaded, inputs.folder / job["data"], model, quiet=True)
    ranker = SemanticRanker.load(model, job["name"])
    shutil.rmtree(folder / "compact", ignore_errors=True)
    form = export_compact(model, folder / "compact")
    about = {
        "training_seconds": result.seconds or None,
        "resumed": resumed,
        "epochs": result.epochs,
        "best_epoch": result.best_epoch,
        "prior_weight": result.prior_weight,
        "parameters": int(ranker.model.count_params()),
        "megabytes": megabytes(form),
        **about_vocabulary(ranker.vocabulary.unknown_share(inputs.task().queries)),
    }
    about["notes"] += [f"may have learned nothing: {result.doubt}"] if result.doubt else []
    # Rows of their own add the prior, as to every other system.
    compact = without_prior(CompactRanker.load(form))
    return [Candidate({}, without_prior(ranker), about, compact)]


def _encoder(job: dict[str, Any], inputs: Inputs, folder: Path) -> list[Candidate]:
    return [Candidate({}, *load_encoder(job["name"], job["base"]))]


def _learned_numbers(directory: Path) -> int:
    """Floating-point numbers in the arrays a baseline saved."""
    total = 0
    for path in directory.rglob("*.np[yz]"):
        found = np.load(path)
        arrays = found.values() if path.suffix == ".npz" else (found,)
        total += sum(array.size for array in arrays if array.dtype.kind == "f")
    return total


def _end_with(parent: int) -> None:
    """Ends this process when the benchmark is killed, so that a new one can take its place."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    _end_with(int(sys.argv[2]))
    try:
        fit(Path(sys.argv[1]))
    except UserError as error:
        sys.exit(" ".join(str(error).split()))
