"""A compact model behind the signatures of a SavedModel; no TensorFlow is loaded for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime import Ranker
from dssm_tf.runtime.compact_files import read_compact
from dssm_tf.server.servable import Texts
from dssm_tf.text.vocabulary import Vocabulary
from serving.predict_pb2 import DT_FLOAT, DT_STRING, SignatureDefMap, TensorInfo

_SCORES = ("score", "serving_default")


class CompactModel:
    """What `dssm export --format compact` wrote, as a `Servable`.

    Args:
        directory: of one version.

    Raises:
        UserError: it is no compact model, or a file of it is damaged.
    """

    def __init__(self, directory: Path) -> None:
        compact = read_compact(directory)
        self._ranker = Ranker(compact)
        self.definition = SignatureDefMap()
        for side, name in (("query", "queries"), ("title", "titles")):
            for ending, more in (("", 0), ("_with_prior", 1)):
                shape = (-1, compact.dimension + more)
                self._define(f"encode_{side}{ending}", [name], "embeddings", shape)
        for signature in _SCORES:
            self._define(signature, ["queries", "titles"], "scores", (-1,))

    def run(self, signature: str, inputs: Texts) -> dict[str, NDArray[Any]]:
        """See `Servable`."""
        texts = {
            name: [one.decode("utf-8", "replace") for one in raw] for name, raw in inputs.items()
        }
        if signature in _SCORES:
            return {"scores": self._score(texts["queries"], texts["titles"])}
        prior = signature.endswith("_with_prior")
        if "queries" in texts:
            return {"embeddings": self._ranker.encode_queries(texts["queries"], prior)}
        return {"embeddings": self._ranker.encode_titles(texts["titles"], prior)}

    def mean_prior(self) -> float:
        """See `Servable`."""
        return self._ranker.mean_prior

    def vocabulary(self) -> Vocabulary:
        """See `Servable`."""
        return self._ranker.vocabulary

    def _score(self, queries: list[str], titles: list[str]) -> NDArray[np.float32]:
        """One query for all titles, or one for each; a query that is repeated is encoded once."""
        distinct = {query: place for place, query in enumerate(dict.fromkeys(queries))}
        vectors = self._ranker.encode_queries(list(distinct), prior=True)
        rows = vectors[[distinct[query] for query in queries]]
        scored = self._ranker.encode_titles(titles, prior=True)
        found: NDArray[np.float32] = (rows * scored).sum(axis=1)
        return found

    def _define(self, name: str, inputs: list[str], output: str, shape: tuple[int, ...]) -> None:
        signature = self.definition.signature_def[name]
        signature.method_name = "tensorflow/serving/predict"
        for one in inputs:
            _describe(signature.inputs[one], f"{name}_{one}:0", DT_STRING, (-1,))
        _describe(signature.outputs[output], f"{name}_{output}:0", DT_FLOAT, shape)


def _describe(tensor: TensorInfo, name: str, dtype: Any, shape: tuple[int, ...]) -> None:
    tensor.name, tensor.dtype = name, dtype
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
