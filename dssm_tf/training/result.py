"""What a training run ended with."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Result:
    """What a training run ended with.

    Args:
        epochs: epochs trained.
        best_epoch: the epoch whose weights were kept, from 1.
        history: one dict of metrics an epoch.
        prior_weight: weight of the log-prior of titles.
        ndcg: validation NDCG of the kept weights with that prior.
        refitted: whether all records were then trained on, further or anew.
        seconds: wall time of this process's part of the training; 0 where the run was finished
            before.
    """

    epochs: int
    best_epoch: int
    history: list[dict[str, float]]
    prior_weight: float
    ndcg: dict[str, float] = field(default_factory=dict)
    refitted: bool = False
    seconds: float = 0.0
