"""Ranking by remembered clicks, one title at a time, in float64.

The clicks of a query are smoothed by the model's distribution over titles, as a language model's
word counts are by Dirichlet smoothing (Zhai and Lafferty 2004).
"""

from __future__ import annotations

import math
from collections.abc import Mapping


def distribution(scores: Mapping[str, float], gamma: float) -> dict[str, float]:
    """p(t|q): the softmax of the scores of titles."""
    terms = {title: math.exp(gamma * score) for title, score in scores.items()}
    total = sum(terms.values())
    return {title: term / total for title, term in terms.items()}


def mixture(
    scores: Mapping[str, float], clicks: Mapping[str, int], mu: float, gamma: float
) -> dict[str, float]:
    """m(t|q) = (c(q, t) + mu p(t|q)) / (c(q) + mu)."""
    p = distribution(scores, gamma)
    total = sum(clicks.values())
    return {title: (clicks.get(title, 0) + mu * p[title]) / (total + mu) for title in scores}


def with_clicks(
    scores: Mapping[str, float], clicks: Mapping[str, int], mu: float, gamma: float
) -> dict[str, float]:
    """The scores that rank as the mixture does, with unchanged scores of unclicked titles.

    ln m / gamma = score + ln(mu / ((c(q) + mu) Z)) / gamma for an unclicked title, so this constant
    is subtracted.
    """
    z = sum(math.exp(gamma * score) for score in scores.values())
    constant = math.log(mu / ((sum(clicks.values()) + mu) * z)) / gamma
    mixed = mixture(scores, clicks, mu, gamma)
    return {title: math.log(mixed[title]) / gamma - constant for title in scores}
