"""A trained run as a small directory that `dssm_tf.runtime` reads with NumPy alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dssm_tf.common.checksums import files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory
from dssm_tf.common.model_versions import next_version
from dssm_tf.data.format import SPEC
from dssm_tf.export.load import find_model, load
from dssm_tf.export.verify import verify
from dssm_tf.model.run_files import MODEL_CARD
from dssm_tf.runtime.compact_files import COMPACT, FORMAT, PRIOR, VOCABULARY, WEIGHTS, Arrays
from dssm_tf.runtime.ranker import Ranker
from dssm_tf.runtime.vector_ranker import SETTINGS
from dssm_tf.text.fingerprint import fingerprint64

if TYPE_CHECKING:
    from dssm_tf.model.semantic_ranker import SemanticRanker

TableName = Literal["float32", "float16", "int8"]

_KERNEL = "hashing/kernel"


def export_compact(
    run: Path | str,
    out: Path | str,
    name: str | None = None,
    table: TableName = "float32",
) -> Path:
    """Writes `out/<name>/<version>/`, verified; see `dssm_tf.runtime.compact_files`.

    Args:
        run: what `dssm train` wrote.
        out: where compact models lie. Not where TensorFlow Serving looks for SavedModels: it
            would take the highest number for one.
        name: the model's name; the tower's by default.
        table: how the first matrix is stored, the largest part of a model: as it is, in half the
            bytes, or in a quarter, each row by 127 steps up and down.

    Returns:
        The version's directory; its number is one above the highest there.

    Raises:
        UserError: the run is unusable, or what was written disagrees with the trained model.
    """
    from dssm_tf.model.semantic_ranker import SemanticRanker

    ranker = SemanticRanker.load(run, name)
    target = next_version(Path(out) / ranker.name)
    with atomic_directory(target) as aside:
        write_compact(ranker, Path(run), aside, table)
    return target


def copy_compact(model: Path, directory: Path) -> None:
    """Makes a directory with the compact form of a run, or of a compact model, which is copied.

    Raises:
        UserError: the model is neither, or unusable.
    """
    place = find_model(model)
    if place is None or place.kind == "export":
        raise UserError(
            f"{model} holds no weights; expected what `dssm train` or `dssm export --format "
            "compact` wrote."
        )
    if place.kind == "compact":
        shutil.copytree(place.path, directory)
        return
    directory.mkdir()
    ranker: Any = load(model)
    write_compact(ranker, model, directory)


def write_compact(
    ranker: SemanticRanker,
    run: Path,
    directory: Path,
    table: TableName = "float32",
) -> None:
    """Fills a directory with a compact model and verifies it; see `export_compact`.

    Raises:
        UserError: the tower is not one of this package, so that NumPy alone cannot compute it.
    """
    if ranker.config.tower.name == "custom":
        raise UserError(
            f"{run} has a tower of your own, and a compact model knows the towers of this package "
            "only; export a SavedModel: dssm_tf.export_model(model=RUN, out=EXPORT)."
        )
    sides = ["query_tower"] if ranker.model.shared else ["query_tower", "title_tower"]
    prior = ranker.prior
    fingerprints = np.array([fingerprint64(title) for title in prior.log_priors], np.int64)
    order = np.argsort(fingerprints)
    shares = np.array([*prior.log_priors.values()], np.float32)
    settings = {
        "format": FORMAT,
        "tower": ranker.config.model_dump(mode="json")["tower"],
        "sides": sides,
        "rules": asdict(ranker.vocabulary.rules),
        "unseen": prior.unseen,
        **{name: getattr(ranker, name) for name in SETTINGS},
    }
    (directory / COMPACT).write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
    ranker.vocabulary.save(directory / VOCABULARY)
    arrays = _rounded(ranker, sides, table)
    np.savez(directory / WEIGHTS, **arrays)  # type: ignore[arg-type]  # none is allow_pickle
    np.savez(directory / PRIOR, titles=fingerprints[order], log_shares=shares[order])
    for file in (MODEL_CARD, SPEC):
        shutil.copyfile(run / file, directory / file)
    write_checksums(directory, files_in(directory))
    verify(Ranker.load(directory), ranker)


def _rounded(ranker: SemanticRanker, sides: Sequence[str], table: TableName) -> Arrays:
    """The weights by side and Keras name, such as `query_tower/recurrence/bias`.

    The first matrices are rounded to what is to be stored, those of the ranker, too.
    """
    arrays: Arrays = {}
    for side in sides:
        tower = getattr(ranker.model, side)
        for weight in tower.weights:
            # Of a path the layer and the weight: Keras numbers the cell between them.
            parts = weight.path.partition(f"{side}/")[2].split("/")
            arrays["/".join(dict.fromkeys((side, parts[0], parts[-1])))] = weight.numpy()
        kernel = arrays[f"{side}/{_KERNEL}"]
        kernel[0] = 0.0  # of no trigram; never read by Keras
        if table == "int8":
            scale = np.abs(kernel).max(axis=1, keepdims=True) / 127
            steps = np.rint(kernel / np.where(scale > 0, scale, 1)).astype(np.int8)
            arrays |= {f"{side}/{_KERNEL}": steps, f"{side}/hashing/scale": scale}
            kernel = steps * scale
        else:
            arrays[f"{side}/{_KERNEL}"] = kernel = kernel.astype(table)
        tower.hashing.kernel.assign(kernel.astype(np.float32))
    return arrays
