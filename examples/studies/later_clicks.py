"""Trains on the earlier part of a click log and ranks the whole catalogue for the later part.

    python -m examples.studies.later_clicks --clicks clicks.tsv --corpus corpus.tsv --seeds 3

prints a Markdown table: BM25 and each configuration, over all later queries and over those whose
normalised text the earlier part does not hold; mean and spread over seeds; seconds of training.
Later clicks become judgments as in `judgments_from_clicks`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import Judgment, judgments_from_clicks, read_corpus
from dssm_tf.text.rules import FOLDED

CUTOFFS = ("ndcg@1", "ndcg@3", "ndcg@10")


def split_by_time(clicks: Path, share: float) -> tuple[list[str], list[str], list[str]]:
    """Header, earlier rows and later rows of a TSV with a `timestamp` column."""
    header, *rows = clicks.read_text("utf-8").splitlines()
    column = header.split("\t").index("timestamp")
    rows.sort(key=lambda row: row.split("\t")[column])
    cut = int(len(rows) * share)
    return header.split("\t"), rows[:cut], rows[cut:]


def judged(header: list[str], rows: list[str], ids: dict[str, str]) -> list[Judgment]:
    """Judgments of the later clicks on titles of the catalogue."""
    query, title = header.index("query"), header.index("title")
    count = header.index("clicks") if "clicks" in header else None
    cells = [row.split("\t") for row in rows]
    return judgments_from_clicks(
        (
            (one[query], ids[one[title]], 1.0 if count is None else float(one[count]))
            for one in cells
            if one[title] in ids
        ),
        FOLDED,
        {doc_id: title for title, doc_id in ids.items()},
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--clicks", type=Path, required=True, help="TSV with query, title, timestamp"
    )
    parser.add_argument("--corpus", type=Path, required=True, help="TSV with doc_id, title")
    parser.add_argument("--share", type=float, default=0.8, help="earlier part of the rows")
    parser.add_argument("--configs", default="dssm,lstm", help="comma-separated configurations")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--titles", choices=("corpus", "log"), default="corpus", help="titles that training knows"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=Path, help="also writes the figures here")
    options = parser.parse_args(argv)
    load_tensorflow()

    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train
    from pipelines.preprocess import run

    corpus = read_corpus(options.corpus)
    header, earlier, later = split_by_time(options.clicks, options.share)
    judgments = judged(header, later, {one.title: one.doc_id for one in reversed(corpus)})
    seen = {FOLDED.key(row.split("\t")[header.index("query")]) for row in earlier}

    rows: dict[str, list[list[float]]] = {}
    with TemporaryDirectory() as folder:
        log, data = Path(folder) / "clicks.tsv", Path(folder) / "data"
        log.write_text("\n".join(["\t".join(header), *earlier]) + "\n", "utf-8")
        known = ["--corpus", str(options.corpus)] if options.titles == "corpus" else []
        if run(["--input", str(log), *known, "--output", str(data)]):
            sys.exit(1)
        bm25 = BASELINES["bm25"]().fit([], [one.title for one in corpus])
        for seed in range(options.seeds):
            systems, seconds = {"bm25": bm25}, {"bm25": 0.0}
            for name in options.configs.split(","):
                config = load_config(find_config(name), [*options.set, f"training.seed={seed}"])
                out = Path(folder) / f"{name.replace('/', '-')}-{seed}"
                seconds[name] = train(config, data, out, quiet=True).seconds
                systems[name] = SemanticRanker.load(out, name)
            evaluation = evaluate(systems, judgments, corpus, metrics=CUTOFFS)
            fresh = np.array([FOLDED.key(q) not in seen for q in evaluation.task.queries])
            for name in systems:
                values = [evaluation.values[name][metric] for metric in CUTOFFS]
                means = [*(np.nanmean(v) for v in values), *(np.nanmean(v[fresh]) for v in values)]
                rows.setdefault(name, []).append([*map(float, means), seconds[name]])

    lines = [
        f"{len(evaluation.task.queries):,} later queries, {int(fresh.sum()):,} of them new; "
        f"{len(corpus):,} titles; {options.seeds} seeds",
        "",
        "| system | NDCG@1 | @3 | @10 | new: NDCG@1 | @3 | @10 | training |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, found in rows.items():
        mean, spread = np.mean(found, 0), np.ptp(found, 0)
        cells = [
            f"{m:.3f}" + (f" ± {s / 2:.3f}" if s > 0 else "")
            for m, s in zip(mean[:6], spread[:6], strict=True)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} | {mean[6]:.0f} s |")
    sys.stdout.write("\n".join(lines) + "\n")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
