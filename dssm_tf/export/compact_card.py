"""What a compact model's card adds to its run's: how it is stored, and what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from dssm_tf.evaluation.by_cosine import without_prior
from dssm_tf.evaluation.evaluate import RankerScores, measure
from dssm_tf.evaluation.intervals import caution
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranker import Ranker as AnyRanker
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.runtime.ranker import Ranker

_METRICS = ("ndcg@1", "ndcg@3", "ndcg@10")


class Form(NamedTuple):
    """How a model is stored.

    Attributes:
        table: type of the first matrix.
        dimension: of the vectors.
        full: dimension of the trained vectors.
    """

    table: str
    dimension: int
    full: int


def described(form: Form, directory: Path, ranker: SemanticRanker, task: RankingTask | None) -> str:
    """The section of the card.

    Args:
        form: how the model is stored.
        directory: the compact model, whole.
        ranker: the trained model.
        task: judged queries to rank by both; None where there are none.
    """
    size = sum(one.stat().st_size for one in directory.iterdir())
    shorter = (
        f"{form.dimension} of {form.full} numbers, the "
        + ("first" if ranker.model.nested_lengths else "directions in which titles differ most")
        if form.dimension < form.full
        else f"{form.full} numbers"
    )
    text = f"""
## Compact form

{size / 1e6:.1f} MB, read by `dssm_tf.runtime` with NumPy alone. First matrix: {form.table};
vectors: {shorter}. It was checked to be equal to the trained model, rounded and shortened alike.

"""
    if task is None:
        return (
            text + "What rounding and shortening cost was not measured: no judgments were given.\n"
        )
    compact = Ranker.load(directory)
    systems: dict[str, AnyRanker] = {
        "as trained": ranker,
        "compact": compact,
        "as trained, by the cosine alone": without_prior(ranker),
        "compact, by the cosine alone": without_prior(compact),
    }
    lines = [f"| | {' | '.join(_METRICS)} |", "|---" * (1 + len(_METRICS)) + "|"]
    queries = 0
    for name, system in systems.items():
        ranks, _ = measure(name, RankerScores(system, task), task)
        values = per_query(ranks, _METRICS)
        queries = int(ranks.judged.sum())
        means = " | ".join(f"{np.nanmean(values[metric]):.4f}" for metric in _METRICS)
        lines.append(f"| {name} | {means} |")
    few = "".join(f"\n{one}" for one in caution("They rest on", queries))
    return f"{text}Means over {queries:,} judged queries:\n\n" + "\n".join(lines) + f"\n{few}\n"
