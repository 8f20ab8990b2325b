"""Starts, resumes and finishes the directory of a training run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.common.arrays import write_array
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.json_files import read_json
from dssm_tf.common.versions import versions
from dssm_tf.config import Config, load_config
from dssm_tf.data.format import SPEC, VOCABULARY, Spec
from dssm_tf.data.graded_sources import GradedSource
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.run_files import (
    CONFIG,
    FREQUENCIES,
    HISTORY,
    PAIR_IDS,
    QUERY_IDS,
    RANKING,
    STATE,
    TITLES,
    VERSIONS,
    WEIGHTS,
    check_run,
    is_finished,
    mark_finished,
    read_ranking,
    save_titles,
)
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.model_card import write_model_card
from dssm_tf.training.warm_start import (
    WarmStart,
    earlier_fingerprint,
    first_difference,
    training_frequencies,
)


@dataclass
class Result:
    """The result of a training run.

    Training a finished run again returns an equal result, read from its files.
    `source_descriptions` and `validation_description` are only written into the model card, and
    `query_ids` and `pair_ids` into separate files, so these four are not compared.

    Args:
        epochs: number of epochs trained.
        best_epoch: the epoch whose weights the run has, from 1.
        history: metrics of each epoch.
        prior_weight: weight of the log-prior of titles.
        metrics: validation NDCG of these weights with that prior, its 95 % intervals (`low ndcg@1`,
            `high ndcg@1`), NDCG by the similarity without the prior (`similarity ndcg@1`), and the
            number of `queries`; empty without validation.
        refitted: whether training then continued on all records.
        refit_epochs: number of epochs of that refit; 0 without one.
        seconds: wall time of this process's part of the training; 0 if the run was finished before.
        untrained: validation NDCG before the first step, without the prior.
        source_descriptions: a sentence about each source of labels other than clicks, by its name.
        query_ids: ids of the queries of these sources, increasing.
        pair_ids: ids of the pairs of query and title of these sources, increasing.
        validation_description: the validation queries and the titles they rank, in one sentence.
        start: the earlier run of a warm start; None without a warm start.
        stages: for each start, or each stage of a training without clicks: its name, the validation
            NDCG of its weights (with `training.folds`, after training from it), and whether it was
            chosen.
    """

    epochs: int
    best_epoch: int
    history: list[dict[str, float]]
    prior_weight: float
    metrics: dict[str, float] = field(default_factory=dict)
    refitted: bool = False
    refit_epochs: int = 0
    seconds: float = 0.0
    untrained: dict[str, float] = field(default_factory=dict)
    source_descriptions: dict[str, str] = field(default_factory=dict, compare=False)
    query_ids: list[int] = field(default_factory=list, compare=False)
    pair_ids: list[int] = field(default_factory=list, compare=False)
    validation_description: str = field(default="", compare=False)
    start: str | None = None
    stages: list[dict[str, Any]] = field(default_factory=list)

    def set_sources(self, sources: Sequence[GradedSource]) -> None:
        """Records the sources of labels other than clicks."""
        self.source_descriptions = {source.name: source.description for source in sources}
        query_ids = set[int]().union(*(source.query_ids.tolist() for source in sources))
        self.query_ids = sorted(query_ids)
        pair_ids = set[int]().union(*(source.pair_ids.tolist() for source in sources))
        self.pair_ids = sorted(pair_ids)

    @property
    def convergence_warning(self) -> str:
        """A warning if no epoch was better than the untrained model; else empty."""
        untrained = self.untrained.get("ndcg@10", 1.0)  # with 1, training cannot improve it
        best = max((epoch.get("ndcg@10", 1.0) for epoch in self.history), default=1.0)
        if untrained == 1 or best > untrained:
            return ""
        before = "the untrained model" if self.start is None else self.start
        return (
            f"no epoch ranked the validation queries better (NDCG@10 {best:.3f}) than {before} "
            f"did ({untrained:.3f})"
        )


def load_finished_result(
    config: Config, data: Preprocessed, out: Path, warm_start: WarmStart | None = None
) -> Result | None:
    """The result of a finished run, if `out` has one of the same configuration, data and start.

    Also removes the training state, which remains if the training was killed at its very end.

    Args:
        config: the model and its training.
        data: the preprocessed directory.
        out: the run's directory.
        warm_start: the earlier run that the training starts from.

    Raises:
        UserError: the run is damaged, or of another configuration, data or start, or `out` has
            other content.
    """
    if is_finished(out):
        check_run(out)
    if not (out / CONFIG).exists():
        if out.exists() and (not out.is_dir() or any(p.name[0] != "." for p in out.iterdir())):
            raise UserError(f"{out} exists and is not a run; choose another --out.")
        return None
    existing = load_config(out / CONFIG).model_dump(mode="json")
    requested = config.model_dump(mode="json")
    if (out / SPEC).exists():  # missing if the run was killed at its very beginning
        existing |= {"data": asdict(Spec.load(out)), "from": earlier_fingerprint(out)}
        requested |= {
            "data": asdict(data.spec),
            "from": None if warm_start is None else warm_start.fingerprint,
        }
    if existing != requested:
        raise UserError(
            f"{out} has {'a finished' if is_finished(out) else 'an unfinished'} run of another "
            f"configuration, data or start ({first_difference(existing, requested)}); choose "
            "another --out, or remove it."
        )
    if not is_finished(out):
        return None
    shutil.rmtree(out / STATE, ignore_errors=True)
    ranking = read_ranking(out / RANKING)
    history = read_json(out / HISTORY, "Train it again.")
    return Result(
        len(history),
        history=history,
        start=None if warm_start is None else str(warm_start.run),
        metrics=ranking.pop("validation"),
        **ranking,
    )


def start_run(
    config: Config, data: Preprocessed, out: Path, warm_start: WarmStart | None = None
) -> None:
    """Makes the run's directory; see `load_finished_result`."""
    out.mkdir(parents=True, exist_ok=True)
    # The configuration is first, so that a run that is killed later is recognized as a run.
    with atomic_write(out / CONFIG) as file:
        file.write(config.dump())
    if warm_start is not None:
        warm_start.save(out)
    data.vocabulary.save(out / VOCABULARY)
    frequencies = training_frequencies(config, data, warm_start)
    if frequencies is not None:
        frequencies.save(out / FREQUENCIES)
    if warm_start is None:
        save_titles(data.iter_titles(most_clicked_first=True), out / TITLES)
    else:
        ranked = sorted(warm_start.titles, key=lambda title: (-title.clicks, title.text))
        save_titles(ranked, out / TITLES)
    data.spec.save(out)


