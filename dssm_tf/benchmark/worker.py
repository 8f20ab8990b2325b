"""One system, one seed, in a process of its own: `python -m dssm_tf.benchmark.worker`.

Reads `job.json` in the given directory, and writes `ranked.npz` and, last,
`result.json` there. A tower's run lies in `model/` and goes on where it was when
the process was killed. `stage` says what it is at; `error.json`, why it failed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dssm_tf.benchmark.cross_validation import (
    ByHalf,
    choose,
    choose_final,
    chosen_to_json,
    final_to_json,
    halves,
    to_choose_by,
)
from dssm_tf.benchmark.encoder import load_encoder
from dssm_tf.benchmark.inputs import Inputs
from dssm_tf.benchmark.variants import Variants
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.evaluation.by_cosine import without_prior
from dssm_tf.evaluation.evaluate import RankerScores, measure
from dssm_tf.evaluation.evaluation import about_vocabulary
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.task import RankingTask

JOB, RESULT, RANKED, ERROR, STAGE = (
    "job.json",
    "result.json",
    "ranked.npz",
    "error.json",
    "stage",
)
POOL = 1000
"""Titles of each ranking that are kept, and that fusions join."""

_MODEL, _COMPACT = "model", "compact"
_TIMED = 50  # queries that are scored one by one
_VARIANTS = "variants"  # fitted to choose from, removed when that is done


class Fitted(NamedTuple):
    """A system ready to rank, and what it cost.

    Attributes:
        settings: the combinations of free parameters to choose from; one, if there is none.
        with_setting: the ranker with such a combination.
        keep: saves the ranker with such a combination as the result's model; returns the seconds
            its training took, its size, how many numbers it learned, and further facts.
        deployed: the ranker as it is used, where that is another form.
    """

    settings: list[dict[str, Any]]
    with_setting: Callable[[dict[str, Any]], Ranker]
    keep: Callable[[dict[str, Any]], dict[str, Any]]
    deployed: Ranker | None = None


def main(argv: list[str]) -> int:
    """Does the job of one directory, as long as the benchmark that started it lives.

    Args:
        argv: the directory, and the process number of the benchmark.

    Returns:
        0, or 1 after writing `error.json`.
    """
    directory = Path(argv[0])
    _end_with(int(argv[1]))
    try:
        _run_job(directory)
    except Exception as error:  # whatever it was becomes a row of the table
        reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        traceback.print_exc()
        with atomic_write(directory / ERROR) as file:
            json.dump({"error": " ".join(reason.split())}, file)
        return 1
    return 0


def _run_job(directory: Path) -> None:
    """Fits, measures and writes.

    Raises:
        UserError: the system cannot learn from these inputs or gives unusable scores.
    """
    job = json.loads((directory / JOB).read_text("utf-8"))
    inputs = Inputs(directory.parent.parent / job["inputs"])
    task = inputs.task()
    say = _Stage(directory / STAGE)
    say("reading")
    fit = {"tower": _fit_tower, "encoder": _load_encoder, "baseline": _fit_baseline}[job["kind"]]
    fitted = fit(job, inputs, task, directory, say)
    name = job["name"]

    half = halves(task)
    settings = fitted.settings
    chosen, final, about = (0, 0), 0, dict[str, Any]()
    if len(settings) > 1:
        values = []
        for number, setting in enumerate(settings, start=1):
            say(f"tuning {number} of {len(settings)}")
            source = RankerScores(fitted.with_setting(setting), task)
            ranks = measure(name, source, task, depth=1).ranks
            values.append(to_choose_by(ranks, job["tune"], task))
        found = choose(values, half)
        if found is None:
            about["chosen"] = "nothing: fewer than two different queries have a relevant title"
            settings = [{}]
        else:
            chosen, final = found, choose_final(values)
            about["settings_tried"] = len(settings)
            both = (values, values)
            about["chosen"] = chosen_to_json(settings, chosen, both, half, job["tune"])
            about["final"] = final_to_json(settings, final, values, job["tune"])
    measured = {}
    for place in dict.fromkeys([*chosen, final]):
        say("ranking")
        ranker = fitted.with_setting(settings[place])
        measured[place] = measure(name, RankerScores(ranker, task), task, depth=POOL)
    both_halves = measured[chosen[0]], measured[chosen[1]]
    ByHalf(both_halves, half, measured[final]).save(directory / RANKED)
    say("saving")
    about = fitted.keep(settings[final]) | about
    deployed = fitted.deployed or fitted.with_setting(settings[final])
    about["microseconds_per_query"] = microseconds(deployed, task)
    with atomic_write(directory / RESULT) as file:
        json.dump(about, file, indent=2)


def _fit_baseline(
    job: dict[str, Any], inputs: Inputs, task: RankingTask, directory: Path, say: _Stage
) -> Fitted:
    from dssm_tf.systems import BASELINES

    parameters = dict(job["parameters"])
    if job["seed"] is not None:
        parameters["seed"] = job["seed"]
    clicks = inputs.clicks()
    titles = inputs.titles()
    variants = Variants(BASELINES[job["base"]], parameters, directory / _VARIANTS)
    variants.fit(clicks, titles, say, say.now_and_then)

    def keep(setting: dict[str, Any]) -> dict[str, Any]:
        variants.with_setting(setting).save(directory / _MODEL)
        numbers = _learned_numbers(directory / _MODEL) + variants.free
        shutil.rmtree(directory / _VARIANTS, ignore_errors=True)
        return {
            "training_seconds": variants.seconds(setting),
            "parameters": numbers,
            "megabytes": megabytes(directory / _MODEL),
        }

    return Fitted(variants.settings, variants.with_setting, keep)


def _fit_tower(
    job: dict[str, Any], inputs: Inputs, task: RankingTask, directory: Path, say: _Stage
) -> Fitted:
    from dssm_tf.config import load_config
    from dssm_tf.export.compact import export_compact
    from dssm_tf.model.run_files import is_finished
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.runtime.ranker import Ranker as CompactRanker
    from dssm_tf.training.train import train

    path = directory / "config.yaml"
    with atomic_write(path) as file:
        file.write(job["base"])
    config = load_config(path, [f"training.seed={job['seed']}"])
    model, facts = directory / _MODEL, directory / "training.json"
    if not is_finished(model) or not facts.exists():
        say("training")
        resumed = model.exists()
        if is_finished(model):  # killed between the end of the training and its facts
            about: dict[str, Any] = {"training_seconds": None, "resumed": True}
        else:
            result = train(
                config,
                inputs.folder / job["data"],
                model,
                quiet=True,
                told=lambda phase, done, epochs: say(
                    f"training{' on all' if phase == 'refit' else ''}, {done} of {epochs} epochs"
                ),
            )
            about = {
                "training_seconds": result.seconds,
                "resumed": resumed,
                "epochs": result.epochs,
                "best_epoch": result.best_epoch,
                "prior_weight": result.prior_weight,
                "notes": [f"may have learned nothing: {result.doubt}"] if result.doubt else [],
            }
        with atomic_write(facts) as file:
            json.dump(about, file)
    ranker = SemanticRanker.load(model, job["name"])
    say("exporting")
    shutil.rmtree(directory / _COMPACT, ignore_errors=True)
    form = export_compact(model, directory / _COMPACT).directory
    about = json.loads(facts.read_text("utf-8"))
    about["parameters"] = int(ranker.model.count_params())
    about["megabytes"] = megabytes(form)
    about |= about_vocabulary(ranker.vocabulary.unknown_share(task.queries))
    # Rows of their own add the prior, as to every other system.
    cosine, compact = without_prior(ranker), without_prior(CompactRanker.load(form))
    return Fitted([{}], lambda _: cosine, lambda _: about, compact)


def _load_encoder(
    job: dict[str, Any], inputs: Inputs, task: RankingTask, directory: Path, say: _Stage
) -> Fitted:
    say("loading")
    ranker, costs = load_encoder(job["name"], job["base"])
    return Fitted([{}], lambda _: ranker, lambda _: costs)


def _learned_numbers(directory: Path) -> int:
    """Floating-point numbers in the arrays a baseline saved."""
    total = 0
    for path in directory.rglob("*.np[yz]"):
        found = np.load(path)
        arrays = found.values() if path.suffix == ".npz" else (found,)
        total += sum(array.size for array in arrays if array.dtype.kind == "f")
    return total


def megabytes(directory: Path) -> float:
    """Size on disk of what scoring needs; training logs are not part of it."""
    files = (one for one in directory.rglob("*") if one.is_file())
    kept = (one for one in files if "logs" not in one.relative_to(directory).parts)
    return sum(one.stat().st_size for one in kept) / 1e6


def microseconds(ranker: Ranker, task: RankingTask) -> float:
    """The median time to score one query against its titles, which another query had encoded."""
    source = RankerScores(ranker, task)
    rows = np.linspace(0, len(task.queries) - 1, min(_TIMED, len(task.queries))).astype(np.int64)
    taken = []
    for other, row in zip(np.roll(rows, 1), rows, strict=True):
        columns = None if task.whole_corpus else task.judged_columns[row]
        source.block(np.array([other]), columns)
        started = time.perf_counter()
        source.block(np.array([row]), columns)
        taken.append(time.perf_counter() - started)
    return 1e6 * float(np.median(taken))


class _Stage:
    """Tells the benchmark what this process is at."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = 0.0

    def now_and_then(self, stage: str) -> None:
        """Says so, unless something was said within the last half second."""
        if time.monotonic() - self._last > 0.5:
            self(stage)

    def __call__(self, stage: str) -> None:
        self._last = time.monotonic()
        with atomic_write(self._path) as file:
            file.write(stage)


def _end_with(parent: int) -> None:
    """Ends this process when the benchmark is killed, so that a new one can go on in its place."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
