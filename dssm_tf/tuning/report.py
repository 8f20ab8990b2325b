"""What a tuning leaves behind: the table of its trials and the chosen configuration."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text
from scipy import stats

from dssm_tf.common.files import atomic_write
from dssm_tf.common.terminal import note, print_table
from dssm_tf.config import Config, Refit
from dssm_tf.evaluation.intervals import caution, interval
from dssm_tf.training.validation import with_intervals
from dssm_tf.tuning.plan import Plan, Trial, show
from dssm_tf.tuning.trials import Outcome, TrialRun

_BEST = "best.yaml"
_MEASURES = ("ndcg@1", "ndcg@3", "ndcg@10", "loss")
_SURE = 0.05


@dataclass
class Row:
    """A trial and what became of it.

    Args:
        trial: the setting.
        runs: its trainings: on the first log one a seed, then on the next.
        outcomes: of the runs, read from their directories if not given.
    """

    trial: Trial
    runs: Sequence[TrialRun]
    outcomes: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Reads what became of the runs."""
        self.outcomes = self.outcomes or [run.outcome() for run in self.runs]

    @property
    def outcome(self) -> Outcome:
        """Of the only run; of several, the means of finished ones, else why they are not."""
        if len(self.outcomes) == 1:
            return self.outcomes[0]
        for status in ("failed", "waiting"):
            if found := [one for one in self.outcomes if one.status == status]:
                return found[0]
        names = self.outcomes[0].validation
        means = {name: fmean(one.validation[name] for one in self.outcomes) for name in names}
        plain = {name: value for name, value in means.items() if " " not in name}
        plain["queries"] = min(one.validation["queries"] for one in self.outcomes)
        return Outcome("finished", plain, seconds=sum(one.seconds or 0 for one in self.outcomes))


@dataclass
class Tuning:
    """The trials of a plan on some data.

    Args:
        plan: what is tried.
        data: directories preprocess wrote.
        out: where everything is written.
        fingerprints: of the data.
        rows: a trial each, in the plan's order.
    """

    plan: Plan
    data: Sequence[Path]
    out: Path
    fingerprints: Sequence[str]
    rows: list[Row]

    @property
    def names(self) -> list[str]:
        """What tables call the logs: their directories' names, where they tell them apart."""
        last = [path.name for path in self.data]
        return last if len(set(last)) == len(last) else [str(path) for path in self.data]

    def values(self, row: Row) -> NDArray[np.float64]:
        """The metric of a finished trial, `(logs, seeds)`."""
        found = [outcome.validation[self.plan.metric] for outcome in row.outcomes]
        return np.array(found).reshape(len(self.data), -1)

    def by_seed(self, row: Row) -> NDArray[np.float64]:
        """What a finished trial is compared by, of each seed, `(seeds,)`.

        The metric; of several logs, the mean over them of the metric as a share of the best mean
        that any trial has on that log, so that a log of hard queries counts as much as others.
        """
        values = self.values(row)
        if len(self.data) == 1:
            return values[0]
        means = np.array([self.values(one).mean(axis=1) for one in self._finished])
        best = means.min(axis=0) if self.plan.metric == "loss" else means.max(axis=0)
        shares: NDArray[np.float64] = (values / np.where(best == 0, 1, best)[:, None]).mean(axis=0)
        return shares

    def value(self, row: Row) -> float:
        """The mean of `by_seed`."""
        return float(self.by_seed(row).mean())

    @property
    def measure(self) -> str:
        """What `value` is."""
        metric = self.plan.metric
        return metric if len(self.data) == 1 else f"mean share of the best {metric}"

    @property
    def alike(self) -> list[Row]:
        """Trials that the seeds do not tell from the best one: Welch's t-test, p of .05 or more."""
        best = self.best
        if best is None or self.plan.request.seeds == 1:
            return []
        own = self.by_seed(best)
        return [
            row for row in self.ranked
            if row is not best and not _differ(own, self.by_seed(row))
        ]  # fmt: skip

    @property
    def _finished(self) -> list[Row]:
        return [row for row in self.rows if row.outcome.status == "finished"]

    @property
    def ranked(self) -> list[Row]:
        """The finished trials, best first; of equals, the earlier one."""
        sign = 1 if self.plan.metric == "loss" else -1
        return sorted(self._finished, key=lambda row: sign * self.value(row))

    @property
    def best(self) -> Row | None:
        """The best finished trial, if there is one."""
        return next(iter(self.ranked), None)

    def number(self, row: Row) -> int:
        """Where a row stands in the plan, from 1."""
        return next(i for i, one in enumerate(self.rows, 1) if one is row)

    def summary(self, row: Row) -> str:
        """A finished trial in a few words."""
        return f"{self.measure} {self.value(row):.4f} (trial {self.number(row)})"

    @property
    def cautions(self) -> list[str]:
        """What is said where trials are compared on few queries, or hardly differ."""
        if (best := self.best) is None:
            return []
        few = "The best trial, its epoch and its log-prior are chosen on"
        found = caution(few, best.outcome.validation["queries"])
        if alike := self.alike:
            which = "Trial" if len(alike) == 1 else "Trials"
            numbers = ", ".join(str(self.number(row)) for row in alike)
            found.append(
                f"{which} {numbers}: not told from the best one by {self.plan.request.seeds} seeds "
                "(t-test, p of .05 or more); such a difference is no reason to choose."
            )
        return found

    @property
    def training_command(self) -> str:
        """The command that trains the chosen configuration."""
        data = str(self.data[0]) if len(self.data) == 1 else "DATA"
        words = ["--config", str(self.out / _BEST), "--data", data, "--out", "RUN"]
        return shlex.join(["dssm", "train", *words])


