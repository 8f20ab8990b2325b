"""A model that answers: what the server asks of one, and how a directory becomes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import load_tensorflow
from serving.predict_pb2 import SignatureDefMap

Texts = Mapping[str, list[bytes]]
"""The texts of each input by its name, UTF-8."""

_SAVED_MODEL = "saved_model.pb"
_RUN = "config.yaml"
# What every model must answer before it counts; the second time has other shapes than the first.
_TRIED = ([b"wizard of oz"], [b"", b"a", b"x" * 1000, b"wizard of oz"])


class Servable(Protocol):
    """A loaded model. Threads share it.

    Attributes:
        definition: its signatures; their inputs are texts `(n,)`.
    """

    definition: SignatureDefMap

    def run(self, signature: str, inputs: Texts) -> dict[str, NDArray[Any]]:
        """Runs a signature of the definition on its inputs; returns its outputs by name."""
        ...


class SavedModel:
    """What `dssm export` wrote, run by TensorFlow.

    Args:
        directory: of one version.

    Raises:
        UserError: it is no export, or a file of it is damaged.
    """

    def __init__(self, directory: Path) -> None:
        load_tensorflow()
        import tensorflow as tf
        from tensorflow.core.protobuf import saved_model_pb2

        from dssm_tf.export.saved_model import load_export

        self._constant: Any = tf.constant
        self._string = tf.string
        self._model = load_export(directory)
        saved = saved_model_pb2.SavedModel.FromString((directory / _SAVED_MODEL).read_bytes())
        self.definition = SignatureDefMap()
        for name, signature in saved.meta_graphs[0].signature_def.items():
            self.definition.signature_def[name].ParseFromString(signature.SerializeToString())

    def run(self, signature: str, inputs: Texts) -> dict[str, NDArray[Any]]:
        """See `Servable`."""
        given = {name: self._constant(texts, self._string) for name, texts in inputs.items()}
        found = self._model.signatures[signature](**given)
        return {name: tensor.numpy() for name, tensor in found.items()}


def open_servable(directory: Path) -> Servable:
    """Loads a version of a model and lets it answer, so that no user waits for its first time.

    Raises:
        UserError: it is no model, a file of it is damaged, or what it answers are no numbers.
    """
    if not (directory / _SAVED_MODEL).is_file():
        raise UserError(f"{directory} holds no {_SAVED_MODEL}; expected what `dssm export` wrote.")
    servable = SavedModel(directory)
    for name, signature in servable.definition.signature_def.items():
        for texts in _TRIED if signature.inputs else ():
            found = servable.run(name, dict.fromkeys(signature.inputs, texts))
            for output, values in found.items():
                if len(values) != len(texts) or not np.isfinite(values).all():
                    raise UserError(
                        f"{directory}: `{name}` answers {len(texts)} texts with {output} "
                        f"{values.shape} that are not all numbers. Export the model again."
                    )
    return servable


class Source(NamedTuple):
    """Where a model's versions lie.

    Args:
        directory: which holds them by number; or the only one.
        version: the number of the only one; None looks for them.
    """

    directory: Path
    version: int | None = None

    def versions(self) -> dict[int, Path]:
        """The versions that lie there now, newest first."""
        if self.version is not None:
            return {self.version: self.directory}
        found = {int(one.name): one for one in _numbered(self.directory)}
        return dict(sorted(found.items(), reverse=True))


def find_models(path: Path) -> dict[str, Source]:
    """The models of a directory that `dssm export` wrote, by name.

    Args:
        path: `OUT` with several models, `OUT/NAME` with its versions, or `OUT/NAME/VERSION`.

    Raises:
        UserError: there is none.
    """
    path = Path(path).absolute()
    if (path / _SAVED_MODEL).is_file():
        number = path.name.isdecimal()
        name = path.parent.name if number else path.name
        return {name: Source(path, int(path.name) if number else 1)}
    if _numbered(path):
        return {path.name: Source(path)}
    inside = sorted(path.iterdir()) if path.is_dir() else []
    found = {one.name: Source(one) for one in inside if _numbered(one)}
    if not found:
        what = "is no model" if path.exists() else "does not exist"
        raise UserError(
            f"{path} {what}; expected a directory that `dssm export` or `dssm train` wrote."
        )
    return found


def is_run(path: Path) -> bool:
    """Whether a directory is what `dssm train` writes, finished or not."""
    return (path / _RUN).is_file() and not (path / _SAVED_MODEL).is_file()


def _numbered(directory: Path) -> Sequence[Path]:
    """The directories whose names are numbers."""
    try:
        return [one for one in directory.iterdir() if one.name.isdecimal() and one.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
