"""Measures each choice of the default configuration on validation queries of four logs.

    python -m examples.studies.training_choices --data DATA --out OUT

trains `--config` with each of `CHOICES` and each seed, and prints the tables of docs/training.md.
DATA has `bestbuy` and `homedepot`, see `logs`; WebQuestions is bundled. The test data of other
pages is not used: Best Buy's later fifth, the test questions of `dssm demo`, and a fifth of Home
Depot's queries (another fifth for the full catalog, see `whole_catalog`). Of Home Depot's other
queries, a quarter is used. 30 % of the remaining queries are for validation; they give all values.
OUT contains the results of finished runs, so the same command resumes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.common.files import atomic_write
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.tables.splits import is_held_out
from examples.studies.later_clicks import split_by_time
from examples.studies.whole_catalog import split

CUTOFFS = ("ndcg@1", "ndcg@3", "ndcg@10")
BASE = "shipped"
COMMON_SETTINGS = ("training.refit=false", "training.epochs=10")
CHOICES: dict[str, tuple[str, ...]] = {
    BASE: (),
    "no title queries": ("training.title_queries=0",),
    "1 title query": ("training.title_queries=1",),
    "4 title queries": ("training.title_queries=4",),
    "no typing errors": ("training.typos=0",),
    "no whole words": ("whole_words=false",),
    "no idf start": ("training.idf_start=false",),
    "dropout 0": ("tower.dropout=0",),
    "dropout 0.5": ("tower.dropout=0.5",),
    "batch 256": ("training.batch_size=256",),
    "batch 512": ("training.batch_size=512",),
    "batch 1,024": ("training.batch_size=1024",),
    "batch 2,048": ("training.batch_size=2048",),
    "no averaging": ("training.averaging=0",),
    "pairwise logistic": ("loss={name: pairwise_logistic}",),
    "hinge": ("loss={name: hinge}",),
    "sigmoid": ("loss={name: sigmoid}",),
    "4 fresh": ("negatives.fresh=4",),
    "4 mined by bm25": ("negatives.mined=4", "negatives.mined_from={bm25}"),
}
"""Changes to the configuration, by name."""


def logs(data: Path, folder: Path) -> dict[str, list[str]]:
    """Writes the training rows of each log; returns the input flags of preprocess by log."""
    flags = {}
    bundled = files("dssm_tf.datasets") / "webquestions" / "pairs.tsv"
    rows = [row.split("\t") for row in bundled.read_text("utf-8").splitlines()]
    train = [row[2:] for row in rows if row[1] != "test"]
    flags["WebQuestions"] = _write_log(folder / "webquestions.tsv", train)

    shop = data / "bestbuy"
    header, earlier, _ = split_by_time(shop / "clicks.tsv", 0.8)
    flags["Best Buy"] = _write_log(
        folder / "bestbuy.tsv", [header, *(row.split("\t") for row in earlier)]
    )
    flags["Best Buy"] += ["--corpus", str(shop / "corpus.tsv")]

    header, *pairs = (
        row.split("\t")
        for row in (data / "homedepot" / "clicks.tsv").read_text("utf-8").splitlines()
    )
    selected = [
        row
        for row in pairs
        if not is_held_out(row[0], 0.2, "homedepot") and is_held_out(row[0], 0.25, "choices")
    ]
    flags["Home Depot"] = _write_log(folder / "homedepot.tsv", [header, *selected])

    split(data / "homedepot", folder / "catalog")
    tables = [str(folder / "catalog" / name) for name in ("clicks.tsv", "corpus.tsv")]
    flags["Whole catalog"] = ["--input", tables[0], "--corpus", tables[1]]
    return flags


def _write_log(path: Path, rows: Sequence[Sequence[str]]) -> list[str]:
    """Writes a log; returns the flags with which preprocess reads it."""
    with atomic_write(path) as file:
        file.writelines("\t".join(row) + "\n" for row in rows)
    return ["--input", str(path)]


def preprocess_logs(data: Path, out: Path, names: Sequence[str], mined: bool) -> dict[str, Path]:
    """Preprocesses each log, and mines hard negatives by BM25 if `mined`; returns directories."""
    from dssm_tf import mine
    from pipelines.preprocess import run

    directories = {}
    out.mkdir(parents=True, exist_ok=True)
    for name, flags in logs(data, out).items():
        if names and name not in names:
            continue
        directories[name] = out / name.lower().replace(" ", "")
        spec_file = directories[name] / "spec.json"
        if not spec_file.exists() and run(
            [
                *flags,
                "--output",
                str(directories[name]),
                "--validation-fraction",
                "0.3",
                "--overwrite",
            ]
        ):
            sys.exit(1)
        if mined and not bm25_table(directories[name]).exists():
            mine(directories[name], bm25_table(directories[name]), bm25=True)
    return directories


def bm25_table(data: Path) -> Path:
    """The file of hard negatives of a log."""
    return data.with_name(f"{data.name}-bm25.tsv")


def train_and_validate(
    config: str, overrides: Sequence[str], data: Path, out: Path
) -> dict[str, Any]:
    """Trains and returns the validation NDCG, with the prior's weight chosen by validation."""
    from dssm_tf.training.train import train

    settings = load_config(find_config(config), [*COMMON_SETTINGS, *overrides])
    result = train(settings, data, out, quiet=True)
    return {name: result.metrics[name] for name in CUTOFFS} | {
        "seconds": result.seconds,
        "epoch": float(result.best_epoch),
        "queries": result.metrics["queries"],
    }


