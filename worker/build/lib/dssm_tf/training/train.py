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
from dssm_tf.model.semantic_ranker import Encoder
from dssm_tf.training.devices import Devices
from dssm_tf.training.fitting import Fitting, Told
from dssm_tf.training.folds import choose_by_folds
from dssm_tf.training.optimizers import check_optimizer
from dssm_tf.training.result import Result
from dssm_tf.training.run_directory import finish_run, finished_before, start_run
from dssm_tf.training.search_settings import search_settings
from dssm_tf.training.validation import ValidationTask, encoded, ndcg_by_length
from dssm_tf.training.warm_start import WarmStart

_RESTS = "The best epoch and the weight of the log-prior are chosen on"
_MORE = "To choose on every query of the log, each held out once: --set training.folds=5"


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
    started = monotonic()
    data, out = Preprocessed(Path(directory)), Path(out)
    config, data = settled(config, data)
    devices = Devices.choose()
    check_settings(config, data)
    check_devices(config, devices)
    begun = None if start is None else WarmStart.load(start, config, data)
    if begun is not None and config.training.folds:
        raise UserError(
            "training.folds is for a log learned from scratch; leave it out with --from."
        )
    silent = quiet or not devices.chief
    # Of several machines the first one writes.
    with alone(out) if devices.chief else nullcontext():
        if (earlier := finished_before(config, data, out, begun)) is not None:
            return earlier
        first = None if begun is None else begun.weights

        def fitted_to(config: Config, data: Preprocessed, out: Path) -> Fitting:
            return Fitting(config, data, out, devices, quiet, told, first)

        fitting = fitted_to(config, data, out)
        if devices.chief:
            start_run(config, data, out, begun)  # not before the model could be made
        task = None
        if not config.training.folds:
            task = held_out(config, data, begun, fitting.sources)
        lines = [line for source in fitting.sources for line in source.said()]
        few = [] if task is None else caution(_RESTS, len(task.queries))
        lines += few + [_MORE for _ in few if begun is None and not config.lists]
        for line in [] if silent else lines:
            style = "" if line.startswith(SOURCES) else "yellow"
            Console().print(line, style=style, markup=False, highlight=False, soft_wrap=True)
        if config.training.folds:
            result = choose_by_folds(config, data, fitted_to, silent)
            best = f"best after {result.best_epoch} of {result.epochs} epochs; now as many on"
            _say_all(best, data, fitting, silent)
            fitting.fit("fit", data.splits, result.best_epoch, keep_last=True)
        else:
            result = _by_validation(config, data, begun, fitting, task, silent)
        result.start = None if start is None else str(start)
        result.learned_from(fitting.sources)
        result.seconds = monotonic() - started
        if devices.chief:
            finish_run(fitting.ranked, config, result, data, out, begun)
    return result


def _by_validation(
    config: Config,
    data: Preprocessed,
    begun: WarmStart | None,
    fitting: Fitting,
    task: ValidationTask | None,
    silent: bool,
) -> Result:
    """Fits until the validation queries are ranked no better, then perhaps again on all records."""
    untrained = {} if task is None else task.ndcg(encoded(fitting.encode, task))
    kept = fitting.fit("fit", ["train"], config.training.epochs, task)
    titles = data.titles if begun is None else begun.titles
    prior = TitlePrior(titles, data.rules)
    weight, ndcg = weigh_prior(config, prior, task, fitting.encode)
    result = Result(
        len(kept.history), kept.best_epoch, kept.history, weight, ndcg, untrained=untrained
    )
    if task is None:
        return result
    result.validated = task.about
    if nested := config.training.nested_lengths:
        result.by_length = ndcg_by_length(fitting.encode, task, nested)
    if config.training.refit:
        go_on = config.training.refit == "continue"
        how = f"on from epoch {kept.best_epoch} with" if go_on else "again on"
        _say_all(how, data, fitting, silent)
        # Going on takes two thirds as many epochs, a share chosen in docs/results.md.
        epochs = math.ceil(kept.best_epoch * 2 / 3) if go_on else kept.best_epoch
        weights = kept.best if go_on else None
        fitting.fit("refit", ("train", "validation"), epochs, weights=weights, keep_last=True)
        result.refitted = True
    return result


def _say_all(how: str, data: Preprocessed, fitting: Fitting, silent: bool) -> None:
    if not silent:
        everything = f"{how} all {data.count(*data.splits):,} records"
        everything += "".join(f" and {one.pairs:,} of {one.name}" for one in fitting.sources)
        Console().print(everything, highlight=False)


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


def weigh_prior(
    config: Config, prior: TitlePrior, task: ValidationTask | None, encode: Encoder
) -> tuple[float, dict[str, float]]:
    """The weight of the log-prior, and the validation NDCG with it, see `Result`."""
    chosen = config.ranking.prior
    if task is None:
        return (0.0 if chosen == "auto" else chosen), {}
    vectors = encoded(encode, task)
    log_prior = prior(task.titles)
    if chosen == "auto":
        chosen = task.best_prior_weight(vectors, log_prior)
    measured = task.measured(vectors, chosen * log_prior)
    measured |= search_settings(task, vectors, chosen * log_prior)
    by_cosine = {f"cosine {name}": value for name, value in task.ndcg(vectors).items()}
    return chosen, measured | by_cosine | {"queries": float(len(task.queries))}


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
    """Raises UserError if records, negatives or optimizer are unusable.

    Args:
        config: the model and how to train it.
        data: what preprocess wrote.
    """
    check_records(config, data)
    if config.training.folds and config.lists:
        raise UserError(
            "training.folds holds the log's queries out in turn; leave it out where judgments or "
            "a teacher are learned from."
        )
    check_optimizer(config.optimizer)


def check_records(config: Config, data: Preprocessed) -> None:
    """Raises UserError if there are no records, or the negatives do not suit them.

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
    others = negatives.fresh or negatives.in_batch or negatives.mined_from
    if not (negatives.recorded or others):
        raise UserError(
            "negatives: recorded and fresh are 0 and in_batch is false; the click needs rivals."
        )
    if not (others or (data.parts["train"].titles[:, 1:] >= 0).any()):
        raise UserError(
            f"{data.directory}: no record holds a negative, and there are no others: there is "
            "nothing to tell a click from. Run preprocess with --negatives-from log, or set "
            "negatives.in_batch or negatives.fresh."
        )


def check_devices(config: Config, devices: Devices) -> None:
    """Raises UserError on settings that would fail on these devices once training has started.

    Args:
        config: the model and how to train it.
        devices: what trains.
    """
    parts, several = devices.parts, devices.workers > 1
    if config.training.xla is True and parts > 1 and (several or not devices.gpus):
        raise UserError(
            f"training.xla: true cannot be used with {parts} devices "
            f"{'of several workers' if several else 'that are not GPUs'}, whose exchange of "
            "gradients XLA does not compile; use auto or false."
        )
    sizes = {"training": config.training.batch_size}
    sizes |= {name: section.batch_size for name, section in config.lists.items()}
    for name, size in sizes.items():
        if size % parts:
            raise UserError(
                f"{name}.batch_size: {size} cannot be cut into {parts} equal parts, one a device; "
                f"choose a multiple of {parts}."
            )
