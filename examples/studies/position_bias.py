"""Measures how much of the loss from position bias `--position-weights` recovers.

    python -m examples.studies.position_bias --judgments judgments.tsv --figure FIGURE.png

Position bias has the strength eta: position k is examined with probability `k ** -eta`. The study
simulates clicks on judged lists with eta 0 and 1, and preprocesses each log without and with
weights. It trains a DSSM on each result, and ranks the judged titles of the logged queries. Each
seed has separate lists, clicks and trainings.

Prints tables of the mean NDCG over seeds, and of the fraction of the loss (unbiased minus naive)
that weighted training recovers. Below them are the estimated curves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.positions.curve import read_curve
from dssm_tf.tables.columns import unchanged
from dssm_tf.tables.judgments import Judgment, read_judgments
from dssm_tf.tables.read import read
from examples.simulate_clicks import main as simulate_clicks
from examples.studies.commands import run_dssm

METRICS = ("ndcg@1", "ndcg@3", "ndcg@10")
ETAS = (0, 1)
NAIVE, WEIGHTED = "naive", "weighted"
GAMMA = 10.0
SETTINGS = (
    "training.click_weight=linear",
    "training.title_queries=0",
    "training.refit=false",
    f"loss.gamma={GAMMA}",
    f"ranking.prior={1 / GAMMA}",
)
"""With sampled negatives, gamma times the cosine approaches log(P(title | query) / P(title)). With
a log-prior of weight 1 / gamma, the model therefore ranks by P(title | query)."""

Values = dict[tuple[int, str], list[float]]
"""`METRICS` by eta and training; eta 0 with naive training is training on unbiased clicks."""
PRIOR, COSINE = "cosine and prior", "cosine only"


def evaluate_seed(
    judgments: Sequence[Judgment], folder: Path, options: argparse.Namespace, seed: int
) -> tuple[dict[str, Values], dict[int, Path]]:
    """NDCG of a seed's trainings by ranking score, and the files of the estimated curves by eta."""
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train

    curves = {}
    systems = {}
    logged: set[str] = set()
    for eta in ETAS:
        log = folder / f"log{eta}.tsv"
        flags = ["--judgments", options.judgments, "--eta", eta, "--seed", seed, "--out", log,
                 "--lists", options.lists, "--sessions", options.sessions,
                 "--ranker-noise", options.ranker_noise]  # fmt: skip
        simulate_clicks([str(flag) for flag in flags])
        logged |= {*read(log, [unchanged("query")])["query"]}
        for name, method in ((NAIVE, "none"), (WEIGHTED, "harvesting")):
            run = folder / f"{name}{eta}"
            data = run.with_suffix(".data")
            run_dssm("preprocess", "--input", log, "--position-weights", method,
                  "--validation-fraction", "0", "--output", data)  # fmt: skip
            changes = [*SETTINGS, f"training.epochs={options.epochs}", f"training.seed={seed}"]
            config = load_config(find_config("dssm"), [*changes, *options.set])
            train(config, data, run, quiet=True)
            for ranking in (PRIOR, COSINE):
                ranker = systems[f"{name}{eta} {ranking}"] = SemanticRanker.load(run, run.name)
                ranker.prior_weight *= ranking == PRIOR
        curves[eta] = data / "examination_curve.tsv"
    judged = [judgment for judgment in judgments if judgment.query in logged]
    evaluation = evaluate(systems, judged, metrics=METRICS)
    means = {
        ranking: {
            (eta, name): [
                float(np.nanmean(evaluation.values[f"{name}{eta} {ranking}"][metric]))
                for metric in METRICS
            ]
            for eta in ETAS
            for name in (NAIVE, WEIGHTED)
        }
        for ranking in (PRIOR, COSINE)
    }
    return means, curves


def table(results: Sequence[Values], first_seed: int = 0) -> Iterator[str]:
    """Yields a Markdown table: the mean of each training and half the range over seeds."""
    names = {
        (0, NAIVE): "unbiased clicks (eta 0), naive",
        (0, WEIGHTED): "unbiased clicks (eta 0), weighted",
        (1, NAIVE): "eta 1, naive",
        (1, WEIGHTED): "eta 1, weighted",
    }
    yield "| NDCG | @1 | @3 | @10 |"
    yield "|---|---|---|---|"
    for key, name in names.items():
        values = np.array([seed[key] for seed in results])
        halves = np.ptp(values, axis=0) / 2
        cells = [f"{m:.3f} ± {h:.3f}" for m, h in zip(values.mean(axis=0), halves, strict=True)]
        yield f"| {name} | {' | '.join(cells)} |"
    best, naive, weighted = (
        np.array([seed[key] for seed in results]) for key in ((0, NAIVE), (1, NAIVE), (1, WEIGHTED))
    )
    with np.errstate(divide="ignore", invalid="ignore"):  # without a loss, infinite or NaN
        recovered = (weighted - naive).mean(axis=0) / (best - naive).mean(axis=0)
        by_seed = (weighted - naive) / (best - naive)
    yield f"| loss at eta 1 recovered | {' | '.join(f'{value:.0%}' for value in recovered)} |"
    for seed, row in enumerate(by_seed, first_seed):
        yield f"| only seed {seed} | {' | '.join(f'{value:.0%}' for value in row)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the study and prints its tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--judgments", type=Path, required=True, metavar="FILE")
    parser.add_argument("--lists", type=int, default=500)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--ranker-noise", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--first-seed", type=int, default=0, help="first seed; use other seeds to choose settings"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--figure", type=Path, help="PNG of the curves of eta 0 and 1 to write")
    options = parser.parse_args(argv)
    if not options.judgments.is_file():
        parser.error(f"--judgments: there is no file {options.judgments}")
    load_tensorflow()
    judgments = read_judgments(options.judgments)
    results: dict[str, list[Values]] = {PRIOR: [], COSINE: []}
    lines: list[str] = []
    panels: dict[str, dict[str, dict[int, tuple[float, float]]]] = {}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        with TemporaryDirectory() as temporary:
            values, curves = evaluate_seed(judgments, Path(temporary), options, seed)
            for eta, path in curves.items():
                curve = read_curve(path).propensities
                propensities = ", ".join(f"{propensity:.3f}" for propensity in curve)
                lines.append(f"seed {seed}, eta {eta}: {propensities}")
                if seed == options.first_seed:
                    panels[f"eta {eta}"] = _panel(path, eta)
        for ranking, ranking_values in values.items():
            results[ranking].append(ranking_values)
        sys.stderr.write(f"{seed}: {values}\n")
    for ranking, seeds in results.items():
        sys.stdout.write("\n".join([ranking, "", *table(seeds, options.first_seed), "", ""]))
    sys.stdout.write("\n".join(lines) + "\n")
    if options.figure:
        from examples.studies.intervals import draw_intervals

        draw_intervals(panels, options.figure, "position", "propensity")


def _panel(path: Path, eta: int) -> dict[str, dict[int, tuple[float, float]]]:
    """The estimated curve with half the width of each interval, and the true curve."""
    names = ("position", "propensity", "low", "high")
    cells = read(path, [*map(unchanged, names)]).select(names)
    rows = [
        (int(position), float(value), (float(high) - float(low)) / 2)
        for position, value, low, high in cells.iter_rows()
    ]
    return {
        "estimated by harvesting": {
            position: (value, half_width) for position, value, half_width in rows
        },
        "truth": {position: (position**-eta, 0.0) for position, _, _ in rows},
    }


if __name__ == "__main__":
    main()
