"""How likely a title is clicked whatever the query: the log-prior of a ranking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dssm_tf.data.format import Title
from dssm_tf.text.rules import Key, Rules


class TitlePrior:
    """The log of each title's smoothed share of the log's clicks.

    In-batch negatives come up as often as they are clicked, so the cosine learns
    `P(title | query) / P(title)`; adding a weighted log-prior gives `P(title)` back.

    Args:
        titles: known titles with their clicks, 0 for those of the corpus alone.
        rules: which titles are one.

    Attributes:
        log_priors: of each title that was clicked, in nats.
        unseen: that of any other title.
        mean: of `log_priors`.

    Reference: Bengio and Senecal 2008 (sampled softmax); Yi et al. 2019 (logQ).
    """

    def __init__(self, titles: Iterable[Title], rules: Rules) -> None:
        self.rules = rules
        clicks: dict[Key, int] = {}
        for title in titles:
            key = rules.key(title.text)
            clicks[key] = clicks.get(key, 0) + title.clicks
        # One extra click a title, so that a title nobody clicked is unlikely, not impossible.
        total = sum(clicks.values()) + len(clicks) + 1
        self.unseen = float(np.log(1 / total))
        # A title without a click has the share of an unseen one: it needs no entry.
        self.log_priors = {
            key: float(np.log((count + 1) / total)) for key, count in clicks.items() if count
        }
        shares = self.log_priors.values()
        self.mean = float(np.mean([*shares])) if shares else self.unseen

    def __call__(self, titles: Sequence[str]) -> NDArray[np.float32]:
        """Log-priors of raw titles, in nats, `(len(titles),)`."""
        shares = (self.log_priors.get(self.rules.key(title), self.unseen) for title in titles)
        return np.fromiter(shares, np.float32, len(titles))
