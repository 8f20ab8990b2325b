"""What a process of the experiment does: it writes a log, or trains a model on one.

What is heavy is imported where it is used: `start` sets what TensorFlow reads when it is loaded.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

MODELS: Mapping[str, tuple[str, Sequence[str]]] = {
    "dssm": ("dssm", ("tower.widths=[64]", "optimizer.learning_rate=0.01")),
    **{
        f"clsm-{window}": (
            "clsm",
            (
                f"tower.window={window}", "tower.features=64", "tower.widths=[32]",
                "optimizer.learning_rate=0.01",
            ),
        )
        for window in (1, 3, 5)
    },
    "rnn": ("rnn", ("tower.hidden=64", "optimizer.learning_rate=0.002")),
    "lstm": ("lstm", ("tower.cells=32", "optimizer.learning_rate=0.02")),
    "lstm_plain": ("lstm_plain", ("tower.cells=32", "optimizer.learning_rate=0.01")),
    "bilstm": ("bilstm", ("tower.cells=32", "optimizer.learning_rate=0.02")),
}  # fmt: skip
"""Shipped configurations and what is changed in them: small towers, for a small vocabulary.

The step sizes were chosen on a log of another seed, see docs/analysis.md."""

SETTINGS = (
    "tower.dropout=0",
    # A click is compared with the title that was shown beside it, and with nothing else.
    "negatives.recorded=1", "negatives.in_batch=false",
    "training.batch_size=128", "training.title_queries=false", "training.refit=false",
    "ranking.prior=0",
)  # fmt: skip
"""Of every model: a fixed number of epochs, nothing chosen on the way."""

METRIC = "ndcg@1"
_DATA, _LOG = "data", "log"

Found = dict[str, dict[int, float]]
"""Mean NDCG@1 by kind and distance."""


class Log(NamedTuple):
    """A log, by what it depends on.

    Args:
        seed: of the log, and of the models trained on it.
        share: of queries of `order` and `negation` together.
        distances: of the words that matter.
        queries: it has.
        judged: queries of each kind and distance.
    """

    seed: int
    share: float
    distances: tuple[int, ...]
    queries: int
    judged: int

    @property
    def name(self) -> str:
        """Of its directory."""
        return f"share-{self.share:g}-seed-{self.seed}"


def start(parent: int, threads: int) -> None:
    """Makes a new process quiet, gives it its share of the cores, and ends it with its parent."""
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(threads))
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def prepare(log: Log, directory: Path) -> None:
    """Writes a log and its judgments to `log/`, and what `dssm preprocess` makes of it to `data/`.

    Args:
        log: what to write.
        directory: of the log.
    """
    from dssm_tf.order.log import CLICKS, OrderLog, write_log
    from pipelines.options import parse
    from pipelines.preprocess import preprocess

    texts = directory / _LOG
    write_log(
        OrderLog(log.seed), texts,
        queries=log.queries, share=log.share, distances=log.distances, judged=log.judged,
    )  # fmt: skip
    preprocess(
        parse([
            "--input", str(texts / CLICKS), "--output", str(directory / _DATA),
            "--negatives", "1", "--negatives-from", "impressions", "--validation-fraction", "0",
        ])
    )  # fmt: skip


def fit(log: Log, directory: Path, model: str, epochs: int) -> Found:
    """Trains a model on a log that `prepare` wrote, and measures it.

    Args:
        log: which one.
        directory: of the log; gets the run.
        model: of `MODELS`.
        epochs: of the training.
    """
    import gc

    import keras

    from dssm_tf.config import find_config, load_config
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.order.log import JUDGMENTS
    from dssm_tf.tables.judgments import read_judgments
    from dssm_tf.training.train import train

    base, changes = MODELS[model]
    runs = (f"training.seed={log.seed}", f"training.epochs={epochs}")
    config = load_config(find_config(base), [*changes, *SETTINGS, *runs])
    run = directory / model
    train(config, directory / _DATA, run, quiet=True)
    found = measured(SemanticRanker.load(run), read_judgments(directory / _LOG / JUDGMENTS))
    keras.utils.clear_session()  # else each model of this process would stay in memory
    gc.collect()
    return found


def measured(ranker, judgments) -> Found:
    """The mean NDCG@1 of a `Ranker` by kind and distance, which the queries' ids say."""
    import numpy as np

    from dssm_tf.evaluation.evaluate import RankerScores, measure
    from dssm_tf.evaluation.metrics import per_query
    from dssm_tf.evaluation.task import RankingTask

    task = RankingTask(judgments)
    ranks = measure("order", RankerScores(ranker, task), task, depth=1).ranks
    values = per_query(ranks, [METRIC])[METRIC]
    of: dict[str, dict[int, list[float]]] = {}
    for query_id, value in zip(task.query_ids, values.tolist(), strict=True):
        kind, distance, _ = query_id.split("-")
        of.setdefault(kind, {}).setdefault(int(distance), []).append(value)
    return {
        kind: {distance: float(np.mean(row)) for distance, row in sorted(rows.items())}
        for kind, rows in of.items()
    }
