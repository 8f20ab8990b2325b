"""A SavedModel behind the server, run by TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.data.schema import FeatureSpec, load_vocabulary
from dssm_tf.server.servable import Texts
from dssm_tf.text.vocabulary import Vocabulary
from serving.predict_pb2 import SignatureDefMap

SAVED_MODEL = "saved_model.pb"


class SavedModel:
    """What `dssm export` wrote, as a `Servable`.

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
        self._directory = directory
        self._model = load_export(directory)
        saved = saved_model_pb2.SavedModel.FromString((directory / SAVED_MODEL).read_bytes())
        self.definition = SignatureDefMap()
        for name, signature in saved.meta_graphs[0].signature_def.items():
            self.definition.signature_def[name].ParseFromString(signature.SerializeToString())

    def run(self, signature: str, inputs: Texts) -> dict[str, NDArray[Any]]:
        """See `Servable`."""
        given = {name: self._constant(texts, self._string) for name, texts in inputs.items()}
        found = self._model.signatures[signature](**given)
        return {name: tensor.numpy() for name, tensor in found.items()}

    def mean_prior(self) -> float:
        """See `Servable`."""
        from dssm_tf.export.saved_model import read_mean_prior

        return read_mean_prior(self._directory)

    def vocabulary(self) -> Vocabulary:
        """See `Servable`."""
        beside = self._directory / "assets.extra"
        return load_vocabulary(beside, FeatureSpec.load(beside))
