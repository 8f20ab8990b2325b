"""Answers Predict requests in JSON, in the row and column formats of TensorFlow Serving."""

from __future__ import annotations

from base64 import b64decode
from contextlib import ExitStack
from threading import Lock
from typing import Any

from pydantic_core import from_json, to_json

from dssm_tf.export.signatures import INPUTS
from dssm_tf.runtime.trained_ranker import Vectors
from dssm_tf.server.bodies import Answers, refuse_repeated_keys
from dssm_tf.server.limits import INVALID, Limits, Refusal
from dssm_tf.server.models import ServedModel
from dssm_tf.server.predict import compute, signature_of
from dssm_tf.server.scheduler import Blocks

# Bodies with more bytes are parsed one at a time: JSON can take many times its size in memory.
_LARGE = 1 << 18
_LARGE_LOCK = Lock()
_BLOCK_NUMBERS = 1 << 16  # of an answer
_NUMBER_BYTES = 22  # of a float32 in JSON, at most

_KEYS = ("signature_name", "instances", "inputs")


def answer(model: ServedModel, raw: bytes, limits: Limits, answers: Answers) -> Blocks[bytes]:
    """Answers a body: `predictions` of `instances` (rows), or `outputs` of `inputs` (columns).

    Raises:
        Refusal: the body is not such a request, or the answer is too large.
    """
    if len(raw) > _LARGE:
        with _LARGE_LOCK:
            by_row, signature, inputs = _parse(raw, limits)
    else:
        by_row, signature, inputs = _parse(raw, limits)
    del raw
    with ExitStack() as held:

        def reserve(count: int) -> None:
            held.enter_context(answers.hold(count * _NUMBER_BYTES))

        values = yield from compute(model, signature, inputs, limits, reserve)
        del inputs
        return (yield from _encode("predictions" if by_row else "outputs", values))


def _encode(key: str, values: Vectors) -> Blocks[bytes]:
    """The answer as JSON."""
    if values.ndim == 1:
        return b'{"%s": %s}\n' % (key.encode(), _json(values))
    parts, step = [], 1 + _BLOCK_NUMBERS // values.shape[1]
    for start in range(0, len(values), step):
        if start:
            yield
        rows = values[start : start + step]
        parts.append(_json(rows)[1:-1])
    return b'{"%s": [%s]}\n' % (key.encode(), b",".join(parts))


def _json(values: Vectors) -> bytes:
    return to_json(values.tolist(), inf_nan_mode="constants")


def _parse(raw: bytes, limits: Limits) -> tuple[bool, str, dict[str, list[bytes]]]:
    """Whether the body has rows, its signature, and the texts of each input."""
    refuse_repeated_keys(raw)
    try:
        body: Any = from_json(raw, cache_strings=False)
    except ValueError as error:
        raise Refusal(INVALID, f"the body is not JSON: {error}.") from None
    if not isinstance(body, dict):
        raise Refusal(INVALID, "the body: expected an object with instances or inputs.")
    if unknown := [key for key in body if key not in _KEYS]:
        raise Refusal(INVALID, f"{unknown[0]!r:.100}: expected one of {', '.join(_KEYS)}.")
    name = body.get("signature_name", "")
    if not isinstance(name, str):
        raise Refusal(INVALID, "signature_name: expected a string.")
    signature = signature_of(name)
    if ("instances" in body) == ("inputs" in body):
        raise Refusal(INVALID, "the body: expected either instances or inputs.")
    if "instances" in body:
        return True, signature, _of_rows(body["instances"], INPUTS[signature], limits)
    return False, signature, _of_columns(body["inputs"], INPUTS[signature], limits)


def _of_columns(inputs: Any, names: tuple[str, ...], limits: Limits) -> dict[str, list[bytes]]:
    if not isinstance(inputs, dict) or "b64" in inputs:
        if len(names) > 1:
            raise Refusal(INVALID, f"inputs: expected an object with {' and '.join(names)}.")
        inputs = {names[0]: inputs}
    for name in inputs:
        if name not in names:
            raise Refusal(
                INVALID, f"inputs: {name!r:.100} is unknown; expected {' and '.join(names)}."
            )
    texts = {}
    for name, values in inputs.items():
        if not isinstance(values, list):
            raise Refusal(INVALID, f"inputs.{name}: expected a list of strings.")
        _check_count(name, values, limits)
        texts[name] = [_text(f"inputs.{name}", i, value) for i, value in enumerate(values)]
    return texts


def _of_rows(instances: Any, names: tuple[str, ...], limits: Limits) -> dict[str, list[bytes]]:
    if not isinstance(instances, list) or not instances:
        raise Refusal(INVALID, "instances: expected a list of at least one row.")
    _check_count("instances", instances, limits)
    texts: dict[str, list[bytes]] = {name: [] for name in names}
    for i, row in enumerate(instances):
        if not isinstance(row, dict) or "b64" in row:
            if len(names) > 1:
                raise Refusal(
                    INVALID, f"instances.{i}: expected an object with {' and '.join(names)}."
                )
            row = {names[0]: row}
        if set(row) != set(names):
            received = ", ".join(row) or "nothing"
            raise Refusal(
                INVALID, f"instances.{i}: expected {' and '.join(names)}, not {received:.100}."
            )
        for name in names:
            texts[name].append(_text(f"instances.{i}.{name}", None, row[name]))
    return texts


def _check_count(name: str, values: list[Any], limits: Limits) -> None:
    if len(values) > limits.texts:
        raise Refusal(
            INVALID, f"{name}: {len(values):,} texts; at most {limits.texts:,} are allowed."
        )


def _text(name: str, position: int | None, value: Any) -> bytes:
    """The bytes of a text, or of `{"b64": ...}`.

    Args:
        name: the name of the field, for the message.
        position: the position in a list; None if it is not in a list.
        value: the value of the request.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and list(value) == ["b64"] and isinstance(value["b64"], str):
        try:
            return b64decode(value["b64"], validate=True)
        except ValueError:
            pass
    field = name if position is None else f"{name}.{position}"
    raise Refusal(INVALID, f'{field}: expected a string, or {{"b64": BASE64}}.')
