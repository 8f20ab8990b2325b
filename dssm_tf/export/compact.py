"""Export of a trained run as a compact model, which `dssm_tf.runtime` loads with only NumPy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dssm_tf import runtime
from dssm_tf.common.checksums import write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.data.format import SPEC
from dssm_tf.export.load import find_model, load
from dssm_tf.export.target import new_version
from dssm_tf.export.verify import verify
from dssm_tf.model.run_files import MODEL_CARD
from dssm_tf.runtime.compact_files import (
    COMPACT,
    COSINE,
    DOCUMENT_FREQUENCIES,
    FORMAT,
    MAXSIM,
    PRIOR,
    SEARCH_RULES,
    VOCABULARY,
    WEIGHTS,
    NamedArrays,
    read_compact,
)
from dssm_tf.runtime.remembered_clicks import REMEMBERED_CLICKS, RememberedClicks
from dssm_tf.runtime.search_rules import read_rules
from dssm_tf.runtime.trained_ranker import SETTING_NAMES
from dssm_tf.text.stable_hash import fingerprint64

if TYPE_CHECKING:
    from dssm_tf.model.load_run import RunRanker
    from dssm_tf.model.maxsim_run import MaxSimRun
    from dssm_tf.model.semantic_ranker import SemanticRanker

NumberType = Literal["float32", "float16", "int8"]
"""The type of the numbers of a stored matrix."""

_KERNEL = "hashing/kernel"


def export_compact(
    run: Path | str,
    out: Path | str,
    name: str | None = None,
    number_type: NumberType = "float32",
    search_rules: Path | None = None,
) -> Path:
    """Writes and verifies `out/<name>/<version>/`; see `dssm_tf.runtime.compact_files`.

    Args:
        run: directory that `dssm train` wrote.
        out: directory of compact models. Do not use TensorFlow Serving's directory of SavedModels:
            it would load the highest version as a SavedModel.
        name: the model's name; by default the tower's, or `maxsim`.
        number_type: type of the numbers of the matrices with a row per letter n-gram, which have
            most of a model's bytes. float16 halves their size; int8 quarters it, with one scale per
            row.
        search_rules: a file of rules by hand, see `set_search_rules_from_file`.

    Returns:
        The version's directory; its number is one above the highest existing one.

    Raises:
        UserError: the run is unusable, or the written model differs from the trained one.
    """
    from dssm_tf.model.load_run import load_run

    ranker = load_run(run, name)
    with new_version(out, ranker.name, COMPACT) as (directory, target):
        write_compact(ranker, Path(run), directory, number_type)
        if search_rules is not None:
            set_search_rules_from_file(directory, search_rules)
    return target


def set_search_rules_from_file(directory: Path, path: Path) -> None:
    """Writes a file of rules by hand into a compact model; earlier rules are replaced.

    Args:
        directory: the compact model.
        path: the file, see `dssm_tf.runtime.search_rules`.

    Raises:
        UserError: the model does not have the score maxsim, or a rule is not valid.
    """
    files = read_compact(directory)
    if files.score != MAXSIM:
        raise UserError(
            f"{path} cannot be applied: rules are for models with the score maxsim, and this one "
            f"has the score {files.score}; leave --rules out."
        )
    set_search_rules(directory, read_rules(path, files.vocabulary).text)


def set_search_rules(directory: Path, text: str) -> None:
    """Writes the rules by hand of a compact model; an empty text removes earlier ones.

    Args:
        directory: the compact model, of a model with the score maxsim.
        text: the content of a file of rules.
    """
    (directory / SEARCH_RULES).unlink(missing_ok=True)
    if text:
        (directory / SEARCH_RULES).write_text(text, "utf-8", newline="")
    write_checksums(directory)


def set_remembered_clicks(directory: Path, remembered_clicks: RememberedClicks | None) -> None:
    """Writes remembered clicks into a compact model; earlier ones are replaced.

    Args:
        directory: the compact model, of a model with the score maxsim.
        remembered_clicks: the remembered clicks; None only removes earlier ones.
    """
    (directory / REMEMBERED_CLICKS).unlink(missing_ok=True)
    if remembered_clicks is not None:
        remembered_clicks.save(directory)
    write_checksums(directory)


def copy_compact(model: Path, directory: Path) -> None:
    """Writes the compact form of a run, or a copy of a compact model.

    Args:
        model: a run or a compact model.
        directory: directory to create.

    Raises:
        UserError: the model is neither, or is unusable.
    """
    location = find_model(model)
    if location is None:
        raise UserError(
            f"{model} contains no weights; expected a directory that `dssm train` or `dssm export "
            "--format compact` wrote."
        )
    if location.kind == "export":
        raise UserError(
            f"{model} is a SavedModel, which cannot become a compact model; give its run directory."
        )
    if location.kind == "compact":
        shutil.copytree(location.path, directory)
        return
    directory.mkdir()
    ranker: Any = load(model)
    write_compact(ranker, model, directory)


def write_compact(
    ranker: RunRanker,
    run: Path,
    directory: Path,
    number_type: NumberType = "float32",
) -> None:
    """Writes a compact model into a directory and verifies it; see `export_compact`.

    Raises:
        UserError: the tower is custom; the NumPy runtime implements only this package's towers.
    """
    if ranker.config.tower.name == "custom":
        raise UserError(
            f"{run} has a custom tower, and a compact model supports only the towers of this "
            "package; export a SavedModel: dssm_tf.export_model(model=RUN, out=EXPORT)."
        )
    from dssm_tf.model.maxsim_run import MaxSimRun

    if isinstance(ranker, MaxSimRun):
        score_settings, arrays = _maxsim_weights(ranker, number_type)
        ranker.frequencies.save(directory / DOCUMENT_FREQUENCIES)
    else:
        tower_names = ["query_tower"] if ranker.model.shared else ["query_tower", "title_tower"]
        score_settings = {
            "score": {"name": COSINE},
            "tower": ranker.config.model_dump(mode="json")["tower"],
            "tower_names": tower_names,
        }
        arrays = _stored_weights(ranker, tower_names, number_type)
    prior = ranker.prior
    fingerprints = np.array([fingerprint64(title) for title in prior.log_priors], np.int64)
    order = np.argsort(fingerprints)
    log_priors = np.array([*prior.log_priors.values()], np.float32)
    settings = {
        "format": FORMAT,
        **score_settings,
        "rules": asdict(ranker.vocabulary.rules),
        "unseen": prior.unseen,
        **{name: getattr(ranker, name) for name in SETTING_NAMES},
    }
    (directory / COMPACT).write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
    ranker.vocabulary.save(directory / VOCABULARY)
    # NumPy's stubs take one of the arrays for the argument `allow_pickle`.
    np.savez(directory / WEIGHTS, **arrays)  # type: ignore[arg-type]
    np.savez(directory / PRIOR, titles=fingerprints[order], log_priors=log_priors[order])
    for file in (MODEL_CARD, SPEC):
        shutil.copyfile(run / file, directory / file)
    write_checksums(directory)
    verify(runtime.load(directory), ranker)


def _maxsim_weights(
    ranker: MaxSimRun, number_type: NumberType
) -> tuple[dict[str, Any], NamedArrays]:
    """The settings and weights of a model that compares words.

    The matrices of `ranker` are changed to the rounded values, so that `verify` finds no difference
    by rounding.
    """
    from dssm_tf.model.text_scorer import numpy_maxsim

    maxsim, score = ranker.maxsim, ranker.model.score
    arrays = {
        "importance": score.importance.numpy(),
        "side_weights": maxsim.side_weights.astype(np.float32),
        "pair_bias": maxsim.pair_bias.astype(np.float32),
    }
    hashings = {"": ranker.model.query_tower.hashing}
    if score.text_cosine:
        hashings["text_"] = score.text_hashing
        arrays["text_importance"] = score.text_importance.numpy()
    for prefix, hashing in hashings.items():
        stored, kernel = _rounded(hashing.kernel.numpy(), number_type)
        hashing.kernel.assign(kernel)
        arrays |= {f"{prefix}{name}": array for name, array in stored.items()}
    ranker.maxsim = numpy_maxsim(ranker.model, ranker.vocabulary, ranker.frequencies)
    score_settings = {
        "score": {
            "name": MAXSIM,
            "threshold": maxsim.threshold,
            "text_cosine": score.text_cosine,
            "gamma": ranker.gamma,
        }
    }
    return score_settings, arrays


def _rounded(
    kernel: NDArray[np.float32], number_type: NumberType
) -> tuple[NamedArrays, NDArray[np.float32]]:
    """Rounds a first matrix to a number type.

    Args:
        kernel: the matrix; its row of padding is set to 0.
        number_type: the number type.

    Returns:
        The arrays to store: `kernel`, and `scale` for int8. The rounded values as float32.
    """
    kernel[0] = 0.0  # the row of padding, which Keras never reads
    if number_type == "int8":
        scale = np.abs(kernel).max(axis=1, keepdims=True) / 127
        quantized = np.rint(kernel / np.where(scale > 0, scale, 1)).astype(np.int8)
        return {"kernel": quantized, "scale": scale}, quantized * scale
    stored = kernel.astype(number_type)
    return {"kernel": stored}, stored.astype(np.float32)


def _stored_weights(
    ranker: SemanticRanker, tower_names: Sequence[str], number_type: NumberType
) -> NamedArrays:
    """The weights by tower and Keras name, such as `query_tower/recurrence/bias`.

    The first matrices are rounded to the number type. The matrices of `ranker` are changed
    to the rounded values, so that `verify` finds no difference by rounding.
    """
    arrays: NamedArrays = {}
    for tower_name in tower_names:
        tower = getattr(ranker.model, tower_name)
        for weight in tower.weights:
            # The name of a cell between layer and weight is left out, because Keras may number it.
            components = weight.path.partition(f"{tower_name}/")[2].split("/")
            parts = dict.fromkeys((tower_name, components[0], components[-1]))
            arrays["/".join(parts)] = weight.numpy()
        stored, kernel = _rounded(arrays[f"{tower_name}/{_KERNEL}"], number_type)
        arrays |= {f"{tower_name}/hashing/{name}": array for name, array in stored.items()}
        tower.hashing.kernel.assign(kernel)
    return arrays
