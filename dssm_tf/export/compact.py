"""A trained run as a small directory that `dssm_tf.runtime` reads with NumPy alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.checksums import files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory
from dssm_tf.common.model_versions import next_version
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.data.format import SPEC
from dssm_tf.data.titles import Title, load_titles
from dssm_tf.export.load import find_model
from dssm_tf.export.verify import verify
from dssm_tf.model.run_files import MODEL_CARD
from dssm_tf.runtime.compact_files import COMPACT, FORMAT, PRIOR, VOCABULARY, WEIGHTS
from dssm_tf.runtime.ranker import Ranker
from dssm_tf.runtime.vector_ranker import Vectors
from dssm_tf.text.fingerprint import fingerprint64

if TYPE_CHECKING:
    from dssm_tf.model.semantic_ranker import SemanticRanker

TableName = Literal["float32", "float16", "int8"]
Arrays = dict[str, NDArray[Any]]

_KERNEL = "hashing/kernel"
_BASIS_TITLES = 20_000  # titles, the most clicked, by which shorter vectors are chosen


def export_compact(
    run: Path | str,
    out: Path | str,
    name: str | None = None,
    table: TableName = "float32",
    dimension: int | None = None,
) -> Path:
    """Writes `out/<name>/<version>/`, verified; see `dssm_tf.runtime.compact_files`.

    Args:
        run: what `dssm train` wrote.
        out: where compact models lie. Not where TensorFlow Serving looks for SavedModels: it
            would take the highest number for one.
        name: the model's name; the tower's by default.
        table: how the first matrix is stored, the largest part of a model: as it is, in half the
            bytes, or in a quarter, each row by 127 steps up and down.
        dimension: of the vectors, shorter than the tower's: what the titles' vectors have most
            of, by their principal components, or their first numbers where these were trained
            for it (`training.nested_lengths`); None leaves them as they are.

    Returns:
        The version's directory; its number is one above the highest there.

    Raises:
        UserError: the run is unusable, `dimension` is not below the tower's, or what was written
            disagrees with the trained model.
    """
    from dssm_tf.model.semantic_ranker import SemanticRanker

    ranker = SemanticRanker.load(run, name)
    target = next_version(Path(out) / ranker.name)
    with atomic_directory(target) as aside:
        write_compact(ranker, Path(run), aside, table, dimension)
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
    load_tensorflow()
    from dssm_tf.model.semantic_ranker import SemanticRanker

    directory.mkdir()
    write_compact(SemanticRanker.load(model), model, directory)


def write_compact(
    ranker: SemanticRanker,
    run: Path,
    directory: Path,
    table: TableName = "float32",
    dimension: int | None = None,
) -> None:
    """Fills a directory with a compact model and verifies it; see `export_compact`."""
    full = ranker.model.query_tower.dimension
    if dimension is not None and not 0 < dimension < full:
        raise UserError(
            f"--dimension {dimension}: the vectors have {full} numbers; expected fewer, at least 1."
        )
    if dimension:  # chosen by the trained weights, before they are rounded
        ranker.basis = _basis(ranker, load_titles(run), dimension)
    _write(directory, ranker, _rounded(ranker, table))
    for file in (MODEL_CARD, SPEC):
        shutil.copyfile(run / file, directory / file)
    write_checksums(directory, files_in(directory))
    verify(Ranker.load(directory), ranker, list(ranker.prior.log_shares))


def _sides(ranker: SemanticRanker) -> list[str]:
    return ["query_tower"] if ranker.model.shared else ["query_tower", "title_tower"]


def _rounded(ranker: SemanticRanker, table: TableName) -> Arrays:
    """The weights by side and Keras name, such as `query_tower/recurrence/bias`.

    The first matrices are rounded to what is to be stored, those of the ranker, too.
    """
    arrays: Arrays = {} if ranker.basis is None else {"basis": ranker.basis}
    for side in _sides(ranker):
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


def _basis(ranker: SemanticRanker, titles: Sequence[Title], dimension: int) -> Vectors:
    """The directions in which known titles' vectors lie most, `(all, dimension)`, for both sides.

    Of vectors that were trained to be cut, the first ones. One basis for both sides, since queries
    and titles are compared; directions from the origin and not from the mean, since inner products
    are from there.
    """
    if ranker.model.nested_lengths:
        return np.eye(ranker.model.query_tower.dimension, dimension, dtype=np.float32)
    texts = [title.text for title in titles[:_BASIS_TITLES]]
    vectors = np.concatenate([ranker.encode_titles(texts), ranker.encode_queries(texts)])
    _, directions = np.linalg.eigh(vectors.T @ vectors)  # the largest last
    return np.ascontiguousarray(directions[:, ::-1][:, :dimension], np.float32)


def _write(directory: Path, ranker: SemanticRanker, arrays: Arrays) -> None:
    """Writes all but the model card and the checksums."""
    prior = ranker.prior
    fingerprints = np.array([fingerprint64(title) for title in prior.log_shares], np.int64)
    order = np.argsort(fingerprints)
    shares = np.array([*prior.log_shares.values()], np.float32)
    settings = {
        "format": FORMAT,
        "name": ranker.name,
        "tower": ranker.config.model_dump(mode="json")["tower"],
        "sides": _sides(ranker),
        "rules": asdict(ranker.vocabulary.rules),
        "prior_weight": ranker.prior_weight,
        "mean_prior": ranker.mean_prior,
        "bm25_weight": ranker.bm25_weight,
        "cutoff": -1.0 if "basis" in arrays else ranker.cutoff,  # of other cosines
        "unseen": prior.unseen,
    }
    (directory / COMPACT).write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
    ranker.vocabulary.save(directory / VOCABULARY)
    np.savez(directory / WEIGHTS, **arrays)  # type: ignore[arg-type]  # none is allow_pickle
    np.savez(directory / PRIOR, titles=fingerprints[order], log_shares=shares[order])
