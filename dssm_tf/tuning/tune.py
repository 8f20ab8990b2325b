"""Trains the settings of a search one after the other and keeps the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import keras
import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.pruners import MedianPruner, NopPruner
from optuna.samplers import RandomSampler, TPESampler
from optuna.trial import FrozenTrial, Trial, TrialState
from rich.console import Console
from scipy import stats

from dssm_tf.common.checksums import sha256_of
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write, check_replaceable, exclusive_lock
from dssm_tf.common.terminal import say
from dssm_tf.common.versions import digest
from dssm_tf.data.format import SPEC
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.intervals import caution
from dssm_tf.tables.writer import write_table
from dssm_tf.training.checks import check_data
from dssm_tf.training.resolve import resolve_files
from dssm_tf.training.run_directory import Result
from dssm_tf.training.train import train
from dssm_tf.tuning.search import Search, typed

STUDY = "trials.db"


def tune(
    search: Search, data: Sequence[Path], out: Path, console: Console | None = None
) -> optuna.Study:
    """Tries what a search says and writes the configuration that did best.

    Called again, after a kill at any moment or with another search, it keeps what is finished,
    resumes an unfinished training run at its last saved step, trains what is new, and tries again
    what failed.

    Args:
        search: what to try; `check` has passed.
        data: directories that preprocess wrote; each setting is trained on each.
        out: gets `trials.db`, Optuna's study; `trials/`, the runs; `trials.tsv`; `best.yaml`.
        console: where to print; None is silent.

    Returns:
        The study; of a trial, `user_attrs["values"]` has the metric, `(logs, seeds)`.

    Raises:
        UserError: the data do not suit, `out` holds something else or is being written, or every
            trial failed.
    """
    for log, setting in product(map(Preprocessed, data), search.settings):
        config = search.trial(setting)
        if not (config.training.folds or log.count("validation")):
            raise UserError(
                f"{log.directory} holds no validation records; preprocess with a larger share "
                "for validation, or --set training.folds=5."
            )
        check_data(resolve_files(config).negatives, log)
        config.optimizer.check()
    check_replaceable(out, (STUDY, "*"))
    out.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(out):
        study = _study(search, data, out)
        waiting = len(study.get_trials(states=[TrialState.WAITING]))
        drawn = (search.random or search.tpe or 0) - len(_ended(study))
        for _ in range(max(waiting, drawn)):
            trial = study.ask(search.space)
            if console:
                say(f"trial {trial.number}: {' '.join(typed(trial.params))}", to=console.file)
            try:
                study.tell(trial, _train(trial, search, data, out, console is None))
            except optuna.TrialPruned:
                study.tell(trial, state=TrialState.PRUNED)
            except OSError:  # no space, no permission: no setting's fault
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {error}".removeprefix("UserError: ")
                trial.set_user_attr("reason", " ".join(reason.split()))
                study.tell(trial, state=TrialState.FAIL)
            finally:
                # Keras's global state and the last model would grow with every trial.
                keras.utils.clear_session()
        lines = _report(study, search, data, out)
        if console:
            say(*lines, to=console.file)
    return study


def _study(search: Search, data: Sequence[Path], out: Path) -> optuna.Study:
    """The study of this search, these data and these versions, new or resumed.

    In line is what is to be tried of a grid, and what a kill cut off or what failed.
    """
    study = optuna.create_study(
        study_name=digest(search, resolve_files(search.load()).dump(), *map(_fingerprint, data)),
        storage=f"sqlite:///{out / STUDY}",
        load_if_exists=True,
        direction="maximize",
        pruner=MedianPruner() if search.prune else NopPruner(),
    )
    # A sampler that began anew would make the suggestions of before the kill once more.
    sampler = TPESampler if search.tpe else RandomSampler
    study.sampler = sampler(seed=search.seed + len(study.trials))
    again = [one for one in _ended(study) if one.state == TrialState.FAIL]
    for trial in study.get_trials(states=[TrialState.RUNNING]):
        study.tell(trial.number, state=TrialState.FAIL)
        again.append(trial)
    for trial in again:
        study.enqueue_trial(trial.system_attrs.get("fixed_params", trial.params))
    for setting in [] if search.random or search.tpe else search.settings:
        study.enqueue_trial(setting, skip_if_exists=True)
    return study


def _ended(study: optuna.Study) -> list[FrozenTrial]:
    """The trials with a result, the last one of each setting."""
    ended = {
        str(trial.params): trial
        for trial in study.trials
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) or "reason" in trial.user_attrs
    }
    return list(ended.values())


def _train(trial: Trial, search: Search, data: Sequence[Path], out: Path, quiet: bool) -> float:
    """Trains a setting on each log with each seed.

    Returns:
        The mean over seeds of the geometric mean over logs of the metric: a log of hard queries, on
        which all figures are low, counts as much as others.
    """
    config, metric = resolve_files(search.trial(trial.params)), search.measure
    results: dict[str, Result] = {}
    for log, seed in product(data, range(search.seeds)):
        training = config.training.model_copy(update={"seed": config.training.seed + seed})
        seeded = config.model_copy(update={"training": training})
        run = f"trials/{digest(seeded.dump(), _fingerprint(log))}"
        # Only the first training is compared with those of other trials.
        prune = [PruneTrial(trial, metric)] if search.prune and not results else []
        results[run] = train(seeded, log, out / run, quiet=quiet, callbacks=prune)
    values = [result.ndcg[metric] for result in results.values()]
    trial.set_user_attr("values", np.reshape(values, (len(data), -1)).tolist())
    trial.set_user_attr("queries", min(result.ndcg["queries"] for result in results.values()))
    trial.set_user_attr("runs", " ".join(results))
    return float(_by_seed(trial).mean())


class PruneTrial(keras.callbacks.Callback):
    """Reports the validation metric of each epoch to Optuna, and stops a trial that it prunes.

    Args:
        trial: the trial.
        metric: key of the logs.
    """

    def __init__(self, trial: Trial, metric: str) -> None:
        super().__init__()
        self._trial = trial
        self._metric = metric

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Reports.

        Raises:
            optuna.TrialPruned: the trial is behind the others.
        """
        self._trial.report((logs or {})[self._metric], epoch + 1)
        if self._trial.should_prune():
            raise optuna.TrialPruned


