"""Statuses and signatures of models, as TensorFlow Serving's messages."""

from __future__ import annotations

from dssm_tf.export.signatures import INPUTS
from dssm_tf.runtime.vector_ranker import VectorRanker
from dssm_tf.server.models import ServedModel, Snapshot
from dssm_tf.server.predict import OUTPUTS
from dssm_tf.server.scheduler import Blocks
from serving.predict_pb2 import (
    DT_FLOAT,
    DT_STRING,
    GetModelStatusResponse,
    ModelVersionStatus,
    SignatureDef,
    SignatureDefMap,
    StatusProto,
    TensorInfo,
    TensorShape,
)

_METHOD = "tensorflow/serving/predict"


def statuses(snapshot: Snapshot, name: str, version: int | None) -> GetModelStatusResponse:
    """The states of the versions of a model, newest first. Refused versions have the state END.

    Args:
        snapshot: the served models.
        name: the name of the model.
        version: the only version to report; None for all.

    Raises:
        Refusal: no such model is served.
    """
    available = snapshot.versions_of(name)
    failures = snapshot.failures.get(name, {})
    response = GetModelStatusResponse()
    for number in sorted({*available, *failures}, reverse=True):
        if version not in (None, number):
            continue
        state, code, message = ModelVersionStatus.AVAILABLE, StatusProto.OK, ""
        if number not in available:
            state, code, message = ModelVersionStatus.END, StatusProto.DATA_LOSS, failures[number]
        status = StatusProto(error_code=code, error_message=message)
        response.model_version_status.add(version=number, state=state, status=status)
    return response


def signatures(model: ServedModel) -> Blocks[SignatureDefMap]:
    """The inputs and outputs of a model; one block of work."""
    yield from ()
    ranker, definitions = model.ranker, SignatureDefMap()
    for name, inputs in INPUTS.items():
        sizes = [-1]
        if OUTPUTS[name] == "embeddings":
            if not isinstance(ranker, VectorRanker):
                continue
            encode = getattr(ranker, f"encode_{inputs[0]}")
            sizes.append(encode([""], prior=True).shape[1])
        texts = {
            text: TensorInfo(name=f"{name}_{text}:0", dtype=DT_STRING, tensor_shape=_shape([-1]))
            for text in inputs
        }
        output = TensorInfo(
            name="StatefulPartitionedCall:0", dtype=DT_FLOAT, tensor_shape=_shape(sizes)
        )
        definition = SignatureDef(
            inputs=texts, outputs={OUTPUTS[name]: output}, method_name=_METHOD
        )
        definitions.signature_def[name].CopyFrom(definition)
    return definitions


def _shape(sizes: list[int]) -> TensorShape:
    return TensorShape(dim=[{"size": size} for size in sizes])
