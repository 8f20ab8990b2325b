"""Daily training: a warm start from yesterday's run compared with training from scratch.

    python -m examples.studies.warm_start --clicks clicks.tsv --corpus corpus.tsv --seeds 2

The rows are sorted by time. The first part (`--first`) is trained once. The rest is split into
`--days` + 1 slices of equal numbers of rows. Each system is trained on day i and evaluated with the
clicks of the next slice, ranking the whole catalog. So no test click is in the training data.

    anew    all rows up to the day, preprocessed and trained from scratch
    warm    a warm start from yesterday's warm run, with the day's rows only
    today   the day's rows only, trained from scratch
    stale   the run of the first part, never retrained

prints a Markdown table: NDCG by day and system, mean over seeds; the mean over days, with half
the range of the seeds' means; CPU seconds of preprocess and training together.
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
from examples.studies.later_clicks import CUTOFFS, later_judgments, split_by_time

SYSTEMS = ("anew", "warm", "today", "stale")


def slices(rows: Sequence[str], first: float, days: int) -> list[Sequence[str]]:
    """The first part, the rows of each day, and the test rows of the last day."""
    ends = [int(len(rows) * (first + (1 - first) * i / (days + 1))) for i in range(days + 2)]
    return [rows[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the study and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--clicks", type=Path, required=True, help="TSV with query, title, timestamp"
    )
    parser.add_argument("--corpus", type=Path, required=True, help="TSV with doc_id, title")
    parser.add_argument(
        "--first", type=float, default=0.5, help="fraction of rows in the first training"
    )
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--config", default="dssm")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="comma-separated")
    parser.add_argument(
        "--warm", action="append", default=[], metavar="KEY=VALUE", help="settings of warm runs"
    )
    parser.add_argument("--json", type=Path, help="also write the values to this file")
    parser.add_argument(
        "--work", type=Path, help="directory for runs; with existing runs, the study resumes"
    )
    options = parser.parse_args(argv)
    load_tensorflow()

    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train
    from pipelines.preprocess import run as preprocess

    corpus = read_corpus(options.corpus)
    ids = {entry.title: entry.doc_id for entry in reversed(corpus)}
    header, rows, _ = split_by_time(options.clicks, 1.0)
    day_rows = slices(rows, options.first, options.days)
    selected = options.systems.split(",")
    ndcg: dict[str, list[list[list[float]]]] = {name: [] for name in selected}
    seconds: dict[str, list[float]] = {name: [] for name in selected}
    with nullcontext(options.work) if options.work else TemporaryDirectory() as folder:
        Path(folder).mkdir(exist_ok=True)

        def train_run(name: str, rows: Sequence[str], seed: int, start: Path | None = None) -> Path:
            """Preprocesses the rows and trains a run, unless it exists; returns its directory."""
            started = process_time()
            log, data, run, cpu_file = (
                Path(folder) / f"{name}-{seed}{end}" for end in (".tsv", "", "-run", "-seconds")
            )
            cpu_seconds = seconds.setdefault(name.split("-")[0], [])
            if cpu_file.exists():
                cpu_seconds.append(float(cpu_file.read_text()))
                return run
            log.write_text("\n".join(["\t".join(header), *rows]) + "\n", "utf-8")
            vocabulary = [] if start is None else ["--vocabulary-from", str(start)]
            arguments = ["--input", str(log), "--corpus", str(options.corpus)]
            arguments += ["--output", str(data), "--overwrite"]
            if preprocess([*arguments, *vocabulary]):
                sys.exit(1)
            settings = [f"training.seed={seed}", *(options.warm if start is not None else ())]
            config = load_config(find_config(options.config), settings)
            train(config, data, run, start=start, quiet=True)
            cpu_seconds.append(process_time() - started)
            cpu_file.write_text(str(cpu_seconds[-1]))
            return run

        for seed in range(options.seeds):
            first = yesterday = train_run("first", day_rows[0], seed)
            for name in selected:
                ndcg[name].append([])
            for day in range(1, options.days + 1):
                rows_so_far = [row for slice_rows in day_rows[: day + 1] for row in slice_rows]
                runs = {"stale": first}
                if "anew" in selected:
                    runs["anew"] = train_run(f"anew-{day}", rows_so_far, seed)
                if "warm" in selected:
                    yesterday = train_run(f"warm-{day}", day_rows[day], seed, yesterday)
                    runs["warm"] = yesterday
                if "today" in selected:
                    runs["today"] = train_run(f"today-{day}", day_rows[day], seed)
                systems = {name: SemanticRanker.load(runs[name], name) for name in selected}
                judgments = later_judgments(header, list(day_rows[day + 1]), ids)
                evaluation = evaluate(systems, judgments, corpus, metrics=CUTOFFS)
                known_queries = {
                    FOLDED.key(row.split("\t")[header.index("query")]) for row in rows_so_far
                }
                new = np.array(
                    [FOLDED.key(query) not in known_queries for query in evaluation.task.queries]
                )
                for name in selected:
                    values = [evaluation.values[name][metric] for metric in CUTOFFS]
                    means = [*(np.nanmean(v) for v in values), np.nanmean(values[0][new])]
                    ndcg[name][-1].append([float(mean) for mean in means])
                    sys.stderr.write(f"{seed} {day} {name} {np.round(means, 3)}\n")
    lines = [
        f"first {len(day_rows[0]):,} rows, then {len(day_rows[1]):,} a day; {options.config}, "
        f"{options.seeds} seeds",
        "",
        "| system | " + " | ".join(f"day {day}" for day in range(1, options.days + 1))
        + " | NDCG@1 | @3 | @10 | new queries: @1 | CPU seconds per day |",
        "|" + "---|" * (options.days + 6),
    ]  # fmt: skip
    for name in selected:
        table = np.array(ndcg[name])  # (seeds, days, metrics)
        days = [f"{value:.3f}" for value in table.mean(0)[:, 0]]
        means, spread = table.mean((0, 1)), np.ptp(table.mean(1), axis=0) / 2
        cells = [
            f"{mean:.3f} ± {half_range:.3f}" for mean, half_range in zip(means, spread, strict=True)
        ]
        mean_cpu_seconds = np.mean(seconds[name]) if seconds[name] else 0
        lines.append(f"| {name} | {' | '.join([*days, *cells])} | {mean_cpu_seconds:.0f} |")
    sys.stdout.write("\n".join(lines) + "\n")
    if options.json:
        options.json.write_text(json.dumps({"ndcg": ndcg, "seconds": seconds}) + "\n", "utf-8")


if __name__ == "__main__":
    main()
