"""What a tuning leaves behind: the table of its trials and the chosen configuration."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from dssm_tf.common.files import atomic_write
from dssm_tf.common.terminal import note, print_table
from dssm_tf.config import Config, Refit
from dssm_tf.evaluation.intervals import caution, interval
from dssm_tf.training.validation import with_intervals
from dssm_tf.tuning.plan import Plan, show
from dssm_tf.tuning.trials import Outcome, TrialRun

_BEST = "best.yaml"
_MEASURES = ("ndcg@1", "ndcg@3", "ndcg@10", "loss")


@dataclass
class Row:
    """A trial and what became of it."""

    run: TrialRun
    outcome: Outcome


@dataclass
class Tuning:
    """The trials of a plan on some data.

    Args:
        plan: what is tried.
        data: directory preprocess wrote.
        out: where everything is written.
        fingerprint: of the data.
        rows: a trial each, in the plan's order.
    """

    plan: Plan
    data: Path
    out: Path
    fingerprint: str
    rows: list[Row]

    def value(self, row: Row) -> float:
        """The metric of a finished trial."""
        return row.outcome.validation[self.plan.metric]

    @property
    def ranked(self) -> list[Row]:
        """The finished trials, best first; of equals, the earlier one."""
        finished = [row for row in self.rows if row.outcome.status == "finished"]
        sign = 1 if self.plan.metric == "loss" else -1
        return sorted(finished, key=lambda row: sign * self.value(row))

    @property
    def best(self) -> Row | None:
        """The best finished trial, if there is one."""
        return next(iter(self.ranked), None)

    def number(self, row: Row) -> int:
        """Where a row stands in the plan, from 1."""
        return next(i for i, one in enumerate(self.rows, 1) if one is row)

    def summary(self, row: Row) -> str:
        """A finished trial in a few words."""
        return f"{self.plan.metric} {self.value(row):.4f} (trial {self.number(row)})"

    @property
    def cautions(self) -> list[str]:
        """What is said where the trials are compared on few queries."""
        best = self.best
        few = "The best trial, its epoch and its log-prior are chosen on"
        return [] if best is None else caution(few, best.outcome.validation["queries"])

    @property
    def training_command(self) -> str:
        """The command that trains the chosen configuration."""
        words = ["--config", str(self.out / _BEST), "--data", str(self.data), "--out", "RUN"]
        return shlex.join(["dssm", "train", *words])


def write_trials(tuning: Tuning) -> None:
    """Writes `trials.json` and `trials.tsv`, also while trials are still waiting."""
    best = tuning.best
    request = asdict(tuning.plan.request)
    rows = [_row(tuning, row) for row in tuning.rows]
    summary = {
        "command": tuning.plan.request.command(tuning.data, tuning.out),
        "request": request,
        "data": str(tuning.data),
        "data_sha256": tuning.fingerprint,
        "metric": tuning.plan.metric,
        "best": tuning.number(best) if best else None,
        "trials": rows,
    }
    with atomic_write(tuning.out / "trials.json") as file:
        json.dump(summary, file, indent=2)
        file.write("\n")
    keys = list(tuning.rows[0].run.trial.settings)
    columns = ["trial", "status", *keys, *_MEASURES, "epochs", "best_epoch", "prior_weight"]
    columns += ["seconds", "run", "reason"]
    with atomic_write(tuning.out / "trials.tsv") as file:
        file.write("\t".join(columns) + "\n")
        for row in rows:
            flat = row | row["settings"] | row["validation"]
            file.write("\t".join(_cell(flat.get(name)) for name in columns) + "\n")


def _row(tuning: Tuning, row: Row) -> dict[str, Any]:
    return {
        "trial": tuning.number(row),
        "settings": dict(row.run.trial.settings),
        **asdict(row.outcome),
        "run": str(row.run.directory.relative_to(tuning.out)),
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
    outcome, config = best.outcome, best.run.trial.config
    finished = len(tuning.ranked)
    failed = len(tuning.rows) - finished
    values = with_intervals(outcome.validation)
    lines = [
        f"Chosen by validation {tuning.plan.metric} from {finished} trials"
        + (f" ({failed} more failed):" if failed else ":"),
        f"  {best.run.trial}",
        "",
        f"Validation: {values}, loss {outcome.validation['loss']:.4f},",
        f"            with {outcome.prior_weight:g} x log-prior of titles, after "
        f"{outcome.best_epoch} of {outcome.epochs} epochs, not refitted.",
        *tuning.cautions,
        f"Tuned by:   {tuning.plan.request.command(tuning.data, tuning.out)}",
        f"Command:    {tuning.training_command}",
    ]
    with atomic_write(tuning.out / _BEST) as file:
        file.writelines(f"# {line}".rstrip() + "\n" for line in lines)
        file.write(_with_refit(config, tuning.plan.refit).dump())


def _with_refit(config: Config, refit: Refit) -> Config:
    training = config.training.model_copy(update={"refit": refit})
    return config.model_copy(update={"training": training})


def print_trials(console: Console | None, tuning: Tuning) -> None:
    """Prints why trials failed, then the table of all, best first."""
    if console is None:
        return
    keys = list(tuning.rows[0].run.trial.settings)
    failed = [row for row in tuning.rows if row.outcome.status == "failed"]
    say(console, "")
    for line in tuning.cautions:
        note(console, line, "yellow")
    for row in failed:
        note(console, f"trial {tuning.number(row)} failed: {row.outcome.reason}")
    if failed:
        note(console, "failed trials are left alone the next time; --retry-failed tries them again")
    measures = [
        Text(name, style="bold" if measure == tuning.plan.metric else "")
        for measure, name in zip(_MEASURES, ("NDCG@1", "@3", "@10", "loss"), strict=True)
    ]
    rows = []
    for row in tuning.ranked:
        outcome = row.outcome
        seconds = "" if outcome.seconds is None else f"{outcome.seconds:.0f}"
        rows.append(
            [
                *_named(tuning, row, keys),
                *(_shown(outcome.validation, name) for name in _MEASURES),
                f"{outcome.best_epoch}/{outcome.epochs}",
                seconds,
            ]
        )
    styles = ["green" if row is tuning.best else "" for row in tuning.ranked]
    blank = [""] * (len(_MEASURES) + 1)
    rows += [[*_named(tuning, row, keys), "failed", *blank] for row in failed]
    say(console, f"{len(tuning.rows)} trials by validation {tuning.plan.metric}")
    heads = ["trial", *map(Text, _short(keys)), *measures, "epoch", "s"]
    print_table(console, heads, rows, [*styles, *["red"] * len(failed)])


def _named(tuning: Tuning, row: Row, keys: Sequence[str]) -> list[str | Text]:
    """The first cells of a trial: its number and its settings."""
    settings = row.run.trial.settings
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
