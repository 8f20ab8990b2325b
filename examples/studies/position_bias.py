"""How much of what position bias costs a training comes back by `--position-weights`.

    python -m examples.studies.position_bias --judgments judgments.tsv --figure FIGURE.png

Simulates clicks on judged lists with eta 0 and 1, preprocesses each log as it is and weighted,
trains a DSSM on each and ranks the judged titles of the queries that were logged. Prints a table of
NDCG: the mean over seeds, each with lists, clicks and trainings of its own, and of the loss
(unbiased minus naive) the share that weighted training brings back; below it, the estimated curves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dssm_tf.cli import main as dssm
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.positions.curve import read_curve
from dssm_tf.tables.columns import raw
from dssm_tf.tables.judgments import Judgment, read_judgments
from dssm_tf.tables.read import read
from examples.simulate_clicks import main as simulate_clicks

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
"""Epochs are fixed. Sampled negatives make gamma times the cosine log P(title | query) / P(title),
so 1 / gamma is the weight of the log-prior with which it ranks by P(title | query) again."""

Values = dict[tuple[int, str], list[float]]
"""NDCG by eta and training; that on unbiased clicks is the naive one of eta 0."""
PRIOR, COSINE = "cosine and prior", "cosine alone"


def measured(
    judgments: Sequence[Judgment], folder: Path, options: argparse.Namespace, seed: int
) -> tuple[dict[str, Values], dict[int, Path]]:
    """NDCG of a seed's trainings by what ranks, and the estimated curves by eta."""
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train

    curves = {}
    systems = {}
    logged: set[str] = set()
    for eta in ETAS:
        log = folder / f"log{eta}.tsv"
        asked = ["--judgments", options.judgments, "--eta", eta, "--seed", seed, "--out", log,
                 "--lists", options.lists, "--sessions", options.sessions,
                 "--ranker-noise", options.ranker_noise]  # fmt: skip
        simulate_clicks([str(word) for word in asked])
        logged |= {*read(log, [raw("query")])["query"]}
        for name, method in ((NAIVE, "none"), (WEIGHTED, "harvesting")):
            run = folder / f"{name}{eta}"
            data = run.with_suffix(".data")
            _dssm("preprocess", "--input", log, "--position-weights", method,
                  "--validation-fraction", "0", "--output", data)  # fmt: skip
            changes = [*SETTINGS, f"training.epochs={options.epochs}", f"training.seed={seed}"]
            config = load_config(find_config("dssm"), [*changes, *options.set])
            train(config, data, run, quiet=True)
            for ranking in (PRIOR, COSINE):
                ranker = systems[f"{name}{eta} {ranking}"] = SemanticRanker.load(run, run.name)
                ranker.prior_weight *= ranking == PRIOR
        curves[eta] = data / "examination_curve.tsv"
    judged = [one for one in judgments if one.query in logged]
    found = evaluate(systems, judged, metrics=METRICS)
    means = {
        ranking: {
            (eta, name): [
                float(np.nanmean(found.values[f"{name}{eta} {ranking}"][one])) for one in METRICS
            ]
            for eta in ETAS
            for name in (NAIVE, WEIGHTED)
        }
        for ranking in (PRIOR, COSINE)
    }
    return means, curves


def _dssm(*words: object) -> None:
    if code := dssm([str(word) for word in words]):
        sys.exit(code)


def table(found: Sequence[Values], first_seed: int = 0) -> Iterator[str]:
    """Lines of Markdown: the mean of each training and half the range of the seeds."""
    names = {
        (0, NAIVE): "unbiased clicks (eta 0), naive",
        (0, WEIGHTED): "unbiased clicks (eta 0), weighted",
        (1, NAIVE): "eta 1, naive",
        (1, WEIGHTED): "eta 1, weighted",
    }
    yield "| NDCG | @1 | @3 | @10 |"
    yield "|---|---|---|---|"
    for key, name in names.items():
        values = np.array([one[key] for one in found])
        halves = np.ptp(values, axis=0) / 2
        cells = [f"{m:.3f} ± {h:.3f}" for m, h in zip(values.mean(axis=0), halves, strict=True)]
        yield f"| {name} | {' | '.join(cells)} |"
    best, naive, weighted = (
        np.array([one[key] for one in found]) for key in ((0, NAIVE), (1, NAIVE), (1, WEIGHTED))
    )
    share = (weighted - naive).mean(axis=0) / (best - naive).mean(axis=0)
    yield f"| of the loss at eta 1 comes back | {' | '.join(f'{one:.0%}' for one in share)} |"
    each = (weighted - naive) / (best - naive)
    for seed, row in enumerate(each, first_seed):
        yield f"| seed {seed} alone | {' | '.join(f'{one:.0%}' for one in row)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--judgments", type=Path, required=True, metavar="FILE")
    parser.add_argument("--lists", type=int, default=500)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--ranker-noise", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0, help="others, to choose settings on")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--figure", type=Path, help="PNG of the curves of eta 0 and 1 to write")
    options = parser.parse_args(argv)
    if not options.judgments.is_file():
        parser.error(f"--judgments: there is no file {options.judgments}")
    load_tensorflow()
    judgments = read_judgments(options.judgments)
    found: dict[str, list[Values]] = {PRIOR: [], COSINE: []}
    lines: list[str] = []
    panels: dict[str, dict[str, dict[int, tuple[float, float]]]] = {}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        with TemporaryDirectory() as passing:
            values, curves = measured(judgments, Path(passing), options, seed)
            for eta, path in curves.items():
                curve = read_curve(path).propensities
                shown = ", ".join(f"{one:.3f}" for one in curve)
                lines.append(f"seed {seed}, eta {eta}: {shown}")
                if seed == options.first_seed:
                    panels[f"eta {eta}"] = _panel(path, eta)
        for ranking, one in values.items():
            found[ranking].append(one)
        sys.stderr.write(f"{seed}: {values}\n")
    for ranking, seeds in found.items():
        sys.stdout.write("\n".join([ranking, "", *table(seeds, options.first_seed), "", ""]))
    sys.stdout.write("\n".join(lines) + "\n")
    if options.figure:
        from examples.studies.intervals import with_intervals

        with_intervals(panels, options.figure, "position", "propensity")


def _panel(path: Path, eta: int) -> dict[str, dict[int, tuple[float, float]]]:
    """The estimated curve with half its intervals, and the truth."""
    names = ("position", "propensity", "low", "high")
    cells = read(path, [*map(raw, names)]).select(names)
    rows = [
        (int(position), float(value), (float(high) - float(low)) / 2)
        for position, value, low, high in cells.iter_rows()
    ]
    return {
        "estimated by harvesting": {position: (value, half) for position, value, half in rows},
        "truth": {position: (position**-eta, 0.0) for position, _, _ in rows},
    }


if __name__ == "__main__":
    main()
