"""What the server asks of a model, whatever runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from dssm_tf.text.vocabulary import Vocabulary
from serving.predict_pb2 import SignatureDefMap

Texts = Mapping[str, list[bytes]]
"""The texts of each input by its name, UTF-8."""


class Servable(Protocol):
    """A loaded model. Threads share it.

    Attributes:
        definition: its signatures; their inputs are texts `(n,)`.
    """

    definition: SignatureDefMap

    def run(self, signature: str, inputs: Texts) -> dict[str, NDArray[Any]]:
        """Runs a signature of the definition on its inputs; returns its outputs by name."""
        ...

    def mean_prior(self) -> float:
        """What the average title that was clicked scores whatever the query."""
        ...

    def vocabulary(self) -> Vocabulary:
        """The letter trigrams it knows."""
        ...