def _by_seed(trial: Trial | FrozenTrial) -> NDArray[np.float64]:
    """What trials are compared by, `(seeds,)`."""
    return np.asarray(stats.gmean(trial.user_attrs["values"], axis=0))


def _fingerprint(log: Path) -> str:
    return sha256_of(log / SPEC)


def _report(study: optuna.Study, search: Search, data: Sequence[Path], out: Path) -> list[str]:
    """Writes `trials.tsv`, best first, and `best.yaml`, whose first lines are returned."""
    trials = sorted(_ended(study), key=lambda one: (one.state.value, -(one.value or 0.0)))
    done = [one for one in trials if one.state == TrialState.COMPLETE]
    rows = []
    for one in trials:
        settings = [word.partition("=")[2] for word in typed(one.params)]
        values = [*one.user_attrs["values"], _by_seed(one)] if one in done else []
        shown = [*map(_spread, values), *[""] * (len(data) + 1 - len(values))]
        state = one.user_attrs.get("reason", one.state.name.lower())
        rows.append([str(one.number), *settings, *shown, state, one.user_attrs.get("runs", "")])
    heads = ["trial", *search.space, *(path.name for path in data), search.measure, "state", "runs"]
    write_table(out / "trials.tsv", heads, rows)
    if not done:
        reason = rows[0][-2].rstrip(".")
        raise UserError(
            f"all {len(rows)} trials failed, the first because: {reason}. When the cause is "
            "mended, give the same command again."
        )
    best = done[0]
    head = [
        f"Chosen by validation {search.measure} from {len(done)} trials; {len(rows) - len(done)} "
        f"failed or were pruned. {search.measure} {_spread(_by_seed(best))}:",
        *(f"  {word}" for word in typed(best.params)),
        *caution(
            "The trial, its epoch and its log-prior are chosen on", best.user_attrs["queries"]
        ),
        f"Tried:      {' '.join(search.grid)}; {search.seeds} seeds on {', '.join(map(str, data))}",
        f"Command:    dssm train --config {out}/best.yaml --data DATA --out RUN",
    ]
    with atomic_write(out / "best.yaml") as file:
        file.writelines(f"# {line}\n" for line in head)
        file.write(resolve_files(search.load(*typed(best.params))).dump())
    return head


def _spread(values: Sequence[float] | NDArray[np.float64]) -> str:
    """A mean over seeds and its standard deviation."""
    deviation = f" ±{np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{deviation}"
