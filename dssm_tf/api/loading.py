"""Finds out what a directory holds, and loads it."""

from __future__ import annotations

from pathlib import Path

from dssm_tf.api.trained_model import TrainedModel
from dssm_tf.common.errors import UserError
from dssm_tf.data.format import SPEC
from dssm_tf.export.trained import find_trained, load_trained

_EXPECTED = "expected a directory that `dssm train` or `dssm export` wrote"


def load(path: Path | str, name: str | None = None) -> TrainedModel:
    """Loads a trained model: a run, an export or a compact model, whichever the directory holds.

    Args:
        path: what `dssm train` or `dssm export` wrote. Of an export or a compact model either a
            version's directory, or the model's, whose newest version is taken.
        name: what tables call it; the tower's name, or the model's directory, by default.

    Returns:
        The model. A run and an export load TensorFlow, which takes seconds; a compact model loads
        NumPy alone.

    Raises:
        UserError: there is no such directory, it holds no trained model, the training has not
            come to its end, or a file was damaged or changed.
    """
    path = Path(path)
    if not path.is_dir():
        kind = "is a file" if path.exists() else "does not exist"
        raise UserError(f"{path} {kind}; {_EXPECTED}.")
    if place := find_trained(path):
        return TrainedModel(load_trained(place, name), place.kind, place.path)
    raise UserError(f"{path} holds no trained model; {_EXPECTED}.{_hint(path)}")


def _hint(path: Path) -> str:
    """What may have been meant."""
    if (path / SPEC).exists():
        return " It was written by `dssm preprocess`: train on it first."
    inside = sorted(one for one in path.iterdir() if one.is_dir() and find_trained(one))
    return f" Perhaps {' or '.join(map(str, inside[:3]))}?" if inside else ""
