"""Day after day: a run that goes on from yesterday's, against one trained anew on everything.

    python -m examples.studies.warm_start --clicks clicks.tsv --corpus corpus.tsv --seeds 2

The rows are put in the order of time. The first part (`--first`) is learned from once; the rest
falls into one more slice than `--days`, of equal numbers of rows. Day i is learned, and judged by
the clicks of the slice after it, the whole catalogue ranked: nothing is judged that was learned.

    anew    all rows up to the day, preprocessed and trained from nothing
    warm    yesterday's warm run, and the day's rows alone
    today   the day's rows alone, trained from nothing
    stale   the run of the first part, never trained again

prints a Markdown table: NDCG by day and system, mean over seeds; the mean over days, with half
the spread of the seeds' means; processor seconds of preprocess and training together.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np

from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.tables.judgments import read_corpus
from dssm_tf.text.rules import FOLDED
from examples.studies.later_clicks import CUTOFFS, judged, split_by_time

SYSTEMS = ("anew", "warm", "today", "stale")


def slices(rows: Sequence[str], first: float, days: int) -> list[Sequence[str]]:
    """The first part, the rows of each day, and those that judge the last day."""
    ends = [int(len(rows) * (first + (1 - first) * i / (days + 1))) for i in range(days + 2)]
    return [rows[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--clicks", type=Path, required=True, help="TSV with query, title, timestamp"
    )
    parser.add_argument("--corpus", type=Path, required=True, help="TSV with doc_id, title")
    parser.add_argument("--first", type=float, default=0.5, help="share of rows learned first")
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--config", default="dssm")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="comma-separated")
    parser.add_argument(
        "--warm", action="append", default=[], metavar="KEY=VALUE", help="settings of warm runs"
    )
    parser.add_argument("--json", type=Path, help="also writes the figures here")
    parser.add_argument("--work", type=Path, help="keeps runs here; killed, it goes on from them")
    options = parser.parse_args(argv)
    load_tensorflow()

    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train
    from pipelines.preprocess import run as preprocess

    corpus = read_corpus(options.corpus)
    ids = {one.title: one.doc_id for one in reversed(corpus)}
    header, rows, _ = split_by_time(options.clicks, 1.0)
    parts = slices(rows, options.first, options.days)
    chosen = options.systems.split(",")
    ndcg: dict[str, list[list[list[float]]]] = {name: [] for name in chosen}
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    with nullcontext(options.work) if options.work else TemporaryDirectory() as folder:
        Path(folder).mkdir(exist_ok=True)

        def learned(name: str, rows: Sequence[str], seed: int, start: Path | None = None) -> Path:
            began = process_time()
            log, data, run, took = (
                Path(folder) / f"{name}-{seed}{end}" for end in (".tsv", "", "-run", "-seconds")
            )
            spent = seconds.setdefault(name.split("-")[0], [])
            if took.exists():
                spent.append(float(took.read_text()))
                return run
            log.write_text("\n".join(["\t".join(header), *rows]) + "\n", "utf-8")
            grown = [] if start is None else ["--vocabulary-from", str(start)]
            words = ["--input", str(log), "--corpus", str(options.corpus), "--output", str(data)]
            words.append("--overwrite")
            if preprocess([*words, *grown]):
                sys.exit(1)
            settings = [f"training.seed={seed}", *(options.warm if start is not None else ())]
            config = load_config(find_config(options.config), settings)
            train(config, data, run, start=start, quiet=True)
            spent.append(process_time() - began)
            took.write_text(str(spent[-1]))
            return run

        for seed in range(options.seeds):
            first = yesterday = learned("first", parts[0], seed)
            for name in chosen:
                ndcg[name].append([])
            for day in range(1, options.days + 1):
                so_far = [row for part in parts[: day + 1] for row in part]
                runs = {"stale": first}
                if "anew" in chosen:
                    runs["anew"] = learned(f"anew-{day}", so_far, seed)
                if "warm" in chosen:
                    yesterday = learned(f"warm-{day}", parts[day], seed, yesterday)
                    runs["warm"] = yesterday
                if "today" in chosen:
                    runs["today"] = learned(f"today-{day}", parts[day], seed)
                systems = {name: SemanticRanker.load(runs[name], name) for name in chosen}
                judgments = judged(header, list(parts[day + 1]), ids)
                found = evaluate(systems, judgments, corpus, metrics=CUTOFFS)
                known = {FOLDED.key(row.split("\t")[header.index("query")]) for row in so_far}
                new = np.array([FOLDED.key(query) not in known for query in found.task.queries])
                for name in chosen:
                    values = [found.values[name][metric] for metric in CUTOFFS]
                    means = [*(np.nanmean(v) for v in values), np.nanmean(values[0][new])]
                    ndcg[name][-1].append([float(mean) for mean in means])
                    sys.stderr.write(f"{seed} {day} {name} {np.round(means, 3)}\n")
    lines = [
        f"first {len(parts[0]):,} rows, then {len(parts[1]):,} a day; {options.config}, "
        f"{options.seeds} seeds",
        "",
        "| system | " + " | ".join(f"day {day}" for day in range(1, options.days + 1))
        + " | NDCG@1 | @3 | @10 | new queries: @1 | processor s a day |",
        "|" + "---|" * (options.days + 6),
    ]  # fmt: skip
    for name in chosen:
        values = np.array(ndcg[name])  # (seeds, days, figures)
        days = [f"{value:.3f}" for value in values.mean(0)[:, 0]]
        means, spread = values.mean((0, 1)), np.ptp(values.mean(1), axis=0) / 2
        cells = [f"{mean:.3f} ± {half:.3f}" for mean, half in zip(means, spread, strict=True)]
        took = np.mean(seconds[name]) if seconds[name] else 0
        lines.append(f"| {name} | {' | '.join([*days, *cells])} | {took:.0f} |")
    sys.stdout.write("\n".join(lines) + "\n")
    if options.json:
        options.json.write_text(json.dumps({"ndcg": ndcg, "seconds": seconds}) + "\n", "utf-8")


if __name__ == "__main__":
    main()