def finish_run(
    model: Siamese,
    config: Config,
    result: Result,
    data: Preprocessed,
    out: Path,
    warm_start: WarmStart | None = None,
) -> None:
    """Writes weights, history, versions and model card; finally marks the run as finished.

    Args:
        model: a model that was never compiled. Otherwise the optimizer's variables would be
            written too, which are twice the size of the model.
        config: the configuration of the training.
        result: the result of the training.
        data: the preprocessed directory.
        out: the run's directory.
        warm_start: the earlier run that the training started from.
    """
    unfinished = out / f".{WEIGHTS}"
    model.save_weights(unfinished)
    unfinished.replace(out / WEIGHTS)
    query_ids = [data.ids("queries"), np.array(result.query_ids, np.int64)]
    if warm_start is not None:
        query_ids.append(warm_start.query_ids)
    write_array(out / QUERY_IDS, np.unique(np.concatenate(query_ids)))
    pair_ids = [data.pair_ids, np.array(result.pair_ids, np.int64)]
    if warm_start is None or warm_start.pair_ids is not None:  # otherwise they are unknown
        if warm_start is not None and warm_start.pair_ids is not None:
            pair_ids.append(warm_start.pair_ids)
        write_array(out / PAIR_IDS, np.unique(np.concatenate(pair_ids)))
    _write_json(out / HISTORY, result.history)
    _write_json(out / VERSIONS, versions())
    write_model_card(out, model, config, result, data.spec, data.vocabulary, warm_start)
    _write_json(
        out / RANKING,
        {
            "prior_weight": result.prior_weight,
            "best_epoch": result.best_epoch,
            "refitted": result.refitted,
            "refit_epochs": result.refit_epochs,
            "untrained": result.untrained,
            "stages": result.stages,
            "validation": result.metrics,
        },
    )
    mark_finished(out)
    shutil.rmtree(out / STATE, ignore_errors=True)


def _write_json(path: Path, value: Any) -> None:
    with atomic_write(path) as file:
        json.dump(value, file, indent=2)
        file.write("\n")
