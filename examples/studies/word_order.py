"""Which click models read the order of words, and how far apart.

    python -m examples.studies.word_order --out OUT

Trains small models on logs of `examples/order_log.py`. The step size of each model is chosen by
NDCG@1 of the validation part on a log of a seed of its own, by the last epoch; then each model is
trained on logs of further seeds. Prints the mean of each and half of Student's 95 % interval over
seeds: judged queries by kind and distance, and over all beside queries of the log itself.
`OUT/trials.jsonl` has every value; given again, it resumes.
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
from examples.order_log import JUDGED, KINDS, LEARNED, PARTS, VALIDATION, OrderLog, write_log

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
    # A click is compared with the title that was shown beside it, and with nothing else.
    "negatives.recorded=1", "negatives.in_batch=false",
    "training.batch_size=128", "training.title_queries=0", "training.refit=false",
    "ranking.prior=0",
)  # fmt: skip
METRIC = "ndcg@1"
DISTANCES = (1, 2, 4, 8)


def trial(model: str, step: float, seed: int, epochs: int, queries: int) -> dict[str, Any]:
    """Trains a model on the log of a seed.

    Returns:
        Its size in parameters, and by part the mean NDCG@1 of each `KIND-DISTANCE`.
    """
    import keras

    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train
    from pipelines.launcher import preprocess
    from pipelines.options import PreprocessOptions

    with TemporaryDirectory() as passing:
        folder = Path(passing)
        write_log(OrderLog(seed), folder, queries=queries, distances=DISTANCES)
        data = PreprocessOptions(
            (str(folder / "clicks.tsv"),), str(folder / "data"),
            negatives=1, negatives_from="impressions", validation_fraction=0,
        )  # fmt: skip
        preprocess(data)
        base, *changes = MODELS[model]
        changes += [*SETTINGS, f"training.seed={seed}", f"training.epochs={epochs}"]
        changes.append(f"optimizer.learning_rate={step}")
        train(load_config(find_config(base), changes), folder / "data", folder / "run", quiet=True)
        ranker = SemanticRanker.load(folder / "run", model)
        found: dict[str, Any] = {"parameters": ranker.model.count_params()}
        for part in PARTS:
            judgments = read_judgments(folder / f"{part}.tsv")
            measured = evaluate({model: ranker}, judgments, metrics=[METRIC])
            of: dict[str, list[float]] = {}
            values = measured.values[model][METRIC]
            for query, value in zip(measured.task.query_ids, values, strict=True):
                of.setdefault(query.rpartition("-")[0], []).append(float(value))
            found[part] = {group: float(np.mean(row)) for group, row in of.items()}
        keras.utils.clear_session()  # else each model would stay in memory
    return found


def mean(found: Mapping[str, float], kinds: Sequence[str] = KINDS) -> float:
    """Of all distances of some kinds."""
    return float(np.mean([value for key, value in found.items() if key.split("-")[0] in kinds]))


def table(chosen: Mapping[str, float], trials: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Lines of Markdown."""
    columns = [*(f"order-{at}" for at in DISTANCES), *(f"negation-{at}" for at in DISTANCES)]
    columns.append(f"topic-{DISTANCES[-1]}")
    yield f"| NDCG@1 | {' | '.join(columns)} | all | learned | step size | parameters |"
    yield "|---|" + "---|" * (len(columns) + 4)
    for model, runs in trials.items():
        values = [[one[JUDGED][column] for one in runs] for column in columns]
        values += [[mean(one[part]) for one in runs] for part in (JUDGED, LEARNED)]
        cells = []
        for row in values:
            half = stats.t.ppf(0.975, len(row) - 1) * stats.sem(row) if len(row) > 1 else np.nan
            cells.append(f"{np.mean(row):.2f} ±{half:.2f}")
        cells += [f"{chosen[model]:g}", f"{runs[0]['parameters']:,}"]
        yield f"| {model} | {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS])
    parser.add_argument("--steps", nargs="+", type=float, default=[0.003, 0.01, 0.03])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tuning-seed", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--queries", type=int, default=2000)
    options = parser.parse_args(argv)
    load_tensorflow()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "trials.jsonl"
    done: dict[Any, Any] = {}
    if path.exists():
        for line in path.read_text("utf-8").splitlines():
            key, found = json.loads(line)
            done[tuple(key)] = found

    def once(model: str, step: float, seed: int) -> dict[str, Any]:
        key = (model, step, seed, options.epochs, options.queries)
        if key not in done:
            done[key] = trial(*key)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, done[key]]) + "\n")
            said = {part: round(mean(done[key][part]), 3) for part in PARTS}
            sys.stderr.write(f"{key}: {said}\n")
        return done[key]

    chosen, trials = {}, {}
    for model in options.models:
        tried = {step: once(model, step, options.tuning_seed) for step in options.steps}
        chosen[model] = max(tried, key=lambda step: mean(tried[step][VALIDATION]))
        trials[model] = [once(model, chosen[model], seed) for seed in range(options.seeds)]
        shown = ", ".join(f"{step:g}: {mean(one[VALIDATION]):.3f}" for step, one in tried.items())
        sys.stdout.write(f"{model}: validation by step size {shown}\n")
    sys.stdout.write("\n".join(table(chosen, trials)) + "\n")


if __name__ == "__main__":
    main()
