"""What the server answers, whatever protocol asks: models by name, limits, and runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dssm_tf.common.errors import did_you_mean
from dssm_tf.server.metrics import Metrics
from dssm_tf.server.models import Model, Version, VersionState
from dssm_tf.server.servable import Texts
from serving.predict_pb2 import ModelSpec, SignatureDef

_LOG = logging.getLogger("dssm_tf.server")

_DEFAULT_SIGNATURE = "serving_default"


class Refusal(Exception):
    """A request that is not answered, and why in one line.

    Args:
        message: names the field of the request.
        status: the name of a gRPC status.
    """

    def __init__(self, message: str, status: str = "INVALID_ARGUMENT") -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for.

    Attributes:
        batch_size: texts of an input.
        text_bytes: of a text, as UTF-8.
        body_bytes: of a whole request.
    """

    batch_size: int = 4096
    text_bytes: int = 1 << 16
    body_bytes: int = 1 << 24

    def check_size(self, field: str, texts: int) -> None:
        """Raises Refusal where an input holds too many texts."""
        if texts > self.batch_size:
            raise Refusal(
                f"{field} holds {texts:,} texts, more than max_batch_size, {self.batch_size:,}."
            )

    def check(self, inputs: Texts) -> None:
        """Raises Refusal where texts are too many or too long, or do not fit each other."""
        for name, texts in inputs.items():
            self.check_size(f"inputs[{name!r}]", len(texts))
            for place, text in enumerate(texts):
                if len(text) > self.text_bytes:
                    raise Refusal(
                        f"inputs[{name!r}][{place}] has {len(text):,} bytes, more than "
                        f"max_text_bytes, {self.text_bytes:,}."
                    )
        sizes = {name: len(texts) for name, texts in inputs.items()}
        if len(set(sizes.values())) > 1 and sizes.get("queries") != 1:
            told = " and ".join(f"{size} {name}" for name, size in sorted(sizes.items()))
            raise Refusal(
                f"inputs hold {told}; expected as many of both, or one query for all titles."
            )


class Predicted(NamedTuple):
    """What a signature of a version made of texts: arrays by the names of its outputs."""

    version: Version
    signature: str
    outputs: dict[str, NDArray[Any]]


class Service:
    """The models of a server. Threads share it.

    Args:
        models: by name.
        limits: of a request.
        metrics: where requests are counted.
    """

    def __init__(self, models: Mapping[str, Model], limits: Limits, metrics: Metrics) -> None:
        self.models = models
        self.limits = limits
        self.metrics = metrics

    def predict(
        self,
        spec: ModelSpec,
        signature: str,
        read: Callable[[SignatureDef], Texts],
        only: Sequence[str] = (),
    ) -> Predicted:
        """Runs a signature on texts.

        Args:
            spec: names the model.
            signature: its name; empty for the default one.
            read: gives the texts of each input of that signature.
            only: outputs to return; all if empty.

        Raises:
            Refusal: there is no such model or signature, or its inputs are not these texts.
        """
        version = self.version(spec)
        name = signature or _DEFAULT_SIGNATURE
        known = version.servable.definition.signature_def
        if name not in known or not known[name].inputs:
            ours = sorted(one for one in known if known[one].inputs)
            raise Refusal(
                f"signature_name: {name!r:.100} is none of model {version.model!r}; expected one "
                f"of {', '.join(ours)}.{did_you_mean(name, ours)}",
                "FAILED_PRECONDITION",
            )
        outputs = sorted(known[name].outputs)
        if len(set(only)) < len(only) or not set(only) <= set(outputs):
            raise Refusal(
                f"output_filter is {list(only)!r:.200}; expected some of {outputs}, each once."
            )
        inputs = read(known[name])
        self.limits.check(inputs)
        started = perf_counter()
        found = version.servable.run(name, inputs)
        self.metrics.ran(version.model, perf_counter() - started)
        return Predicted(version, name, {one: found[one] for one in only} if only else found)

    def version(self, spec: ModelSpec) -> Version:
        """The version that a request asks for; raises Refusal where it is not served."""
        current = self._model(spec).current
        if current is None or (spec.HasField("version") and spec.version.value != current.number):
            answering = f"; version {current.number} is" if current else ""
            raise Refusal(
                f"model_spec.version: {spec.version.value} of model {spec.name!r:.100} is not "
                f"served{answering}.",
                "NOT_FOUND",
            )
        return current

    def states(self, spec: ModelSpec) -> dict[int, VersionState]:
        """What became of a model's versions, newest first; of the one that is asked for, if one is.

        Raises:
            Refusal: there is none.
        """
        states = self._model(spec).states()
        if not spec.HasField("version"):
            return states
        if (number := spec.version.value) not in states:
            told = f"model_spec.version: model {spec.name!r:.100} has no {number}."
            raise Refusal(told, "NOT_FOUND")
        return {number: states[number]}

    def _model(self, spec: ModelSpec) -> Model:
        if not spec.name:
            raise Refusal("model_spec.name is empty; expected a model's name.")
        if spec.version_label:
            raise Refusal(
                f"model_spec.version_label: {spec.version_label!r:.100} is no label of this "
                "server, which has none; leave it out."
            )
        if spec.name not in self.models:
            raise Refusal(
                f"model_spec.name: no model {spec.name!r:.100} is served; there is "
                f"{', '.join(sorted(self.models))}.{did_you_mean(spec.name, self.models)}",
                "NOT_FOUND",
            )
        return self.models[spec.name]

    @contextmanager
    def counted(self, spec: ModelSpec, api: str, entrypoint: str) -> Iterator[None]:
        """Counts a request; what goes wrong in the block is a `Refusal` in the end."""
        started, status = perf_counter(), "OK"
        try:
            yield
        except Refusal as refusal:
            status = refusal.status
            raise
        except Exception as error:
            # Not the error's own text, in which a query may stand.
            status = "INTERNAL"
            _LOG.error("%s of %.100s failed: %s", api, spec.name, type(error).__name__)
            _LOG.debug("", exc_info=error)
            raise Refusal(f"the model failed ({type(error).__name__}).", status) from error
        finally:
            name = spec.name if spec.name in self.models else ""
            self.metrics.answered(name, status, api, entrypoint, perf_counter() - started)
