"""The directory of a training run: started, resumed, finished."""

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
from dssm_tf.common.plain_data import read_json
from dssm_tf.common.versions import versions
from dssm_tf.config import Config, load_config
from dssm_tf.data.format import SPEC, VOCABULARY, Spec
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.graded.sources import Source
from dssm_tf.model.run_files import (
    CONFIG,
    HISTORY,
    QUERY_IDS,
    RANKING,
    STATE,
    TITLES,
    VERSIONS,
    WEIGHTS,
    check_run,
    is_finished,
    mark_finished,
    save_titles,
)
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.model_card import write_model_card
from dssm_tf.training.warm_start import WarmStart, first_difference, started_from


@dataclass
class Result:
    """What a training run ended with.

    A run given again when it is finished has an equal one, read back from its files; `learned`,
    `query_ids` and `validated`, which the model card tells and no file repeats, do not count.

    Args:
        epochs: epochs trained.
        best_epoch: the epoch whose weights were kept, from 1.
        history: one dict of metrics an epoch.
        prior_weight: weight of the log-prior of titles.
        ndcg: validation NDCG of the kept weights with that prior, its 95 % intervals (`low
            ndcg@1`, `high ndcg@1`), what the cosine alone has (`cosine ndcg@1`), and the number of
            `queries`; empty without validation.
        refitted: whether all records were then trained on, further or anew.
        seconds: wall time of this process's part of the training; 0 where the run was finished
            before.
        untrained: validation NDCG before the first step, without a prior.
        learned: what it learned from besides clicks, by source, in words.
        query_ids: the id of each query of those, increasing.
        validated: what the validation queries rank, in words.
        start: the earlier run that it went on from; None for one that began anew.
    """

    epochs: int
    best_epoch: int
    history: list[dict[str, float]]
    prior_weight: float
    ndcg: dict[str, float] = field(default_factory=dict)
    refitted: bool = False
    seconds: float = 0.0
    untrained: dict[str, float] = field(default_factory=dict)
    learned: dict[str, str] = field(default_factory=dict, compare=False)
    query_ids: list[int] = field(default_factory=list, compare=False)
    validated: str = field(default="", compare=False)
    start: str | None = None

    def learned_from(self, sources: Sequence[Source]) -> None:
        """Notes what it learned from besides clicks."""
        self.learned = {source.name: source.about for source in sources}
        ids = set[int]().union(*(source.query_ids.tolist() for source in sources))
        self.query_ids = sorted(ids)

    @property
    def doubt(self) -> str:
        """Why it may have learned nothing; empty where it has learned something."""
        first = self.untrained.get("ndcg@10", 1.0)  # a task that needs no training tells nothing
        best = max((one.get("ndcg@10", 1.0) for one in self.history), default=1.0)
        if first == 1 or best > first:
            return ""
        before = "the untrained model" if self.start is None else self.start
        return (
            f"no epoch ranked the validation queries better (NDCG@10 {best:.3f}) than {before} "
            f"did ({first:.3f})"
        )


def finished_before(
    config: Config, data: Preprocessed, out: Path, start: WarmStart | None = None
) -> Result | None:
    """What the same run ended with, if it did; removes what a kill at its very end left.

    Args:
        config: the model and how to train it.
        data: what preprocess wrote.
        out: the run.
        start: the earlier run that it goes on from.

    Raises:
        UserError: the run is damaged, or of another configuration, data or start, or `out` holds
            something else.
    """
    if is_finished(out):
        check_run(out)
    if not (out / CONFIG).exists():
        if out.exists() and (not out.is_dir() or any(p.name[0] != "." for p in out.iterdir())):
            raise UserError(f"{out} exists and is not a run; choose another --out.")
        return None
    was, now = (
        load_config(out / CONFIG).model_dump(mode="json"),
        config.model_dump(mode="json"),
    )
    if (out / SPEC).exists():  # else it was killed at its very beginning
        was |= {"data": asdict(Spec.load(out)), "from": started_from(out)}
        now |= {
            "data": asdict(data.spec),
            "from": None if start is None else start.fingerprint,
        }
    if was != now:
        raise UserError(
            f"{out} holds {'a finished' if is_finished(out) else 'an unfinished'} run of another "
            f"configuration, data or start ({first_difference(was, now)}); choose another --out, "
            "or remove it."
        )
    if not is_finished(out):
        return None
    shutil.rmtree(out / STATE, ignore_errors=True)
    ranking, history = (read_json(out / name, "Train it again.") for name in (RANKING, HISTORY))
    began = None if start is None else str(start.run)
    return Result(
        len(history),
        history=history,
        start=began,
        ndcg=ranking.pop("validation"),
        **ranking,
    )


def start_run(
    config: Config, data: Preprocessed, out: Path, start: WarmStart | None = None
) -> None:
    """Makes the run's directory; see `finished_before`."""
    out.mkdir(parents=True, exist_ok=True)
    # First, so that a run killed from here on is known for what it is.
    with atomic_write(out / CONFIG) as file:
        file.write(config.dump())
    if start is not None:
        start.save(out)
    data.vocabulary.save(out / VOCABULARY)
    save_titles(data.titles if start is None else start.titles, out / TITLES)
    data.spec.save(out)


def finish_run(
    model: Siamese,
    config: Config,
    result: Result,
    data: Preprocessed,
    out: Path,
    start: WarmStart | None = None,
) -> None:
    """Writes weights, history, versions and model card; last, what makes the run finished.

    Args:
        model: never compiled: the optimizer's variables would be written, thrice its own size.
        config: how it was trained.
        result: what came of it.
        data: what it was trained on.
        out: the run.
        start: the earlier run that it went on from.
    """
    aside = out / f".{WEIGHTS}"
    model.save_weights(aside)
    aside.replace(out / WEIGHTS)
    known = [data.ids["queries"], np.array(result.query_ids, np.int64)]
    known += [] if start is None else [start.query_ids]
    write_array(out / QUERY_IDS, np.unique(np.concatenate(known)))
    _write_json(out / HISTORY, result.history)
    _write_json(out / VERSIONS, versions())
    write_model_card(out, model, config, result, data.spec, start)
    kept = ("prior_weight", "best_epoch", "refitted", "untrained")
    ranking = {name: getattr(result, name) for name in kept}
    _write_json(out / RANKING, ranking | {"validation": result.ndcg})
    mark_finished(out)
    shutil.rmtree(out / STATE, ignore_errors=True)


def _write_json(path: Path, value: Any) -> None:
    with atomic_write(path) as file:
        json.dump(value, file, indent=2)
        file.write("\n")
