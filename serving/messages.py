"""The messages of TensorFlow Serving's gRPC interface, without TensorFlow.

The generated classes of `tensorflow-serving-api` import TensorFlow, which takes seconds and
hundreds of megabytes in a process that only asks for scores. The messages themselves are a few
lines each and are built here from their field numbers, in a descriptor pool of their own, so both
can live in one process. The bytes are the same: a test parses them with the generated classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

PREDICT = "/tensorflow.serving.PredictionService/Predict"
GET_MODEL_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"

# Fields this package neither reads nor writes are left out; parsing keeps and ignores them.
# Enumerations stand as int32, which has the same bytes.
_TENSORFLOW = {
    "Dim": "int64 size = 1; string name = 2",
    "TensorShapeProto": "repeated Dim dim = 2; bool unknown_rank = 3",
    "TensorProto": """
        int32 dtype = 1; TensorShapeProto tensor_shape = 2; int32 version_number = 3;
        bytes tensor_content = 4; repeated float float_val = 5; repeated double double_val = 6;
        repeated int32 int_val = 7; repeated bytes string_val = 8; repeated int64 int64_val = 10;
        repeated bool bool_val = 11
    """,
}
_SERVING = {
    "ModelSpec": """
        string name = 1; google.protobuf.Int64Value version = 2; string signature_name = 3;
        string version_label = 4
    """,
    "PredictRequest": """
        ModelSpec model_spec = 1; map<string, tensorflow.TensorProto> inputs = 2;
        repeated string output_filter = 3
    """,
    "PredictResponse": """
        map<string, tensorflow.TensorProto> outputs = 1; ModelSpec model_spec = 2
    """,
    "GetModelStatusRequest": "ModelSpec model_spec = 1",
    "StatusProto": "int32 error_code = 1; string error_message = 2",
    "ModelVersionStatus": "int64 version = 1; int32 state = 2; StatusProto status = 3",
    "GetModelStatusResponse": "repeated ModelVersionStatus model_version_status = 1",
}

# What ModelVersionStatus.state means.
STATES = {
    0: "UNKNOWN",
    10: "START",
    20: "LOADING",
    30: "AVAILABLE",
    40: "UNLOADING",
    50: "END",
}

# TensorProto.dtype: the array's type, and the field of the values when tensor_content is empty.
_DTYPES: dict[int, tuple[np.dtype[Any], str]] = {
    1: (np.dtype("<f4"), "float_val"),
    2: (np.dtype("<f8"), "double_val"),
    3: (np.dtype("<i4"), "int_val"),
    7: (np.dtype(object), "string_val"),
    9: (np.dtype("<i8"), "int64_val"),
    10: (np.dtype("?"), "bool_val"),
}
_STRING = 7

_FIELD = descriptor_pb2.FieldDescriptorProto
_DECLARATION = re.compile(
    r"(?:(?P<repeated>repeated )|map<string, (?P<value>[\w.]+)> )?"
    r"(?P<type>[\w.]+ )?(?P<name>\w+) = (?P<number>\d+)"
)


def _add_field(message: Any, package: str, declaration: str) -> None:
    """Adds one field, declared as in a .proto file, to a message descriptor."""
    match = _DECLARATION.fullmatch(" ".join(declaration.split()))
    if match is None:
        raise ValueError(f"{message.name}: cannot read the field {declaration!r}")
    type_name = (match["type"] or "").strip()
    repeated = bool(match["repeated"])
    if match["value"]:  # a map is a repeated message of key and value
        entry = match["name"].title().replace("_", "") + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        _add_field(nested, package, "string key = 1")
        _add_field(nested, package, f"{match['value']} value = 2")
        type_name, repeated = f"{package}.{message.name}.{entry}", True
    field = message.field.add(
        name=match["name"],
        number=int(match["number"]),
        label=_FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL,
    )
    scalar = f"TYPE_{type_name.upper()}"
    if hasattr(_FIELD, scalar):
        field.type = getattr(_FIELD, scalar)
    else:
        field.type = _FIELD.TYPE_MESSAGE
        field.type_name = "." + (type_name if "." in type_name else f"{package}.{type_name}")


def _message_classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    needed = [wrappers_pb2.DESCRIPTOR.name]
    classes = {}
    for package, schema in {"tensorflow": _TENSORFLOW, "tensorflow.serving": _SERVING}.items():
        file = descriptor_pb2.FileDescriptorProto(
            name=f"{package}.proto", package=package, syntax="proto3", dependency=needed
        )
        for name, fields in schema.items():
            message = file.message_type.add(name=name)
            for declaration in fields.split(";"):
                _add_field(message, package, declaration)
        pool.AddSerializedFile(file.SerializeToString())
        needed.append(file.name)
        for name in schema:
            descriptor = pool.FindMessageTypeByName(f"{package}.{name}")
            classes[name] = message_factory.GetMessageClass(descriptor)
    return classes


_CLASSES = _message_classes()
TensorProto = _CLASSES["TensorProto"]
PredictRequest = _CLASSES["PredictRequest"]
PredictResponse = _CLASSES["PredictResponse"]
GetModelStatusRequest = _CLASSES["GetModelStatusRequest"]
GetModelStatusResponse = _CLASSES["GetModelStatusResponse"]


def encode_text(text: str) -> bytes:
    """A text's bytes as the model was trained on them: UTF-8, lone surrogates kept.

    >>> list(encode_text("é"))
    [195, 169]
    """
    return text.encode("utf-8", "surrogatepass")


def encode_tensor(values: np.ndarray | Sequence[str]) -> Any:
    """A numeric array, or a sequence of texts as a `(n,)` string tensor, as a `TensorProto`.

    >>> decode_tensor(encode_tensor(["red", "shoes"])).tolist()
    [b'red', b'shoes']
    """
    tensor = TensorProto()
    if isinstance(values, np.ndarray):
        stored = values.dtype.newbyteorder("<")
        kinds = [number for number, (dtype, _) in _DTYPES.items() if dtype == stored]
        if not kinds or kinds == [_STRING]:
            raise ValueError(f"cannot encode an array of {values.dtype}; expected numbers.")
        tensor.dtype = kinds[0]
        tensor.tensor_content = values.astype(stored).tobytes()
        shape: tuple[int, ...] = values.shape
    else:
        tensor.dtype = _STRING
        tensor.string_val.extend(map(encode_text, values))
        shape = (len(values),)
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    return tensor


def decode_tensor(tensor: Any) -> np.ndarray:
    """A `TensorProto` as an array; strings become an object array of `bytes`.

    Raises:
        ValueError: a type this package has no use for, or values that do not fit the shape.
    """
    if tensor.dtype not in _DTYPES:
        raise ValueError(
            f"tensor of type number {tensor.dtype}; readable are {sorted(_DTYPES)} "
            "(numbered as tensorflow.DataType)."
        )
    if tensor.tensor_shape.unknown_rank:
        raise ValueError("tensor of unknown rank; values need a shape.")
    dtype, field = _DTYPES[tensor.dtype]
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    if tensor.tensor_content:
        values = np.frombuffer(tensor.tensor_content, dtype)
    else:
        values = np.array(list(getattr(tensor, field)), dtype)
        # The format lets a sender leave out repetitions of the last value.
        missing = int(np.prod(shape)) - len(values)
        if missing > 0 and len(values):
            values = np.append(values, np.repeat(values[-1:], missing))
    if len(values) != np.prod(shape):
        raise ValueError(f"tensor of {len(values)} values does not fit its shape {shape}.")
    return values.reshape(shape)
