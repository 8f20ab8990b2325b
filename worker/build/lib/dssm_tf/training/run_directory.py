"""The directory of a training run: started, resumed, finished."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.plain_data import read_json
from dssm_tf.common.versions import versions
from dssm_tf.config import Config, load_config
from dssm_tf.data.format import SPEC, VOCABULARY, Spec
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.titles import TITLES, save_titles
from dssm_tf.model.run_files import (
    CONFIG,
    HISTORY,
    QUERY_IDS,
    RANKING,
    STATE,
    VERSIONS,
    WEIGHTS,
    check_run,
    is_finished,
    mark_finished,
)
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.model_card import write_model_card
from dssm_tf.training.result import Result
from dssm_tf.training.warm_start import WarmStart, started_from


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
    _check_same(config, data, out, start)
    if not is_finished(out):
        return None
    shutil.rmtree(out / STATE, ignore_errors=True)
    ranking, history = (read_json(out / name, "Train it again.") for name in (RANKING, HISTORY))
    began = None if start is None else str(start.run)
    return Result(
        len(history), history=history, start=began, ndcg=ranking.pop("validation"), **ranking
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


def _check_same(config: Config, data: Preprocessed, out: Path, start: WarmStart | None) -> None:
    """Raises UserError if a directory holds another run, or something else."""
    if not (out / CONFIG).exists():
        if out.exists() and (not out.is_dir() or any(p.name[0] != "." for p in out.iterdir())):
            raise UserError(f"{out} exists and is not a run; choose another --out.")
        return
    holds = f"{out} holds {'a finished' if is_finished(out) else 'an unfinished'} run"
    before = load_config(out / CONFIG)
    if before != config:
        raise UserError(
            f"{holds} of another configuration ({_first_difference(before, config)}); choose "
            "another --out, or remove it."
        )
    if (out / SPEC).exists():
        if Spec.load(out) != data.spec:
            raise UserError(f"{holds} on other data; choose another --out, or remove it.")
        was, now = started_from(out), None if start is None else start.fingerprint
        if was != now:
            began = "began anew" if was is None else f"went on from another run ({was:.16})"
            raise UserError(f"{holds} that {began}; choose another --out, or remove it.")


def _first_difference(a: Config, b: Config) -> str:
    old, new = (_flat("", one.model_dump(mode="json")) for one in (a, b))
    key = next(key for key in [*old, *new] if old.get(key) != new.get(key))
    return f"{key} was {old.get(key)!r}, now {new.get(key)!r}"


def _flat(prefix: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    parts = (_flat(f"{prefix}.{key}".lstrip("."), one) for key, one in value.items())
    return {key: one for part in parts for key, one in part.items()}


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

    Raises:
        UserError: the run was removed or replaced meanwhile.
    """
    if not (out / CONFIG).exists() or load_config(out / CONFIG) != config:
        raise UserError(f"{out} was removed or replaced while it was trained; train it again.")
    aside = out / f".{WEIGHTS}"
    model.save_weights(aside)
    aside.replace(out / WEIGHTS)
    with atomic_write(out / QUERY_IDS, "wb") as file:
        known = [data.ids["queries"], np.array(result.query_ids, np.int64)]
        known += [] if start is None else [start.query_ids]
        np.save(file, np.unique(np.concatenate(known)))
    _write_json(out / HISTORY, result.history)
    _write_json(out / VERSIONS, versions())
    write_model_card(out, model, config, result, data.spec, start)
    kept = ("prior_weight", "best_epoch", "refitted", "untrained", "by_length")
    ranking = {name: getattr(result, name) for name in kept}
    _write_json(out / RANKING, ranking | {"validation": result.ndcg})
    mark_finished(out)
    shutil.rmtree(out / STATE, ignore_errors=True)


def _write_json(path: Path, value: Any) -> None:
    with atomic_write(path) as file:
        json.dump(value, file, indent=2)
        file.write("\n")
