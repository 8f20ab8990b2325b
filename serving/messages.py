"""Texts and arrays as the tensors of TensorFlow Serving's messages, without TensorFlow.

The classes of `tensorflow-serving-api` import TensorFlow, which takes seconds and hundreds of
megabytes in a process that only asks for scores; those of `predict.proto` need protobuf alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from serving.predict_pb2 import DataType, ModelVersionStatus, Tensor

PREDICT = "/tensorflow.serving.PredictionService/Predict"
GET_MODEL_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"

# An array's type, and the field of the values when tensor_content is empty.
_DTYPES: dict[DataType, tuple[np.dtype[Any], str]] = {
    DataType.DT_FLOAT: (np.dtype("<f4"), "float_val"),
    DataType.DT_DOUBLE: (np.dtype("<f8"), "double_val"),
    DataType.DT_INT32: (np.dtype("<i4"), "int_val"),
    DataType.DT_STRING: (np.dtype(object), "string_val"),
    DataType.DT_INT64: (np.dtype("<i8"), "int64_val"),
    DataType.DT_BOOL: (np.dtype("?"), "bool_val"),
}


def state_name(status: ModelVersionStatus) -> str:
    """The state of a model's version by name; UNKNOWN if it is none that we know."""
    states = ModelVersionStatus.State
    return states.Name(status.state) if status.state in states.values() else "UNKNOWN"


def _encode_text(text: str) -> bytes:
    """A text's bytes as the model was trained on them: UTF-8, lone surrogates kept.

    >>> list(_encode_text("é"))
    [195, 169]
    """
    return text.encode("utf-8", "surrogatepass")


def encode_tensor(values: np.ndarray | Sequence[str]) -> Tensor:
    """A numeric array, or a sequence of texts as a `(n,)` string tensor, as a `Tensor`.

    >>> decode_tensor(encode_tensor(["red", "shoes"]), most=2).tolist()
    [b'red', b'shoes']
    """
    tensor = Tensor()
    if isinstance(values, np.ndarray):
        stored = values.dtype.newbyteorder("<")
        kinds = [number for number, (dtype, _) in _DTYPES.items() if dtype == stored]
        if not kinds or kinds == [DataType.DT_STRING]:
            raise ValueError(f"cannot encode an array of {values.dtype}; expected numbers.")
        tensor.dtype = kinds[0]
        tensor.tensor_content = values.astype(stored).tobytes()
        shape: tuple[int, ...] = values.shape
    else:
        tensor.dtype = DataType.DT_STRING
        tensor.string_val.extend(map(_encode_text, values))
        shape = (len(values),)
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    return tensor


def encode_fields(values: np.ndarray) -> Tensor:
    """A numeric array as a `Tensor` with its values in the field of their type.

    TensorFlow Serving answers so, and not every client reads `tensor_content`.

    >>> encode_fields(np.float32([[0.5], [2]])).float_val
    [0.5, 2.0]
    """
    tensor = encode_tensor(values)
    tensor.ClearField("tensor_content")
    _, field = _DTYPES[tensor.dtype]
    getattr(tensor, field).extend(values.ravel().tolist())
    return tensor


def decode_tensor(tensor: Tensor, most: int) -> np.ndarray:
    """A `Tensor` as an array; strings become an object array of `bytes`.

    Args:
        tensor: as it came.
        most: values that it may have; its shape may claim any number.

    Raises:
        ValueError: a type this package has no use for, values that do not fit the shape, or more
            than `most` of them.
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
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count > most:
        raise ValueError(f"tensor of the shape {shape}; expected {most:,} values at most.")
    if tensor.tensor_content:
        values = np.frombuffer(tensor.tensor_content, dtype)
    else:
        values = np.array(list(getattr(tensor, field)), dtype)
        # The format lets a sender leave out repetitions of the last value.
        missing = count - len(values)
        if missing > 0 and len(values):
            values = np.append(values, np.repeat(values[-1:], missing))
    if len(values) != count:
        raise ValueError(f"tensor of {len(values)} values does not fit its shape {shape}.")
    return values.reshape(shape)
