"""Runs a SavedModel by TensorFlow's C API, in a process that has no TensorFlow of Python's.

    python c_runtime.py LIBRARIES < CALLS > ANSWERS

It is the loader that TensorFlow Serving has: it reads the graph, restores the variables, runs the
functions, and knows no line of the package. CALLS is JSON: of each SavedModel's directory a list of
`{"inputs": {tensor: texts in base 64}, "outputs": [tensor, ...]}`; ANSWERS has lists of `{tensor:
{"shape": ..., "values": ...}}` in their places, or the text of an error.
"""

import base64
import ctypes
import json
import sys
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

FLOAT, STRING = 1, 7  # of TF_DataType
STRING_BYTES = 24  # of TF_TString


class Output(ctypes.Structure):
    """TF_Output: the tensor that an operation gives at a place."""

    _fields_ = [("operation", c_void_p), ("index", c_int)]


def library(folder: Path) -> ctypes.CDLL:
    """The C API, in the libraries of the wheel."""
    names = ("libtensorflow_framework", "libtensorflow_cc")
    ctypes.CDLL(str(next(folder.glob(f"{names[0]}.*"))), ctypes.RTLD_GLOBAL)
    c = ctypes.CDLL(str(next(folder.glob(f"{names[1]}.*"))), ctypes.RTLD_GLOBAL)
    for name in (
        "TF_NewStatus", "TF_NewGraph", "TF_NewSessionOptions", "TF_LoadSessionFromSavedModel",
        "TF_GraphOperationByName", "TF_AllocateTensor", "TF_TensorData",
    ):  # fmt: skip
        getattr(c, name).restype = c_void_p
    c.TF_Message.restype = c_char_p
    c.TF_Dim.restype = c_int64
    return c


class Model:
    """A SavedModel in a session."""

    def __init__(self, c: ctypes.CDLL, directory: str) -> None:
        self._c = c
        self._status = c_void_p(c.TF_NewStatus())
        self._graph = c_void_p(c.TF_NewGraph())
        tags = (c_char_p * 1)(b"serve")
        self._session = c_void_p(
            c.TF_LoadSessionFromSavedModel(
                c_void_p(c.TF_NewSessionOptions()), None, directory.encode(), tags, 1,
                self._graph, None, self._status,
            )
        )  # fmt: skip
        self._check()

    def run(self, inputs: dict[str, list[bytes]], outputs: list[str]) -> dict[str, dict]:
        """Feeds texts to tensors and fetches others, of floats."""
        given = (Output * len(inputs))(*map(self._output, inputs))
        values = (c_void_p * len(inputs))(*map(self._strings, inputs.values()))
        wanted = (Output * len(outputs))(*map(self._output, outputs))
        found = (c_void_p * len(outputs))()
        self._c.TF_SessionRun(
            self._session, None, given, values, len(inputs), wanted, found, len(outputs),
            None, 0, None, self._status,
        )  # fmt: skip
        self._check()
        return {name: self._floats(c_void_p(one)) for name, one in zip(outputs, found, strict=True)}

    def _output(self, tensor: str) -> Output:
        name, _, index = tensor.partition(":")
        operation = self._c.TF_GraphOperationByName(self._graph, name.encode())
        if not operation:
            raise ValueError(f"the graph has no operation {name!r}")
        return Output(operation, int(index))

    def _strings(self, texts: list[bytes]) -> int:
        shape = (c_int64 * 1)(len(texts))
        tensor = self._c.TF_AllocateTensor(STRING, shape, 1, c_size_t(STRING_BYTES * len(texts)))
        data = self._c.TF_TensorData(c_void_p(tensor))
        for place, text in enumerate(texts):
            at = c_void_p(data + STRING_BYTES * place)
            self._c.TF_StringInit(at)
            self._c.TF_StringCopy(at, text, c_size_t(len(text)))
        return tensor

    def _floats(self, tensor: c_void_p) -> dict:
        kind = self._c.TF_TensorType(tensor)
        if kind != FLOAT:
            raise ValueError(f"the answer has type {kind}, not float32")
        shape = [self._c.TF_Dim(tensor, axis) for axis in range(self._c.TF_NumDims(tensor))]
        size = 1
        for length in shape:
            size *= length
        values = (ctypes.c_float * size).from_address(self._c.TF_TensorData(tensor) or 0)[:size]
        return {"shape": shape, "values": values}

    def _check(self) -> None:
        if self._c.TF_GetCode(self._status):
            raise ValueError(self._c.TF_Message(self._status).decode())


def answer(c: ctypes.CDLL, directory: str, calls: list[dict]) -> list[dict] | str:
    """What a SavedModel answers to its calls, or why it does not."""
    try:
        model = Model(c, directory)
        return [
            model.run(
                {
                    name: [base64.b64decode(text) for text in texts]
                    for name, texts in call["inputs"].items()
                },
                call["outputs"],
            )
            for call in calls
        ]
    except ValueError as error:
        return str(error)


def main(libraries: str) -> None:
    """Answers the calls of standard input on standard output."""
    c = library(Path(libraries))
    answers = {where: answer(c, where, calls) for where, calls in json.load(sys.stdin).items()}
    if "tensorflow" in sys.modules:
        raise RuntimeError("this process was to have no TensorFlow of Python's")
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
