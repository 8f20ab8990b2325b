"""Measures which models use word order, and over which distances.

    python -m examples.studies.word_order --out OUT

Trains small models on logs of `examples/order_log.py`. The learning rate of each model is chosen by
the validation NDCG@1 of the last epoch, on a log with a separate seed. Then each model is trained
on logs of other seeds. Prints the mean ± half the width of Student's 95 % interval over seeds: for
test queries of the kinds order and negation by distance, for topic at the longest distance, for all
test queries, and for training queries.
`OUT/trials.jsonl` has every value; with an existing file, the study resumes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import stats

from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.tables.judgments import read_judgments
from examples.order_log import KINDS, SPLITS, TEST, TRAIN, VALIDATION, OrderLog, write_log

CLSM = ("clsm", "tower.features=64", "tower.widths=[32]")
MODELS: Mapping[str, Sequence[str]] = {
    "dssm": ("dssm", "tower.widths=[64]"),
    **{f"clsm-{window}": (*CLSM, f"tower.window={window}") for window in (1, 3, 5)},
    "rnn": ("rnn", "tower.hidden=64"),
    "lstm": ("lstm", "tower.cells=32"),
    "lstm_plain": ("lstm_plain", "tower.cells=32"),
    "bilstm": ("bilstm", "tower.cells=32"),
}
"""Shipped configurations with small towers, for a small vocabulary."""
SETTINGS = (
    "tower.dropout=0",
    # A clicked title is compared only with the other title of its group.
    "negatives.recorded=1", "negatives.in_batch=false",
    "training.batch_size=128", "training.title_queries=0", "training.refit=false",
    "ranking.prior=0",
)  # fmt: skip
METRIC = "ndcg@1"
DISTANCES = (1, 2, 4, 8)


def trial(model: str, learning_rate: float, seed: int, epochs: int, queries: int) -> dict[str, Any]:
    """Trains a model on the log that a seed generates.

    Returns:
        The number of parameters, and by split the mean NDCG@1 of each `KIND-DISTANCE`.
    """
    import keras

    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train
    from pipelines.launcher import preprocess
    from pipelines.options import PreprocessOptions

    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_log(OrderLog(seed), folder, queries=queries, distances=DISTANCES)
        data = PreprocessOptions(
            input=(str(folder / "clicks.tsv"),), output=str(folder / "data"),
            negatives=1, negatives_from="impressions", validation_fraction=0,
        )  # fmt: skip
        preprocess(data)
        base, *changes = MODELS[model]
        changes += [*SETTINGS, f"training.seed={seed}", f"training.epochs={epochs}"]
        changes.append(f"optimizer.learning_rate={learning_rate}")
        train(load_config(find_config(base), changes), folder / "data", folder / "run", quiet=True)
        ranker = SemanticRanker.load(folder / "run", model)
        result: dict[str, Any] = {"parameters": ranker.model.count_params()}
        for split in SPLITS:
            judgments = read_judgments(folder / f"{split}.tsv")
            evaluation = evaluate({model: ranker}, judgments, metrics=[METRIC])
            values: dict[str, list[float]] = {}
            ids = evaluation.task.query_ids
            for query, value in zip(ids, evaluation.values[model][METRIC], strict=True):
                values.setdefault(query.rpartition("-")[0], []).append(float(value))
            result[split] = {group: float(np.mean(row)) for group, row in values.items()}
        keras.utils.clear_session()  # otherwise each model stays in memory
    return result


def mean(values: Mapping[str, float], kinds: Sequence[str] = KINDS) -> float:
    """The mean over all distances of some kinds."""
    return float(np.mean([value for key, value in values.items() if key.split("-")[0] in kinds]))


def table(chosen: Mapping[str, float], trials: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Yields the lines of a Markdown table."""
    columns = [f"{kind}-{distance}" for kind in ("order", "negation") for distance in DISTANCES]
    columns.append(f"topic-{DISTANCES[-1]}")
    head = ["NDCG@1", *columns, "all", "training queries", "learning rate", "parameters"]
    yield f"| {' | '.join(head)} |"
    yield "|---|" + "---|" * (len(columns) + 4)
    for model, runs in trials.items():
        values = [[run[TEST][column] for run in runs] for column in columns]
        values += [[mean(run[split]) for run in runs] for split in (TEST, TRAIN)]
        cells = []
        for row in values:
            half_width = (
                stats.t.ppf(0.975, len(row) - 1) * stats.sem(row) if len(row) > 1 else np.nan
            )
            cells.append(f"{np.mean(row):.2f} ±{half_width:.2f}")
        cells += [f"{chosen[model]:g}", f"{runs[0]['parameters']:,}"]
        yield f"| {model} | {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the study and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS])
    parser.add_argument("--learning-rates", nargs="+", type=float, default=[0.003, 0.01, 0.03])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tuning-seed", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--queries", type=int, default=2000)
    options = parser.parse_args(argv)
    load_tensorflow()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "trials.jsonl"
    results: dict[Any, Any] = {}
    if path.exists():
        for line in path.read_text("utf-8").splitlines():
            key, result = json.loads(line)
            results[tuple(key)] = result

    def run_trial(model: str, learning_rate: float, seed: int) -> dict[str, Any]:
        key = (model, learning_rate, seed, options.epochs, options.queries)
        if key not in results:
            results[key] = trial(*key)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, results[key]]) + "\n")
            means = {split: round(mean(results[key][split]), 3) for split in SPLITS}
            sys.stderr.write(f"{key}: {means}\n")
        return results[key]

    chosen, trials = {}, {}
    for model in options.models:
        tuning_trials = {
            rate: run_trial(model, rate, options.tuning_seed) for rate in options.learning_rates
        }
        chosen[model] = max(tuning_trials, key=lambda rate: mean(tuning_trials[rate][VALIDATION]))
        trials[model] = [run_trial(model, chosen[model], seed) for seed in range(options.seeds)]
        values = (
            f"{rate:g}: {mean(result[VALIDATION]):.3f}" for rate, result in tuning_trials.items()
        )
        sys.stdout.write(f"{model}: validation by learning rate {', '.join(values)}\n")
    sys.stdout.write("\n".join(table(chosen, trials)) + "\n")


if __name__ == "__main__":
    main()