def table(results: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> list[str]:
    """One table per log, with the mean and half the range over seeds.

    A choice is better or worse than the first if the difference exceeds both ranges.
    """
    lines = []
    for log, choices in results.items():
        first = next(iter(choices))
        base = np.array([[run[name] for name in CUTOFFS] for run in choices[first]])
        queries = choices[first][0]["queries"]
        lines += [
            f"{log}, {queries:,.0f} validation queries:",
            "",
            "| | NDCG@1 | @3 | @10 | against the first at @10 | epochs | training |",
            "|---|---|---|---|---|---|---|",
        ]
        for choice, runs in choices.items():
            values = np.array([[run[name] for name in CUTOFFS] for run in runs])
            cells = [
                f"{mean:.3f} ±{spread / 2:.3f}"
                for mean, spread in zip(values.mean(0), np.ptp(values, 0), strict=True)
            ]
            gain = values[:, 2].mean() - base[:, 2].mean()
            widest = max(np.ptp(values[:, 2]), np.ptp(base[:, 2]))
            verdict = "better" if gain > widest else "worse" if -gain > widest else "equal"
            verdict = verdict if min(len(values), len(base)) > 1 else "one seed"
            against = "" if choice == first else f"{gain:+.3f} {verdict}"
            epochs, seconds = (np.mean([run[key] for run in runs]) for key in ("epoch", "seconds"))
            lines.append(
                f"| {choice} | {' | '.join(cells)} | {against} | {epochs:.0f} | {seconds:.0f} s |"
            )
        lines.append("")
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the study and prints its tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with bestbuy/, homedepot/")
    parser.add_argument("--out", type=Path, required=True, help="folder for data and results")
    parser.add_argument("--config", default="dssm", help="name or file of a configuration")
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds")
    parser.add_argument("--logs", default="", help="comma-separated; all if empty")
    parser.add_argument("--choices", default="", help="separated by ;, all if empty")
    parser.add_argument(
        "--also", action="append", default=[], metavar="NAME:KEY=VALUE;...", help="another choice"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="setting of all choices; a choice can override it",
    )
    options = parser.parse_args(argv)
    if not options.data.is_dir():
        parser.error(f"--data: there is no folder {options.data}")
    load_tensorflow()
    choices = dict(CHOICES)
    for also in options.also:
        name, _, overrides = also.partition(":")
        choices[name] = tuple(overrides.split(";"))
    selected = [name for name in options.choices.split(";") if name] or list(choices)
    results: dict[str, dict[str, list[dict[str, Any]]]] = {}
    mined = any("{bm25}" in setting for choice in selected for setting in choices[choice])
    names = [name for name in options.logs.split(",") if name]
    for log, data in preprocess_logs(options.data, options.out, names, mined).items():
        for choice in selected:
            for seed in range(options.seeds):
                key = f"{options.config} {choice} {seed}".replace("/", "-")
                result_file = options.out / "measured" / data.name / f"{key}.json"
                if not result_file.exists():
                    run = options.out / "run"
                    shutil.rmtree(run, ignore_errors=True)
                    overrides = [*options.set, f"training.seed={seed}"]
                    overrides += [
                        setting.format(bm25=bm25_table(data)) if "{bm25}" in setting else setting
                        for setting in choices[choice]
                    ]
                    value = train_and_validate(options.config, overrides, data, run)
                    with atomic_write(result_file) as file:
                        json.dump(value, file)
                    sys.stderr.write(f"{log} {key}: {value}\n")
                value = json.loads(result_file.read_text("utf-8"))
                results.setdefault(log, {}).setdefault(choice, []).append(value)
    sys.stdout.write("\n".join(table(results)) + "\n")


if __name__ == "__main__":
    main()