def _differ(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    """Whether seeds tell two trials apart; without any spread, whether they differ at all."""
    if first.std() == second.std() == 0:
        return bool(first[0] != second[0])
    return bool(stats.ttest_ind(first, second, equal_var=False).pvalue < _SURE)


def write_trials(tuning: Tuning) -> None:
    """Writes `trials.json` and `trials.tsv`, also while trials are still waiting."""
    best = tuning.best
    request = asdict(tuning.plan.request)
    rows = [_row(tuning, row) for row in tuning.rows]
    summary = {
        "command": tuning.plan.request.command(tuning.data, tuning.out),
        "request": request,
        "data": [str(path) for path in tuning.data],
        "data_sha256": list(tuning.fingerprints),
        "metric": tuning.plan.metric,
        "best": tuning.number(best) if best else None,
        "trials": rows,
    }
    with atomic_write(tuning.out / "trials.json") as file:
        json.dump(summary, file, indent=2)
        file.write("\n")
    keys = list(tuning.rows[0].trial.settings)
    columns = ["trial", "status", "data", "seed", *keys, *_MEASURES, "epochs", "best_epoch"]
    columns += ["prior_weight", "seconds", "run", "reason"]
    with atomic_write(tuning.out / "trials.tsv") as file:
        file.write("\t".join(columns) + "\n")
        for row in rows:
            for run in row["runs"]:
                flat = row | row["settings"] | run | run["validation"]
                file.write("\t".join(_cell(flat.get(name)) for name in columns) + "\n")


def _row(tuning: Tuning, row: Row) -> dict[str, Any]:
    runs = [
        {
            "data": str(run.data),
            "seed": run.trial.config.training.seed,
            **asdict(outcome),
            "run": str(run.directory.relative_to(tuning.out)),
        }
        for run, outcome in zip(row.runs, row.outcomes, strict=True)
    ]
    finished = row.outcome.status == "finished"
    return {
        "trial": tuning.number(row),
        "settings": dict(row.trial.settings),
        "status": row.outcome.status,
        "reason": row.outcome.reason,
        "value": tuning.value(row) if finished else None,
        "runs": runs,
    }


def _cell(value: Any) -> str:
    """A value without tab or line break; nothing for None."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return " ".join(text.split())


def write_best(tuning: Tuning) -> None:
    """Writes `best.yaml`: the chosen configuration, headed by how it was chosen."""
    best = tuning.best
    if best is None:
        return
    finished = len(tuning.ranked)
    failed = len(tuning.rows) - finished
    lines = [
        f"Chosen by validation {tuning.measure} from {finished} trials"
        + (f" ({failed} more failed):" if failed else ":"),
        f"  {best.trial}",
        "",
        *_measured(tuning, best),
        *tuning.cautions,
        f"Tuned by:   {tuning.plan.request.command(tuning.data, tuning.out)}",
        f"Command:    {tuning.training_command}",
    ]
    with atomic_write(tuning.out / _BEST) as file:
        file.writelines(f"# {line}".rstrip() + "\n" for line in lines)
        file.write(_with_refit(best.trial.config, tuning.plan.refit).dump())


def _measured(tuning: Tuning, row: Row) -> list[str]:
    """What the head of the chosen configuration says of its validation."""
    folds = row.trial.config.training.folds
    how = f"over {folds} folds" if folds else "not refitted"
    if len(row.runs) == 1:
        outcome = row.outcome
        return [
            f"Validation: {with_intervals(outcome.validation)}, "
            f"loss {outcome.validation['loss']:.4f},",
            f"            with {outcome.prior_weight:g} x log-prior of titles, after "
            f"{outcome.best_epoch} of {outcome.epochs} epochs, {how}.",
        ]
    lines = [
        f"  {name}: {tuning.plan.metric} {_spread(values)}"
        for name, values in zip(tuning.names, tuning.values(row), strict=True)
    ]
    seeds = tuning.plan.request.seeds
    return [f"Validation, mean and deviation over {seeds} seeds, {how}:", *lines]


def _with_refit(config: Config, refit: Refit) -> Config:
    training = config.training.model_copy(update={"refit": refit})
    return config.model_copy(update={"training": training})


def print_trials(console: Console | None, tuning: Tuning) -> None:
    """Prints why trials failed, then the table of all, best first."""
    if console is None:
        return
    keys = list(tuning.rows[0].trial.settings)
    failed = [row for row in tuning.rows if row.outcome.status == "failed"]
    say(console, "")
    for line in tuning.cautions:
        note(console, line, "yellow")
    for row in failed:
        note(console, f"trial {tuning.number(row)} failed: {row.outcome.reason}")
    if failed:
        note(console, "failed trials are left alone the next time; --retry-failed tries them again")
    several = len(tuning.rows[0].runs) > 1
    heads, cells = (_of_several if several else _of_one)(tuning)
    rows = [[*_named(tuning, row, keys), *cells(row)] for row in tuning.ranked]
    styles = ["green" if row is tuning.best else "" for row in tuning.ranked]
    blank = [""] * (len(heads) - 1)
    rows += [[*_named(tuning, row, keys), "failed", *blank] for row in failed]
    say(console, f"{len(tuning.rows)} trials by validation {tuning.measure}")
    names: list[str | Text] = ["trial", *map(Text, _short(keys)), *heads]
    print_table(console, names, rows, [*styles, *["red"] * len(failed)])


Cells = Callable[[Row], list[str]]


def _of_one(tuning: Tuning) -> tuple[list[Text], Cells]:
    """Columns of trials of one training each."""
    shown = zip(_MEASURES, ("NDCG@1", "@3", "@10", "loss"), strict=True)
    heads = [Text(name, style="bold" if one == tuning.plan.metric else "") for one, name in shown]

    def cells(row: Row) -> list[str]:
        outcome = row.outcome
        return [
            *(_shown(outcome.validation, name) for name in _MEASURES),
            f"{outcome.best_epoch}/{outcome.epochs}",
            _seconds(outcome),
        ]

    return [*heads, Text("epoch"), Text("s")], cells


def _of_several(tuning: Tuning) -> tuple[list[Text], Cells]:
    """Columns of trials of several trainings: the metric on each log, and what compares them."""
    logs = [Text(f"{name}\n{tuning.plan.metric}") for name in tuning.names]
    compared = [Text("share of\nthe best", style="bold")] if len(logs) > 1 else []

    def cells(row: Row) -> list[str]:
        share = [_spread(tuning.by_seed(row))] if compared else []
        return [*map(_spread, tuning.values(row)), *share, _seconds(row.outcome)]

    return [*logs, *compared, Text("s")], cells


def _spread(values: NDArray[np.float64]) -> str:
    """A mean over seeds and its standard deviation."""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{values.mean():.4f} ±{values.std(ddof=1):.4f}"


def _seconds(outcome: Outcome) -> str:
    return "" if outcome.seconds is None else f"{outcome.seconds:.0f}"


def _named(tuning: Tuning, row: Row, keys: Sequence[str]) -> list[str | Text]:
    """The first cells of a trial: its number and its settings."""
    settings = row.trial.settings
    return [str(tuning.number(row)), *(Text(show(settings[key])) for key in keys)]


def _shown(validation: Mapping[str, float], name: str) -> str:
    """A figure, over its 95 % interval where it is a mean over queries."""
    if f"low {name}" not in validation:
        return f"{validation[name]:.4f}"
    ends = interval(validation[f"low {name}"], validation[f"high {name}"])
    return f"{validation[name]:.4f}\n[dim not bold]{ends}[/]"


def _short(keys: list[str]) -> list[str]:
    """The last parts of keys, where they tell them apart."""
    last = [key.rpartition(".")[2] for key in keys]
    return [one if last.count(one) == 1 else key for one, key in zip(last, keys, strict=True)]


def say(console: Console | None, line: str, style: str | None = None) -> None:
    """Prints a line as it is, brackets and all."""
    if console is not None:
        console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)
