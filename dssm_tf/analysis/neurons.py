"""The words that win the neurons of a CLSM's max pooling, in one text or in both.

A word wins a neuron if the neuron has its maximum over the text at this word.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

ACTIVE_NEURONS = 5
"""Default number of the most active neurons."""
LINKS = 10
"""Default maximum number of links."""


class Link(NamedTuple):
    """A neuron with high values in a query and a title, and the words that win it.

    Attributes:
        neuron: index in the pooled vector.
        query: position of the winning word in the query.
        title: position of the winning word in the title.
        product: product of the two maxima.
    """

    neuron: int
    query: int
    title: int
    product: float


class Winner(NamedTuple):
    """The index of a neuron, and the position of the word that wins it."""

    neuron: int
    position: int


def winners(features: Array, count: int = ACTIVE_NEURONS) -> list[Winner]:
    """The most active neurons, each with the position of its winning word, most active first.

    Args:
        features: `h_t(i)`, `(words, neurons)`.
        count: number of neurons to return.

    Reference: Shen et al. 2014, sec. 3.4 and table 3.
    """
    chosen = np.argsort(-features.max(axis=0), kind="stable")[:count]
    return [Winner(int(neuron), int(features[:, neuron].argmax())) for neuron in chosen]


def links(query: Array, title: Array, count: int = LINKS) -> list[Link]:
    """The neurons with high values in both texts, by the product of their two positive maxima.

    The paper selects them by a threshold but does not give its value. Here, the `count` largest
    products are selected instead.

    Args:
        query: `h_t(i)` of the query, `(query words, neurons)`.
        title: `h_t(i)` of the title, `(title words, neurons)`.
        count: maximum number of links.

    Reference: Shen et al. 2014, sec. 5.4 and fig. 4.
    """
    highest = np.stack([query.max(axis=0), title.max(axis=0)])
    products = np.where((highest > 0).all(axis=0), highest.prod(axis=0), -np.inf)
    chosen = [i for i in np.argsort(-products, kind="stable")[:count] if products[i] > 0]
    return [
        Link(int(i), int(query[:, i].argmax()), int(title[:, i].argmax()), float(products[i]))
        for i in chosen
    ]
