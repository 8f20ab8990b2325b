"""TensorFlow Serving's messages, without TensorFlow.

The classes of `tensorflow-serving-api` import TensorFlow, which takes seconds and hundreds of
megabytes in a process that only requests scores. The classes of `predict.proto` need only protobuf.

Shapes are untrusted input: each is only compared with the shape that the number of values implies,
and no error message prints it. TensorFlow's format allows a sender to omit repetitions of the last
value. No known client does so, and this module requires every value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from serving.predict_pb2 import DT_FLOAT, DT_STRING, Tensor

PREDICT = "/tensorflow.serving.PredictionService/Predict"
"""Name of the gRPC method."""


def encode_texts(texts: Sequence[str]) -> Tensor:
    """Texts as a string tensor `(n,)`: UTF-8, including lone surrogates.

    >>> list(encode_texts(["red", "shoes"]).string_val)
    [b'red', b'shoes']
    """
    values = [text.encode("utf-8", "surrogatepass") for text in texts]
    shape = {"dim": [{"size": len(values)}]}
    return Tensor(dtype=DT_STRING, tensor_shape=shape, string_val=values)


def decode_texts(tensor: Tensor, max_texts: int) -> Sequence[bytes]:
    """The texts of an untrusted string tensor `(n,)`.

    Raises:
        ValueError: the tensor has another type or shape, does not have `n` texts, or has more
            than `max_texts`.
    """
    sizes, values = tensor.tensor_shape.dim, tensor.string_val
    if tensor.dtype != DT_STRING or len(sizes) != 1 or sizes[0].size != len(values):
        raise ValueError("expected DT_STRING of the shape (n,), and n texts")
    if len(values) > max_texts:
        raise ValueError(f"{len(values):,} texts; at most {max_texts:,} are allowed")
    return values


def encode_floats(values: NDArray[np.float32]) -> Tensor:
    """An array as a float tensor. The values are in `float_val`, because every client reads it.

    >>> encode_floats(np.float32([[0.5], [2]])).float_val
    [0.5, 2.0]
    """
    shape = {"dim": [{"size": size} for size in values.shape]}
    return Tensor(dtype=DT_FLOAT, tensor_shape=shape, float_val=values.ravel().tolist())


def decode_floats(tensor: Tensor, row_count: int, dimensions: int) -> NDArray[np.float32]:
    """The values of an untrusted float tensor.

    Args:
        tensor: `(rows,)`, or `(rows, d)` with `d` above 0.
        row_count: number of requested rows, at least 1.
        dimensions: number of dimensions, 1 or 2.

    Raises:
        ValueError: the tensor has another type or shape, or has values that are not finite.
    """
    values = np.frombuffer(tensor.tensor_content, "<f4")
    if not len(values):
        values = np.array(tensor.float_val, np.float32)
    shape = (row_count,) if dimensions == 1 else (row_count, len(values) // row_count)
    sizes = tuple(dim.size for dim in tensor.tensor_shape.dim[: dimensions + 1])
    if tensor.dtype != DT_FLOAT or sizes != shape or not 0 < math.prod(shape) == len(values):
        expected = f"({row_count},)" if dimensions == 1 else f"({row_count}, d)"
        raise ValueError(f"expected DT_FLOAT of the shape {expected}, and its values")
    if not np.isfinite(values).all():
        raise ValueError("some values are not finite")
    return values.reshape(shape)
