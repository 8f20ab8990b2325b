"""What the neurons of a CLSM's maximum saw: which words win them, on one side and on both."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

ACTIVE = 5
LINKS = 10


class Link(NamedTuple):
    """A neuron that is high for a query and a title, and the words that win it.

    Attributes:
        neuron: its number in the maximum.
        query: place of the query's word.
        title: place of the title's word.
        product: of the two maxima.
    """

    neuron: int
    query: int
    title: int
    product: float


def winners(features: Array, number: int = ACTIVE) -> list[tuple[int, int]]:
    """The most active neurons and the place of the word that wins each, most active first.

    Args:
        features: `h_t(i)`, `(words, neurons)`.
        number: of neurons.

    Reference: Shen et al. 2014, sec. 3.4 and table 3.
    """
    chosen = np.argsort(-features.max(axis=0), kind="stable")[:number]
    return [(int(neuron), int(features[:, neuron].argmax())) for neuron in chosen]


def links(query: Array, title: Array, number: int = LINKS) -> list[Link]:
    """The neurons that are high on both sides: the largest products of two positive maxima.

    The paper takes those above a threshold it does not give.

    Args:
        query: the query's `h_t(i)`, `(words, neurons)`.
        title: the title's, `(words, neurons)`.
        number: at most so many.

    Reference: Shen et al. 2014, sec. 5.4 and fig. 4.
    """
    highest = np.stack([query.max(axis=0), title.max(axis=0)])
    products = np.where((highest > 0).all(axis=0), highest.prod(axis=0), -np.inf)
    chosen = [i for i in np.argsort(-products, kind="stable")[:number] if products[i] > 0]
    return [
        Link(int(i), int(query[:, i].argmax()), int(title[:, i].argmax()), float(products[i]))
        for i in chosen
    ]
