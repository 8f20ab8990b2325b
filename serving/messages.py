"""Texts and vectors as the tensors of TensorFlow Serving's messages, without TensorFlow.

The classes of `tensorflow-serving-api` import TensorFlow, which takes seconds and hundreds of
megabytes in a process that only asks for scores; those of `predict.proto` need protobuf alone.

A shape comes from a stranger. Its sizes are compared one by one and never multiplied, and no error
prints it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from serving.predict_pb2 import DT_FLOAT, DT_STRING, DataType, ModelVersionStatus, Tensor

PREDICT = "/tensorflow.serving.PredictionService/Predict"
GET_MODEL_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"


def state_name(status: ModelVersionStatus) -> str:
    """The state of a model's version by name; UNKNOWN if it is not a state of ours."""
    states = ModelVersionStatus.State
    return states.Name(status.state) if status.state in states.values() else "UNKNOWN"


def encode_texts(texts: Sequence[str]) -> Tensor:
    """Texts as a string tensor `(n,)`: UTF-8, lone surrogates kept.

    >>> decode_texts(encode_texts(["red", "shoes"]), max_texts=2, max_bytes=8)
    [b'red', b'shoes']
    """
    tensor = _tensor(DT_STRING, (len(texts),))
    tensor.string_val.extend(text.encode("utf-8", "surrogatepass") for text in texts)
    return tensor


def decode_texts(tensor: Tensor, max_texts: int, max_bytes: int) -> list[bytes]:
    """The texts of a string tensor `(n,)`.

    Args:
        tensor: from a stranger.
        max_texts: so many texts are read at most.
        max_bytes: of all texts together, repetitions written out.

    Raises:
        ValueError: it is another kind of tensor, or too large.
    """
    sizes, values = tensor.tensor_shape.dim, tensor.string_val
    if tensor.dtype != DT_STRING or len(sizes) != 1:
        raise ValueError("expected DT_STRING of the shape (n,)")
    count = sizes[0].size
    if not 0 <= count <= max_texts:
        raise ValueError(f"holds {count:,} texts; expected at most {max_texts:,}")
    missing = _missing(count, len(values))
    last = list(values[-1:])
    if sum(map(len, values)) + missing * sum(map(len, last)) > max_bytes:
        raise ValueError(f"texts are longer than {max_bytes:,} bytes together")
    return [*values, *last * missing]


def encode_floats(values: NDArray[np.float32]) -> Tensor:
    """An array as a float tensor, its values in `float_val`, which every client reads.

    >>> encode_floats(np.float32([[0.5], [2]])).float_val
    [0.5, 2.0]
    """
    tensor = _tensor(DT_FLOAT, values.shape)
    tensor.float_val.extend(values.ravel().tolist())
    return tensor


def decode_floats(tensor: Tensor, shape: tuple[int | None, ...], max_width: int) -> np.ndarray:
    """The values of a float tensor, float32 of the shape.

    Args:
        tensor: from a stranger.
        shape: that it must have; None is a size from 1 to `max_width`.
        max_width: see `shape`.

    Raises:
        ValueError: it is another kind of tensor, or holds values that are not finite.
    """
    sizes = [dim.size for dim in tensor.tensor_shape.dim[: len(shape) + 1]]
    fits = len(sizes) == len(shape) and all(
        0 < size <= max_width if expected is None else size == expected
        for size, expected in zip(sizes, shape, strict=True)
    )
    if tensor.dtype != DT_FLOAT or not fits:
        expected = ", ".join("d" if size is None else str(size) for size in shape)
        raise ValueError(f"expected DT_FLOAT of the shape ({expected})")
    values = np.frombuffer(tensor.tensor_content, "<f4")
    if not len(values):
        values = np.array(tensor.float_val, np.float32)
    missing = _missing(math.prod(sizes), len(values))
    values = np.pad(values, (0, missing), "edge")
    if not np.isfinite(values).all():
        raise ValueError("holds numbers that are not finite")
    return values.reshape(sizes)


def _missing(count: int, values: int) -> int:
    """How often the last value is to be repeated: the format lets a sender leave that out."""
    if values > count or (count and not values):
        raise ValueError(f"holds {values:,} values; its shape says {count:,}")
    return count - values


def _tensor(dtype: DataType, shape: Sequence[int]) -> Tensor:
    tensor = Tensor(dtype=dtype)
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    return tensor
