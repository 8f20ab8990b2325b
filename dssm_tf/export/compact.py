"""A trained run as a small directory that `dssm_tf.runtime` reads with NumPy alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.checksums import CHECKSUMS, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, atomic_write
from dssm_tf.common.model_versions import next_version
from dssm_tf.data.titles import load_titles
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.export.compact_card import Form, described
from dssm_tf.export.saved_model import check_name, ranker_answers, verify
from dssm_tf.model.run_files import MODEL_CARD
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.runtime.compact_files import (
    COMPACT,
    FORMAT,
    PRIOR,
    VOCABULARY,
    WEIGHTS,
    read_compact,
)
from dssm_tf.runtime.ranker import Ranker
from dssm_tf.text.fingerprint import fingerprint64

TableName = Literal["float32", "float16", "int8"]
Arrays = dict[str, NDArray[Any]]

_KERNEL = "hashing/kernel"
_BASIS_TITLES = 20_000  # titles, the most clicked, by which shorter vectors are chosen


class Exported(NamedTuple):
    """A compact directory, and how far it is from the trained model, rounded and cut as it is."""

    directory: Path
    largest_difference: float


def export_compact(
    run: Path | str,
    out: Path | str,
    name: str | None = None,
    table: TableName = "float32",
    dimension: int | None = None,
    task: RankingTask | None = None,
) -> Exported:
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
        task: judged queries, by which the model card says what was lost.

    Raises:
        UserError: the run is unusable, `out` holds SavedModels of that name, `dimension` is not
            below the tower's, or what was written disagrees with the trained model.
    """
    check_name(name)
    ranker = SemanticRanker.load(run)
    base = Path(out) / (name or ranker.name)
    if any(base.glob("*/saved_model.pb")):
        raise UserError(
            f"{base} holds SavedModels, of which TensorFlow Serving would take this for a newer "
            "version; choose another --out for compact ones."
        )
    full = ranker.model.query_tower.dimension
    if dimension is not None and not 0 < dimension < full:
        raise UserError(
            f"--dimension {dimension}: the vectors have {full} numbers; expected fewer, at least 1."
        )
    arrays = _rounded(_arrays(ranker), table)
    if dimension is not None:
        arrays |= _projections(ranker, _titles(run), dimension)
    target = next_version(base)
    with atomic_directory(target) as aside:
        _write(aside, ranker, base.name, arrays, dimension or full)
        text = (Path(run) / MODEL_CARD).read_text("utf-8")
        form = Form(table, dimension or full, full)
        with atomic_write(aside / MODEL_CARD) as file:
            file.write(text + described(form, aside, ranker, task))
        _seal(aside)
        basis = _as_stored(ranker, aside)
        difference = verify(ranker_answers(Ranker.load(aside)), ranker, basis)
    return Exported(target, difference)


def _as_stored(ranker: SemanticRanker, directory: Path) -> NDArray[np.float32] | None:
    """Rounds a trained model's first matrices as a directory has them; returns its projection.

    Raises:
        UserError: a number is further from the trained one than half a step.
    """
    compact, basis = read_compact(directory), None
    for side in _sides(ranker):
        arrays = compact.side(side)
        kernel = getattr(ranker.model, side).hashing.kernel
        trained = kernel.numpy()[1:]
        stored = (arrays["hashing/kernel"] * arrays.get("hashing/scale", np.float32(1)))[1:]
        step = np.abs(trained).max(axis=1, keepdims=True) / 127  # of int8; float16 has finer ones
        if not (np.abs(stored - trained) <= 0.501 * step).all():
            raise UserError(f"the rounded {side}/{_KERNEL} is not the trained one.")
        kernel.assign(np.concatenate([kernel.numpy()[:1], stored]))
        basis = arrays.get("projection")
    return basis


def _arrays(ranker: SemanticRanker) -> Arrays:
    """The weights by side and Keras name, such as `query_tower/recurrence/bias`."""
    found = {}
    for side in _sides(ranker):
        for weight in getattr(ranker.model, side).weights:
            # Of a path the layer and the weight: Keras numbers the cell between them.
            parts = weight.path.partition(f"{side}/")[2].split("/")
            found["/".join(dict.fromkeys((side, parts[0], parts[-1])))] = weight.numpy()
        found[f"{side}/{_KERNEL}"][0] = 0.0  # of no trigram; never read by Keras
    return found


def _sides(ranker: SemanticRanker) -> list[str]:
    return ["query_tower"] if ranker.model.shared else ["query_tower", "title_tower"]


def _rounded(arrays: Arrays, table: TableName) -> Arrays:
    """The arrays with the first matrices as they are to be stored."""
    found = dict(arrays)
    for key, array in arrays.items():
        if not key.endswith(_KERNEL) or table == "float32":
            continue
        if table == "float16":
            found[key] = array.astype(np.float16)
            continue
        scale = np.abs(array).max(axis=1, keepdims=True) / 127
        found[key] = np.rint(array / np.where(scale > 0, scale, 1)).astype(np.int8)
        found[key.replace(_KERNEL, "hashing/scale")] = scale
    return found


def _projections(ranker: SemanticRanker, titles: Sequence[str], dimension: int) -> Arrays:
    """The directions in which known titles' vectors lie most, `(all, dimension)`, for each side.

    Of vectors that were trained to be cut, the first ones.
    One for both, since queries and titles are compared; directions from the origin and not from
    the mean, since inner products are from there.
    """
    if ranker.model.nested_lengths:
        basis = np.eye(ranker.model.query_tower.dimension, dimension, dtype=np.float32)
    else:
        vectors = np.concatenate([ranker.encode_titles(titles), ranker.encode_queries(titles)])
        _, directions = np.linalg.eigh(vectors.T @ vectors)  # the largest last
        basis = np.ascontiguousarray(directions[:, ::-1][:, :dimension], np.float32)
    return {f"{side}/projection": basis for side in _sides(ranker)}


def _titles(run: Path | str) -> list[str]:
    return [title.text for title in load_titles(Path(run))[:_BASIS_TITLES]]


def _write(
    directory: Path, ranker: SemanticRanker, name: str, arrays: Arrays, dimension: int
) -> None:
    """Writes all but the model card, and the checksums."""
    prior = ranker.prior
    fingerprints = np.array([fingerprint64(title) for title in prior.log_shares], np.int64)
    if len(np.unique(fingerprints)) != len(fingerprints):
        raise UserError("two titles have one fingerprint; set ranking.prior to 0.")
    order = np.argsort(fingerprints)
    shares = np.array([*prior.log_shares.values()], np.float32)
    settings = {
        "format": FORMAT,
        "name": name,
        "tower": ranker.config.model_dump(mode="json")["tower"],
        "sides": _sides(ranker),
        "dimension": dimension,
        "rules": asdict(ranker.vocabulary.rules),
        "prior_weight": ranker.prior_weight,
        "unseen": prior.unseen,
    }
    with atomic_write(directory / COMPACT) as file:
        json.dump(settings, file, indent=2)
        file.write("\n")
    ranker.vocabulary.save(directory / VOCABULARY)
    with atomic_write(directory / WEIGHTS, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is named allow_pickle
    with atomic_write(directory / PRIOR, "wb") as file:
        np.savez(file, titles=fingerprints[order], log_shares=shares[order])
    _seal(directory)


def _seal(directory: Path) -> None:
    names = [one.name for one in directory.iterdir() if one.name != CHECKSUMS]
    write_checksums(directory, names)
