"""The directory of a training run: started, resumed, finished."""

from __future__ import annotations

import json
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.config import Config, load_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.schema import FEATURE_SPEC, TITLES, VOCABULARY, FeatureSpec
from dssm_tf.model.run_files import CONFIG, HISTORY, RANKING, STATE, VERSIONS, WEIGHTS
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.model_card import write_model_card
from dssm_tf.training.result import Result


def finished(config: Config, data: Preprocessed, out: Path) -> Result | None:
    """What this run ended with, where it was finished before; checks that `out` is its place.

    Raises:
        UserError: it holds a run of another configuration or data, or something else.
    """
    if not (out / CONFIG).exists():
        if out.exists() and (not out.is_dir() or any(p.name[0] != "." for p in out.iterdir())):
            raise UserError(f"{out} exists and is not a run; choose another --out.")
        return None
    done = (out / RANKING).exists()
    _check_same(config, data, out, "a finished" if done else "an unfinished")
    if not done:
        return None
    shutil.rmtree(out / STATE, ignore_errors=True)  # of a run killed at its very end
    try:
        ranking = json.loads((out / RANKING).read_text("utf-8"))
        history = json.loads((out / HISTORY).read_text("utf-8"))
        return Result(
            len(history),
            ranking["best_epoch"],
            history,
            ranking["prior_weight"],
            ranking["validation"],
            ranking["refitted"],
            untrained=ranking["untrained"],
            before=True,
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{out / RANKING} or {HISTORY} beside it is damaged ({error!r}); choose another --out, "
            "or remove the run."
        ) from None


def start_run(config: Config, data: Preprocessed, out: Path) -> None:
    """Makes the run's directory."""
    out.mkdir(parents=True, exist_ok=True)
    # First, so that a run killed from here on is known for what it is.
    with atomic_write(out / CONFIG) as file:
        file.write(config.dump())
    for name in (VOCABULARY, TITLES, FEATURE_SPEC):
        with atomic_write(out / name, "wb") as file:
            file.write((data.directory / name).read_bytes())


def _check_same(config: Config, data: Preprocessed, out: Path, run: str) -> None:
    before = load_config(out / CONFIG)
    if before != config:
        raise UserError(
            f"{out} holds {run} run of another configuration "
            f"({_first_difference(before, config)}); choose another --out, or remove it."
        )
    if (out / FEATURE_SPEC).exists() and FeatureSpec.load(out) != data.spec:
        raise UserError(f"{out} holds {run} run on other data; choose another --out, or remove it.")


def _first_difference(a: Config, b: Config) -> str:
    def flat(prefix: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            return {prefix: value}
        parts = (flat(f"{prefix}.{key}".lstrip("."), one) for key, one in value.items())
        return {key: one for part in parts for key, one in part.items()}

    old, new = (flat("", one.model_dump(mode="json")) for one in (a, b))
    for key in [*old, *new]:
        if old.get(key) != new.get(key):
            return f"{key} was {old.get(key)!r}, now {new.get(key)!r}"
    return "equal"


def finish_run(
    model: Siamese, config: Config, result: Result, spec: FeatureSpec, out: Path
) -> None:
    """Writes weights, history, versions and model card; last, what makes the run finished.

    Args:
        model: never compiled: the optimizer's variables would be written, thrice its own size.
        config: how it was trained.
        result: what came of it.
        spec: of the data.
        out: the run.
    """
    aside = out / f".{WEIGHTS}"
    model.save_weights(aside)
    aside.replace(out / WEIGHTS)
    _write_json(out / HISTORY, result.history)
    _write_json(out / VERSIONS, _versions())
    write_model_card(out, model, config, result, spec)
    # A run with this file is finished.
    _write_json(
        out / RANKING,
        {
            "prior_weight": result.prior_weight,
            "best_epoch": result.best_epoch,
            "refitted": result.refitted,
            "validation": result.ndcg,
            "untrained": result.untrained,
        },
    )
    shutil.rmtree(out / STATE, ignore_errors=True)


def _write_json(path: Path, value: Any) -> None:
    with atomic_write(path) as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def _versions() -> dict[str, str]:
    packages = ("dssm-tf", "tensorflow", "keras", "numpy", "apache-beam")
    found: dict[str, str] = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
