"""What each choice of the default configuration is worth, on the validation parts of four logs.

    python -m examples.studies.training_choices --data DATA --out OUT

trains `--config` under each of `CHOICES` with each seed and prints docs/training.md's tables. DATA
holds `bestbuy` and `homedepot`, see `logs`; WebQuestions is bundled. What other pages report stays
unread: Best Buy's later fifth, the questions that `dssm demo` judges by, a fifth of Home Depot's
queries, of the others of which a quarter is taken; for the whole catalogue another fifth, see
`whole_catalogue`. Of what is left, 30 % of the queries validate,
and every figure is theirs. OUT keeps every finished training: the same command goes on.
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
from examples.studies.whole_catalogue import split

CUTOFFS = ("ndcg@1", "ndcg@3", "ndcg@10")
BASE = "shipped"
PLAIN = ("training.refit=false", "training.epochs=10")
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
"""What differs from the configuration."""


def logs(data: Path, folder: Path) -> dict[str, list[str]]:
    """Writes the parts to learn from; returns the input flags of preprocess for each log."""
    flags = {}
    bundled = files("dssm_tf.datasets") / "webquestions" / "pairs.tsv"
    rows = [row.split("\t") for row in bundled.read_text("utf-8").splitlines()]
    learned = [row[2:] for row in rows if row[1] != "test"]
    flags["WebQuestions"] = _write(folder / "webquestions.tsv", learned)

    shop = data / "bestbuy"
    header, earlier, _ = split_by_time(shop / "clicks.tsv", 0.8)
    flags["Best Buy"] = _write(
        folder / "bestbuy.tsv", [header, *(row.split("\t") for row in earlier)]
    )
    flags["Best Buy"] += ["--corpus", str(shop / "corpus.tsv")]

    header, *pairs = (
        row.split("\t")
        for row in (data / "homedepot" / "clicks.tsv").read_text("utf-8").splitlines()
    )
    kept = [
        row
        for row in pairs
        if not is_held_out(row[0], 0.2, "homedepot") and is_held_out(row[0], 0.25, "choices")
    ]
    flags["Home Depot"] = _write(folder / "homedepot.tsv", [header, *kept])

    split(data / "homedepot", folder / "catalogue")
    tables = [str(folder / "catalogue" / name) for name in ("clicks.tsv", "corpus.tsv")]
    flags["Whole catalogue"] = ["--input", tables[0], "--corpus", tables[1]]
    return flags


def _write(path: Path, rows: Sequence[Sequence[str]]) -> list[str]:
    with atomic_write(path) as file:
        file.writelines("\t".join(row) + "\n" for row in rows)
    return ["--input", str(path)]


def prepared(data: Path, out: Path, asked: Sequence[str], mined: bool) -> dict[str, Path]:
    """The preprocessed directory of each log, and beside it what BM25 mines there, if asked."""
    from dssm_tf import mine
    from pipelines.preprocess import run

    found = {}
    out.mkdir(parents=True, exist_ok=True)
    for name, flags in logs(data, out).items():
        if asked and name not in asked:
            continue
        found[name] = out / name.lower().replace(" ", "")
        done = found[name] / "spec.json"
        if not done.exists() and run(
            [*flags, "--output", str(found[name]), "--validation-fraction", "0.3", "--overwrite"]
        ):
            sys.exit(1)
        if mined and not bm25_table(found[name]).exists():
            mine(found[name], bm25_table(found[name]), bm25=True)
    return found


def bm25_table(data: Path) -> Path:
    """Where the hard negatives of a log are."""
    return data.with_name(f"{data.name}-bm25.tsv")


def measured(config: str, overrides: Sequence[str], data: Path, out: Path) -> dict[str, Any]:
    """Validation NDCG of a training, with the prior whose weight is chosen there."""
    from dssm_tf.training.train import train

    settings = load_config(find_config(config), [*PLAIN, *overrides])
    result = train(settings, data, out, quiet=True)
    return {name: result.ndcg[name] for name in CUTOFFS} | {
        "seconds": result.seconds,
        "epoch": float(result.best_epoch),
        "queries": result.ndcg["queries"],
    }


def table(found: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> list[str]:
    """A table a log: mean and half the range over seeds; `won` beyond both ranges."""
    lines = []
    for log, choices in found.items():
        first = next(iter(choices))
        base = np.array([[one[name] for name in CUTOFFS] for one in choices[first]])
        queries = choices[first][0]["queries"]
        lines += [
            f"{log}, {queries:,.0f} validation queries:",
            "",
            "| | NDCG@1 | @3 | @10 | against the first at @10 | epochs | training |",
            "|---|---|---|---|---|---|---|",
        ]
        for choice, runs in choices.items():
            values = np.array([[one[name] for name in CUTOFFS] for one in runs])
            cells = [
                f"{mean:.3f} ±{spread / 2:.3f}"
                for mean, spread in zip(values.mean(0), np.ptp(values, 0), strict=True)
            ]
            gain = values[:, 2].mean() - base[:, 2].mean()
            widest = max(np.ptp(values[:, 2]), np.ptp(base[:, 2]))
            verdict = "won" if gain > widest else "lost" if -gain > widest else "level"
            verdict = verdict if min(len(values), len(base)) > 1 else "one seed"
            against = "" if choice == first else f"{gain:+.3f} {verdict}"
            epochs, seconds = (np.mean([one[key] for one in runs]) for key in ("epoch", "seconds"))
            lines.append(
                f"| {choice} | {' | '.join(cells)} | {against} | {epochs:.0f} | {seconds:.0f} s |"
            )
        lines.append("")
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with bestbuy/, homedepot/")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", default="dssm")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--logs", default="", help="comma-separated; all if empty")
    parser.add_argument("--choices", default="", help="separated by ;, all if empty")
    parser.add_argument(
        "--also", action="append", default=[], metavar="NAME:KEY=VALUE;...", help="another choice"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="unless a choice has it"
    )
    options = parser.parse_args(argv)
    if not options.data.is_dir():
        parser.error(f"--data: there is no folder {options.data}")
    load_tensorflow()
    choices = dict(CHOICES)
    for one in options.also:
        name, _, overrides = one.partition(":")
        choices[name] = tuple(overrides.split(";"))
    asked = [name for name in options.choices.split(";") if name] or list(choices)
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    mined = any("{bm25}" in one for choice in asked for one in choices[choice])
    names = [name for name in options.logs.split(",") if name]
    for log, data in prepared(options.data, options.out, names, mined).items():
        for choice in asked:
            for seed in range(options.seeds):
                key = f"{options.config} {choice} {seed}".replace("/", "-")
                kept = options.out / "measured" / data.name / f"{key}.json"
                if not kept.exists():
                    run = options.out / "run"
                    shutil.rmtree(run, ignore_errors=True)
                    overrides = [*options.set, f"training.seed={seed}"]
                    overrides += [
                        one.format(bm25=bm25_table(data)) if "{bm25}" in one else one
                        for one in choices[choice]
                    ]
                    value = measured(options.config, overrides, data, run)
                    with atomic_write(kept) as file:
                        json.dump(value, file)
                    sys.stderr.write(f"{log} {key}: {value}\n")
                one = json.loads(kept.read_text("utf-8"))
                found.setdefault(log, {}).setdefault(choice, []).append(one)
    sys.stdout.write("\n".join(table(found)) + "\n")


if __name__ == "__main__":
    main()
