"""A training from start to finish: check, fit, weigh the prior, fit again on all records, write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from time import monotonic

from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import alone
from dssm_tf.config import Config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.intervals import caution
from dssm_tf.graded.sources import SOURCES, Source, pinned
from dssm_tf.model.prior import TitlePrior
from dssm_tf.training.devices import Devices
from dssm_tf.training.fitting import Fitting, Told
from dssm_tf.training.folds import choose_by_folds
from dssm_tf.training.optimizers import check_optimizer
from dssm_tf.training.run_directory import Result, finish_run, finished_before, start_run
from dssm_tf.training.validation import ValidationTask, encoded, weigh_prior
from dssm_tf.training.warm_start import WarmStart


def train(
    config: Config,
    directory: Path | str,
    out: Path | str,
    *,
    start: Path | str | None = None,
    quiet: bool = False,
    told: Told | None = None,
) -> Result:
    """Trains a model and writes the run's directory.

    A run that was interrupted, at any moment, resumes when called again with the same
    arguments, to the same result: on the same machine and devices to the bit. A finished one
    stays as it is.

    Args:
        config: the model and how to train it.
        directory: what preprocess wrote.
        out: the run: configuration, vocabulary, weights, history, versions, model card.
        start: an earlier run whose weights, vocabulary and clicks of titles this one goes on from;
            see `WarmStart`.
        quiet: no progress on the terminal.
        told: see `Told`.

    Raises:
        UserError: data, configuration or `start` are unusable or do not suit each other, `out` is
            of others or being written, or the model does not learn, see `Keeper`.
    """
    started, out, devices = monotonic(), Path(out), Devices.choose()
    config, data = settled(config, Preprocessed(Path(directory)))
    check_settings(config, data)
    check_optimizer(config.optimizer)
    check_devices(config, devices)
    begun = None if start is None else WarmStart.load(start, config, data)
    if config.training.folds and (begun or config.lists):
        raise UserError(
            "training.folds is for a log learned from scratch; leave it out with --from, "
            "--judgments and --teacher."
        )
    console = Console(quiet=quiet or not devices.chief, highlight=False, soft_wrap=True)
    # Of several machines the first one writes.
    with alone(out) if devices.chief else nullcontext():
        if (earlier := finished_before(config, data, out, begun)) is not None:
            return earlier

        def fitted_to(config: Config, data: Preprocessed, out: Path) -> Fitting:
            first = None if begun is None else begun.weights
            return Fitting(config, data, out, devices, console.quiet, told, first)

        fitting = fitted_to(config, data, out)
        if devices.chief:
            start_run(config, data, out, begun)  # not before the model could be made
        task = None if config.training.folds else held_out(config, data, begun, fitting.sources)
        console.print(
            f"training {config.tower.name} on {data.count('train'):,} pairs of "
            f"{len(data.clicked):,} queries and {len(data.titles):,} titles: at most "
            f"{config.training.epochs} epochs of {fitting.steps:,} steps"
        )
        lines = [line for source in fitting.sources for line in source.said()]
        few = (
            []
            if task is None
            else caution(
                "The best epoch and the weight of the log-prior are chosen on", len(task.queries)
            )
        )
        for line in lines + few:
            style = "" if line.startswith(SOURCES) else "yellow"
            console.print(line, style=style, markup=False)
        every = f"all {data.count(*data.splits):,} records" + "".join(
            f" and {one.pairs:,} of {one.name}" for one in fitting.sources
        )
        if config.training.folds:
            result = choose_by_folds(config, data, fitted_to, console)
            best = f"best after {result.best_epoch} of {result.epochs} epochs"
            console.print(f"{best}; now as many on {every}")
            fitting.fit("fit", data.splits, result.best_epoch)
        else:
            untrained = {} if task is None else task.ndcg(encoded(fitting.encode, task))
            kept = fitting.fit("fit", ["train"], config.training.epochs, task)
            prior = TitlePrior(data.titles if begun is None else begun.titles, data.rules)
            weight, ndcg = weigh_prior(config, prior, task, fitting.encode)
            result = Result(
                len(kept.history),
                kept.best_epoch,
                kept.history,
                weight,
                ndcg,
                untrained=untrained,
            )
            if task is not None:
                result.validated = task.about
            if task is not None and config.training.refit:
                console.print(f"on from epoch {kept.best_epoch} with {every}")
                # Two thirds as many epochs, a share chosen in docs/results.md.
                epochs = math.ceil(kept.best_epoch * 2 / 3)
                fitting.fit("refit", data.splits, epochs, weights=kept.best)
                result.refitted = True
        result.start = None if start is None else str(start)
        result.learned_from(fitting.sources)
        result.seconds = monotonic() - started
        if devices.chief:
            finish_run(fitting.ranked, config, result, data, out, begun)
    return result


def held_out(
    config: Config,
    data: Preprocessed,
    begun: WarmStart | None,
    sources: Sequence[Source] = (),
) -> ValidationTask | None:
    """The validation queries: judged ones, else those of the log; None if there are none.

    With an earlier run, those that it does not know, if there are any: in
    the end a run may learn its own validation queries (`training.refit`), of which the most
    frequent ones are asked again today and say nothing of what was not learned.
    """
    known: frozenset[int] = frozenset() if begun is None else frozenset(begun.query_ids.tolist())
    limits = config.validation.queries, config.validation.titles
    judged = [one for source in sources if source.name == "judgments" for one in source.held_out]
    new = [one for one in judged if data.rules.id(one.query) not in known]
    if (task := ValidationTask.of_lists(new or judged, data.rules, limits[0])) is not None:
        return task
    if not data.count("validation"):
        return None
    unknown = ValidationTask.of(data, *limits, known)
    return unknown if unknown.queries else ValidationTask.of(data, *limits)


def settled(config: Config, data: Preprocessed) -> tuple[Config, Preprocessed]:
    """A configuration with what these data and its files settle, and the data as it reads them.

    That is the SHA-256 of each file of lists, rows for whole words, and the number for
    `loss.gamma: auto`. The more titles there are, the more of them nearly fit a query, and the
    steeper a softmax has to be to tell them apart: 10 up to 2,500 titles, 25 from 6,250 on, see
    docs/training.md.
    """
    config = pinned(config)
    if config.loss.arguments.get("gamma") == "auto":
        gamma = min(25.0, max(10.0, data.spec.count("titles") / 250))
        loss = config.loss.model_copy(update={"gamma": gamma})
        config = config.model_copy(update={"loss": loss})
    return config, data.with_whole_words() if config.whole_words else data


def check_settings(config: Config, data: Preprocessed) -> None:
    """Raises UserError if records or negatives are unusable.

    Args:
        config: the model and how to train it.
        data: what preprocess wrote.
    """
    if not data.count("train"):
        raise UserError(
            f"{data.directory} holds no training records; give preprocess a longer log."
        )
    negatives, recorded = config.negatives, data.spec.negatives
    if negatives.recorded > recorded:
        raise UserError(
            f"negatives.recorded: {negatives.recorded} asked for, {data.directory} holds "
            f"{recorded} a pair; run preprocess with --negatives {negatives.recorded}."
        )
    rivals = negatives.fresh or negatives.in_batch or negatives.mined
    if not (rivals or (data.parts["train"].titles[:, 1 : 1 + negatives.recorded] >= 0).any()):
        raise UserError(
            "negatives: recorded ones are 0 or missing, and there are no others: there is nothing "
            "to tell a click from. Set negatives.in_batch or negatives.fresh, or run preprocess "
            "with --negatives-from log."
        )


def check_devices(config: Config, devices: Devices) -> None:
    """Raises UserError if a batch cannot be shared by these devices.

    Args:
        config: the model and how to train it.
        devices: what trains.
    """
    sizes = {name: section.batch_size for name, section in config.lists.items()}
    for name, size in ({"training": config.training.batch_size} | sizes).items():
        if size % devices.parts:
            raise UserError(
                f"{name}.batch_size: {size} cannot be cut into {devices.parts} equal parts, one a "
                f"device; choose a multiple of {devices.parts}."
            )
