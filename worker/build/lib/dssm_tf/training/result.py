"""What a training run ended with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dssm_tf.graded.sources import Source


@dataclass
class Result:
    """What a training run ended with.

    A run given again when it is finished has an equal one, read back from its files; `learned`,
    `query_ids` and `validated`, which the model card tells and no file repeats, do not count.

    Args:
        epochs: epochs trained.
        best_epoch: the epoch whose weights were kept, from 1.
        history: one dict of metrics an epoch.
        prior_weight: weight of the log-prior of titles.
        ndcg: validation NDCG of the kept weights with that prior, its 95 % intervals (`low
            ndcg@1`, `high ndcg@1`), what the cosine alone has (`cosine ndcg@1`), and the number of
            `queries`; empty without validation.
        refitted: whether all records were then trained on, further or anew.
        seconds: wall time of this process's part of the training; 0 where the run was finished
            before.
        untrained: validation NDCG before the first step, without a prior.
        learned: what it learned from besides clicks, by source, in words.
        query_ids: the id of each query of those, increasing.
        validated: what the validation queries rank, in words.
        start: the earlier run that it went on from; None for one that began anew.
        by_length: validation NDCG by the cosine of the vectors' first numbers, by how many these
            are; empty without nested lengths.
    """

    epochs: int
    best_epoch: int
    history: list[dict[str, float]]
    prior_weight: float
    ndcg: dict[str, float] = field(default_factory=dict)
    refitted: bool = False
    seconds: float = 0.0
    untrained: dict[str, float] = field(default_factory=dict)
    learned: dict[str, str] = field(default_factory=dict, compare=False)
    query_ids: list[int] = field(default_factory=list, compare=False)
    validated: str = field(default="", compare=False)
    start: str | None = None
    by_length: dict[str, dict[str, float]] = field(default_factory=dict)

    def learned_from(self, sources: Sequence[Source]) -> None:
        """Notes what it learned from besides clicks."""
        self.learned = {source.name: source.about for source in sources}
        ids = set(self.query_ids).union(*(source.query_ids.tolist() for source in sources))
        self.query_ids = sorted(ids)

    @property
    def doubt(self) -> str:
        """Why it may have learned nothing; empty where it has learned something."""
        if self.untrained:
            first, best = self.untrained["ndcg@10"], max(one["ndcg@10"] for one in self.history)
            if best <= first < 1:  # a task that needs no training tells nothing
                before = "the untrained model" if self.start is None else self.start
                return (
                    f"no epoch ranked the validation queries better (NDCG@10 {best:.3f}) than "
                    f"{before} did ({first:.3f})"
                )
            return ""
        losses = [one["loss"] for one in self.history]
        if len(losses) > 1 and min(losses[1:]) >= losses[0]:
            return "the loss never fell below that of the first epoch"
        return ""
