"""The log-prior of titles: the log of the probability that a click is on a title."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dssm_tf.data.format import Title
from dssm_tf.text.rules import Key, TextRules


class TitlePrior:
    """The log of each title's smoothed fraction of the log's clicks.

    A title is an in-batch negative as often as it is clicked, so the cosine learns
    `P(title | query) / P(title)`. A weighted log-prior restores the factor `P(title)`.

    Args:
        titles: known titles with their clicks; 0 for titles that only the corpus has.
        rules: decide which titles are equal.

    Attributes:
        log_priors: log-prior of each clicked title, in nats, by the key of the title.
        unseen: log-prior of every other title.
        mean: mean of `log_priors`.

    Reference: Bengio and Senecal 2008 (sampled softmax); Yi et al. 2019 (logQ).
    """

    def __init__(self, titles: Iterable[Title], rules: TextRules) -> None:
        self.rules = rules
        clicks: dict[Key, int] = {}
        for title in titles:
            key = rules.key(title.text)
            clicks[key] = clicks.get(key, 0) + title.clicks
        # One extra click per title, so that an unclicked title is unlikely, not impossible.
        total = sum(clicks.values()) + len(clicks) + 1
        self.unseen = float(np.log(1 / total))
        # An unclicked title has the log-prior of an unseen one, so it needs no entry.
        self.log_priors = {
            key: float(np.log((count + 1) / total)) for key, count in clicks.items() if count
        }
        log_priors = self.log_priors.values()
        self.mean = float(np.mean([*log_priors])) if log_priors else self.unseen

    def __call__(self, titles: Sequence[str]) -> NDArray[np.float32]:
        """Log-priors of raw titles, in nats, `(len(titles),)`."""
        log_priors = (self.log_priors.get(self.rules.key(title), self.unseen) for title in titles)
        return np.fromiter(log_priors, np.float32, len(titles))
