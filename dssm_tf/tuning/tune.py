"""Trains the settings of a search in turn and writes the best configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import keras
import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.exceptions import StorageInternalError
from optuna.pruners import MedianPruner, NopPruner
from optuna.samplers import RandomSampler, TPESampler
from optuna.trial import FrozenTrial, Trial, TrialState
from rich.console import Console
from scipy import stats
from sqlalchemy.exc import SQLAlchemyError

from dssm_tf.common.checksums import sha256_of
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write, check_replaceable, exclusive_lock
from dssm_tf.common.terminal import say
from dssm_tf.common.versions import digest
from dssm_tf.data.format import SPEC, Spec
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.intervals import small_sample_warning
from dssm_tf.tables.writer import write_table
from dssm_tf.training.checks import check_data
from dssm_tf.training.resolve import resolve_files
from dssm_tf.training.run_directory import Result
from dssm_tf.training.start_vectors import check_start_vectors
from dssm_tf.training.train import train
from dssm_tf.training.validation import FROM_TITLES, validation_title_queries
from dssm_tf.tuning.search import Search, format_settings

STUDY = "trials.db"

_DATABASE_ERRORS = (SQLAlchemyError, StorageInternalError)


def tune(
    search: Search, data: Sequence[Path], out: Path, console: Console | None = None
) -> optuna.Study:
    """Runs the trials of a search and writes the best configuration.

    It can be called again, after a kill or with another search. It then reuses finished trials,
    resumes an interrupted training run at its last checkpoint, runs new trials, and retries failed
    ones.

    Args:
        search: the search; `search.check()` has passed.
        data: directories that preprocess wrote; each setting is trained on each of them.
        out: output directory, with `trials.db`, the Optuna study; `trials/`, the training runs;
            `trials.tsv`; and `best.yaml`.
        console: console to print to; None prints nothing.

    Returns:
        The study. `user_attrs["values"]` of a trial has the metric of each run, `(logs, seeds)`.

    Raises:
        UserError: the data are unsuitable, `out` contains other files or is being written by
            another process, `trials.db` cannot be written or read, or every trial failed.
    """
    for setting in search.settings:
        check_start_vectors(search.trial_config(setting).start.vectors)
    for log, setting in product(map(Preprocessed, data), search.settings):
        config = search.trial_config(setting)
        if not log.nonempty_splits:
            if not validation_title_queries(log):
                raise UserError(
                    f"{log.directory} has nothing to compare settings on: it has no clicks, and no "
                    "title with three different words to make a validation query of."
                )
        elif not (config.training.folds or log.count("validation")):
            raise UserError(
                f"{log.directory} contains no validation records; preprocess with a larger "
                "--validation-fraction, or --set training.folds=5."
            )
        check_data(resolve_files(config).negatives, config.training, log, config.lists)
        log.check_letter_ngrams(config.letter_ngrams)
        config.optimizer.check()
    check_replaceable(out, (STUDY, "*"))
    out.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(out), _database_errors(out / STUDY):
        study = _study(search, data, out)
        queued = len(study.get_trials(states=[TrialState.WAITING]))
        missing = (search.random or search.tpe or 0) - len(_finished_trials(study))
        for _ in range(max(queued, missing)):
            # The seed depends on the number of trials that ended, so a search that was killed draws
            # the settings that it would have drawn without the kill.
            seeds = np.random.SeedSequence([search.seed, len(_ended_trials(study))])
            sampler = TPESampler if search.tpe else RandomSampler
            study.sampler = sampler(seed=int(seeds.generate_state(1)[0]))
            trial = study.ask(search.space)
            if console:
                settings = " ".join(format_settings(trial.params))
                say(f"trial {trial.number}: {settings}", to=console.file)
            try:
                study.tell(trial, _train(trial, search, data, out, console is None))
            except optuna.TrialPruned:
                study.tell(trial, state=TrialState.PRUNED)
            except (MemoryError, OSError, *_DATABASE_ERRORS):  # not caused by the setting
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {error}".removeprefix("UserError: ")
                trial.set_user_attr("reason", " ".join(reason.split()))
                study.tell(trial, state=TrialState.FAIL)
            finally:
                # Otherwise Keras's global state would grow with every trial.
                keras.utils.clear_session()
        lines = _report(study, search, data, out)
        if console:
            say(*lines, to=console.file)
    return study


@contextmanager
def _database_errors(path: Path) -> Iterator[None]:
    """Raises UserError instead of the errors of a database that cannot be written or read."""
    try:
        yield
    except _DATABASE_ERRORS as error:
        cause = error.__cause__ or error  # of SQLite, as `disk I/O error`
        raise UserError(
            f"{path} cannot be written or read: {cause}. Free disk space and run the same command "
            "again. If the file is damaged, choose another --out."
        ) from error


def _study(search: Search, data: Sequence[Path], out: Path) -> optuna.Study:
    """Creates or resumes the study of this search, these data and these package versions.

    Queues the settings of a grid, and interrupted and failed trials.
    """
    study = optuna.create_study(
        study_name=digest(
            search, resolve_files(search.build_config()).dump(), *map(_fingerprint, data)
        ),
        storage=f"sqlite:///{out / STUDY}",
        load_if_exists=True,
        direction="maximize",
        pruner=MedianPruner() if search.prune else NopPruner(),
    )
    retried = [trial for trial in _finished_trials(study) if trial.state == TrialState.FAIL]
    for trial in study.get_trials(states=[TrialState.RUNNING]):
        study.tell(trial.number, state=TrialState.FAIL)
        retried.append(trial)
    for trial in retried:
        study.enqueue_trial(trial.system_attrs.get("fixed_params", trial.params))
    for setting in [] if search.random or search.tpe else search.settings:
        study.enqueue_trial(setting, skip_if_exists=True)
    return study


def _finished_trials(study: optuna.Study) -> list[FrozenTrial]:
    """The last completed, pruned or failed trial of each setting."""
    return list({str(trial.params): trial for trial in _ended_trials(study)}.values())


def _ended_trials(study: optuna.Study) -> list[FrozenTrial]:
    """All completed, pruned and failed trials, without interrupted ones."""
    return [
        trial
        for trial in study.trials
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) or "reason" in trial.user_attrs
    ]


def _train(trial: Trial, search: Search, data: Sequence[Path], out: Path, quiet: bool) -> float:
    """Trains a setting on each log with each seed.

    Returns:
        The mean over seeds of the geometric mean over logs of the metric. With the geometric mean,
        a log with hard queries, and thus low values, has as much influence as the others.
    """
    config, metric = resolve_files(search.trial_config(trial.params)), search.metric
    results: dict[str, Result] = {}
    for log, seed in product(data, range(search.seeds)):
        training = config.training.model_copy(update={"seed": config.training.seed + seed})
        seeded = config.model_copy(update={"training": training})
        run = f"trials/{digest(seeded.dump(), _fingerprint(log))}"
        # Only the first training run of each trial is compared with other trials.
        prune = [PruneTrial(trial, metric)] if search.prune and not results else []
        results[run] = train(seeded, log, out / run, quiet=quiet, callbacks=prune)
    values = [result.metrics[metric] for result in results.values()]
    trial.set_user_attr("values", np.reshape(values, (len(data), -1)).tolist())
    trial.set_user_attr("queries", min(result.metrics["queries"] for result in results.values()))
    trial.set_user_attr("runs", " ".join(results))
    return float(_by_seed(trial).mean())


class PruneTrial(keras.callbacks.Callback):
    """Reports the validation metric of each epoch to Optuna, and stops the trial if pruned.

    Epochs without a validation are not reported. Those of several phases, such as the trainings
    from several starts, are numbered consecutively.

    Args:
        trial: the trial.
        metric: name of the metric in the logs.
    """

    def __init__(self, trial: Trial, metric: str) -> None:
        super().__init__()
        self._trial = trial
        self._metric = metric
        self._earlier_epochs = self._last = 0

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Begins a phase."""
        del logs
        self._earlier_epochs = self._last

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Reports the metric.

        Raises:
            optuna.TrialPruned: the trial is worse than the others.
        """
        if self._metric not in (logs or {}):
            return
        self._last = self._earlier_epochs + epoch + 1
        self._trial.report((logs or {})[self._metric], self._last)
        if self._trial.should_prune():
            raise optuna.TrialPruned


def _by_seed(trial: Trial | FrozenTrial) -> NDArray[np.float64]:
    """Geometric mean of the metric over logs, per seed, `(seeds,)`."""
    return np.asarray(stats.gmean(trial.user_attrs["values"], axis=0))


def _fingerprint(log: Path) -> str:
    return sha256_of(log / SPEC)


def _report(study: optuna.Study, search: Search, data: Sequence[Path], out: Path) -> list[str]:
    """Writes `trials.tsv`, best first, and `best.yaml`; returns its comments for printing."""
    trials = _sort_trials(_finished_trials(study), search)
    index_of = {trial.number: index for index, trial in enumerate(trials)}
    trials.sort(key=lambda trial: (trial.state.value, -(trial.value or 0.0)))
    completed = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    rows = []
    for trial in trials:
        settings = [setting.partition("=")[2] for setting in format_settings(trial.params)]
        values = [*trial.user_attrs["values"], _by_seed(trial)] if trial in completed else []
        cells = [*map(_mean_and_deviation, values), *[""] * (len(data) + 1 - len(values))]
        state = trial.user_attrs.get("reason", trial.state.name.lower())
        rows.append(
            [
                str(index_of[trial.number]),
                *settings,
                *cells,
                state,
                trial.user_attrs.get("runs", ""),
            ]
        )
    header = ["trial", *search.space, *(path.name for path in data), search.metric, "state", "runs"]
    write_table(out / "trials.tsv", header, rows)
    if not completed:
        reason = rows[0][-2].rstrip(".")
        raise UserError(
            f"all {len(rows)} trials failed, the first because: {reason}. Fix the cause and run "
            "the same command again."
        )
    best, count = completed[0], len(completed)
    comments = [
        f"Chosen by validation {search.metric} from {count} trials; {len(rows) - count} "
        f"failed or were pruned. {search.metric} {_mean_and_deviation(_by_seed(best))}:",
        *(f"  {setting}" for setting in format_settings(best.params)),
        *small_sample_warning(
            "The trial, its epoch and its log-prior are chosen on",
            best.user_attrs["queries"],
            "" if any(map(_has_clicks, data)) else FROM_TITLES,
        ),
        f"Tried:      {' '.join(search.grid)}; {search.seeds} seeds on {', '.join(map(str, data))}",
        *search.edge_warnings(best.params),
        *(
            [f"Trials had {' '.join(search.trial_overrides)}, which are not in this file."]
            if search.trial_overrides
            else []
        ),
        f"Command:    dssm train --config {out}/best.yaml --data DATA --out RUN",
    ]
    with atomic_write(out / "best.yaml") as file:
        file.writelines(f"# {line}\n" for line in comments)
        file.write(resolve_files(search.best_config(best.params)).dump())
    return comments


def _sort_trials(trials: Sequence[FrozenTrial], search: Search) -> list[FrozenTrial]:
    """Trials in the order in which a search without interruption runs them.

    A setting whose training was interrupted has a new trial, so Optuna's numbers differ. The trials
    of an earlier grid come first.
    """
    if search.random or search.tpe:
        return [*trials]
    indices = {str(setting): index for index, setting in enumerate(search.settings)}
    return sorted(trials, key=lambda trial: (indices.get(str(trial.params), -1), trial.number))


def _has_clicks(directory: Path) -> bool:
    """Whether a preprocessed directory has pairs of a query and a clicked title."""
    return Spec.load(directory).count("train", "validation") > 0


def _mean_and_deviation(values: Sequence[float] | NDArray[np.float64]) -> str:
    """Formats the mean over seeds and the standard deviation."""
    deviation = f" ±{np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{deviation}"
