"""Trains the trials of a plan one after the other and keeps the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import alone
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.graded.sources import pinned
from dssm_tf.training.devices import read_cluster
from dssm_tf.training.train import check_settings
from dssm_tf.tuning.plan import Plan
from dssm_tf.tuning.report import Row, Tuning, print_trials, say, write_best, write_trials
from dssm_tf.tuning.trials import TRIALS, TrialRun, data_fingerprint

_MARK = ".dssm-tune"


def tune(
    plan: Plan,
    data: Path | str | Sequence[Path | str],
    out: Path | str,
    *,
    retry_failed: bool = False,
    console: Console | None = None,
) -> Tuning:
    """Runs a plan's trials and writes the configuration of the best.

    Called again, after a kill at any moment or with another plan, it keeps what is finished, goes
    on with an unfinished trial at its last finished epoch, and runs what is new.

    Args:
        plan: see `make_plan`.
        data: directory that preprocess wrote, with validation records; or several, on all of
            which each setting is tried.
        out: gets `trials/`, `trials.json`, `trials.tsv` and `best.yaml`. Nothing in it is removed.
        retry_failed: tries the trials that failed before again.
        console: where to print; None is silent.

    Returns:
        The trials with what became of them, in the plan's order.

    Raises:
        UserError: the data do not suit, `out` holds something else, is being written or was
            removed, or every trial failed.
    """
    logs = [Path(one) for one in ([data] if isinstance(data, (str, Path)) else data)]
    out = Path(out)
    if read_cluster()[1] > 1:
        raise UserError(
            "dssm tune runs on one machine, but TF_CONFIG names several; unset it, or give each "
            "machine trials and an --out of its own."
        )
    for log in logs:
        _check(plan, Preprocessed(log))
    fingerprints = [data_fingerprint(log) for log in logs]
    if len(set(fingerprints)) < len(logs):
        raise UserError(f"--data {' '.join(map(str, logs))}: two of them hold the same records.")
    # What a run is tied to belongs to what is compared with the run.
    trials = [replace(trial, config=pinned(trial.config)) for trial in plan.trials]
    with alone(out):
        _start(out)
        tuning = Tuning(plan, logs, out, fingerprints, [
            Row(trial, [
                TrialRun(trial.seeded(seed), log, fingerprint, out / TRIALS)
                for log, fingerprint in zip(logs, fingerprints, strict=True)
                for seed in range(plan.request.seeds)
            ])
            for trial in trials
        ])  # fmt: skip
        write_trials(tuning)
        wanted = ("waiting", "failed") if retry_failed else ("waiting",)
        todo = [row for row in tuning.rows if row.outcome.status in wanted]
        if kept := len(tuning.rows) - len(todo):
            say(console, f"{kept} of {len(tuning.rows)} trials were done before and are kept")
        started = monotonic()
        for done, row in enumerate(todo):
            left = (monotonic() - started) / done * (len(todo) - done) if done else None
            _announce(console, tuning, row, left)
            for place, run in enumerate(row.runs):
                if row.outcomes[place].status not in wanted:
                    continue
                if len(row.runs) > 1:
                    seed = run.trial.config.training.seed
                    say(console, f"{tuning.names[place // plan.request.seeds]}, seed {seed}")
                row.outcomes[place] = run.run(quiet=console is None)
                write_trials(tuning)
                if row.outcomes[place].status == "failed":
                    break  # a setting that fails once is no choice
            _conclude(console, tuning, row)
        print_trials(console, tuning)
        if not (out / _MARK).exists():
            raise UserError(f"{out} was removed while it was tuned; start again.")
        best = tuning.best
        if best is None:
            reason = tuning.rows[0].outcome.reason
            raise UserError(
                f"all {len(tuning.rows)} trials failed, the first because: {reason} "
                "When the cause is mended, add --retry-failed."
            )
        write_best(tuning)
        say(console, f"{out / 'best.yaml'}: {best.trial}")
        say(console, f"next: {tuning.training_command}")
        return tuning


def _check(plan: Plan, data: Preprocessed) -> None:
    """Raises UserError on what training would refuse in each trial, or in one of them."""
    folds = plan.trials[0].config.training.folds  # the same in all
    for split in ("train",) if folds else ("train", "validation"):
        if not data.count(split):
            raise UserError(
                f"{data.directory} holds no {split} records, and tuning needs them; preprocess "
                "a longer log, or with a larger share for validation, or --set training.folds=5."
            )
    for trial in plan.trials:
        check_settings(trial.config, data)


def _start(out: Path) -> None:
    """Makes the directory, or checks that an earlier tuning made it."""
    names = [path.name for path in out.iterdir()] if out.is_dir() else []
    foreign = _MARK not in names and any(name[0] != "." for name in names)
    if out.is_file() or foreign:
        raise UserError(f"{out} holds something that `dssm tune` did not make; choose another.")
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).touch()
    (out / TRIALS).mkdir(exist_ok=True)


def _announce(console: Console | None, tuning: Tuning, row: Row, left: float | None) -> None:
    """Says which trial starts, what is best so far, and how many seconds may be left."""
    parts = [f"trial {tuning.number(row)}/{len(tuning.rows)}  {row.trial}"]
    if tuning.best is not None:
        parts.append(f"best so far {tuning.summary(tuning.best)}")
    if left is not None:
        parts.append(f"about {left / 60:.0f} min left" if left > 90 else f"about {left:.0f} s left")
    say(console, " · ".join(parts), style="bold")


def _conclude(console: Console | None, tuning: Tuning, row: Row) -> None:
    number = tuning.number(row)
    if row.outcome.status == "failed":
        say(console, f"trial {number} failed: {row.outcome.reason}", style="red")
    else:
        mark = ", the best so far" if row is tuning.best else ""
        say(console, f"trial {number}: {tuning.measure} {tuning.value(row):.4f}{mark}")
