"""Click models on small logs compared with `trigram_tfidf`, which does not use clicks.

    python -m examples.studies.small_logs --variant random= --variant idf=training.idf_start=true

draws logs of 200, 500, 1,000 and 5,000 pairs from the bundled WebQuestions and, with
`--best-buy FOLDER`, from the earlier four fifths of Best Buy's clicks (`clicks.tsv`, `corpus.tsv`).
Trains each variant on each log and ranks the whole corpus for the test queries: WebQuestions' test
questions, and Best Buy's later clicks. Prints Markdown tables of NDCG@10 and NDCG@1: the mean over
draws, and the difference from `trigram_tfidf`. Variants have no prior, like the control.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import (
    CorpusTitle,
    Judgment,
    judgments_from_clicks,
    read_corpus,
    write_corpus,
)
from dssm_tf.text.rules import FOLDED
from examples.studies.later_clicks import later_judgments, split_by_time

CONTROL = "trigram_tfidf"
METRICS = ("ndcg@10", "ndcg@1")


class LogSource(NamedTuple):
    """Pairs to draw logs from, titles to rank, and test judgments."""

    name: str
    pairs: list[tuple[str, str]]
    corpus: list[CorpusTitle]
    judgments: list[Judgment]


def web_questions() -> LogSource:
    """The bundled questions; the test questions are the judgments."""
    table = (files("dssm_tf.datasets") / "webquestions" / "pairs.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in table.splitlines()[1:]]
    titles = dict.fromkeys(row[3] for row in rows)
    corpus = [CorpusTitle(f"d{number}", title) for number, title in enumerate(titles)]
    ids = {entry.title: entry.doc_id for entry in corpus}
    test = [(row[2], ids[row[3]], 1.0) for row in rows if row[1] == "test"]
    pairs = [(row[2], row[3]) for row in rows if row[1] != "test"]
    return LogSource(
        "WebQuestions", pairs, corpus, judgments_from_clicks(test, FOLDED, dict(corpus))
    )


def best_buy(folder: Path) -> LogSource:
    """The shop's clicks; the last fifth is for the test."""
    corpus = read_corpus(folder / "corpus.tsv")
    header, earlier, later = split_by_time(folder / "clicks.tsv", 0.8)
    query, title = header.index("query"), header.index("title")
    pairs = [(row.split("\t")[query], row.split("\t")[title]) for row in earlier]
    ids = {entry.title: entry.doc_id for entry in reversed(corpus)}
    return LogSource("Best Buy", pairs, corpus, later_judgments(header, later, ids))


def evaluate_draw(
    source: LogSource, size: int, draw: int, variants: dict[str, list[str]], config: str
) -> dict[str, list[float]]:
    """Trains on one drawn log and returns the metrics of each system by name."""
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train
    from pipelines.preprocess import run

    pairs = random.Random(f"{source.name} {size} {draw}").sample(source.pairs, size)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows = "".join(f"{query}\t{title}\n" for query, title in pairs)
        (folder / "log.tsv").write_text(f"query\ttitle\n{rows}", "utf-8")
        write_corpus(folder / "corpus.tsv", source.corpus)
        arguments = ["--input", str(folder / "log.tsv"), "--corpus", str(folder / "corpus.tsv")]
        if run([*arguments, "--output", str(folder / "data")]):
            sys.exit(1)
        titles = [entry.title for entry in source.corpus]
        systems: dict[str, Any] = {CONTROL: BASELINES[CONTROL]().fit([], titles)}
        for name, changes in variants.items():
            settings = load_config(
                find_config(config), ["ranking.prior=0", *changes, f"training.seed={draw}"]
            )
            train(settings, folder / "data", folder / name, quiet=True)
            systems[name] = SemanticRanker.load(folder / name, name)
        evaluation = evaluate(systems, source.judgments, source.corpus, metrics=METRICS)
    return {
        name: [float(np.nanmean(evaluation.values[name][metric])) for metric in METRICS]
        for name in systems
    }


def table(results: dict[str, list[dict[str, list[float]]]], metric: int) -> Iterator[str]:
    """Yields the lines of a Markdown table with one row per log and one column per system."""
    names = list(next(iter(results.values()))[0])
    yield f"| {METRICS[metric].upper()} | {' | '.join(names)} |"
    yield "|---" * (1 + len(names)) + "|"
    for log, draws in results.items():
        values = {name: np.array([draw[name][metric] for draw in draws]) for name in names}
        cells = []
        for name in names:
            difference = values[name] - values[CONTROL]
            ends = (
                f" ({difference.min():+.3f} to {difference.max():+.3f})" if name != CONTROL else ""
            )
            cells.append(f"{values[name].mean():.3f}{ends}")
        yield f"| {log} | {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the study and prints its tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--best-buy", type=Path, help="folder of clicks.tsv and corpus.tsv")
    parser.add_argument("--sizes", default="200,500,1000,5000", help="pairs, comma-separated")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--config", default="dssm")
    parser.add_argument(
        "--variant", action="append", metavar="NAME=KEY=VALUE;KEY=VALUE", help="default: dssm="
    )
    parser.add_argument("--json", type=Path, help="also write the values to this file")
    options = parser.parse_args(argv)
    load_tensorflow()
    variants = {}
    for variant in options.variant or ["dssm="]:
        name, _, changes = variant.partition("=")
        variants[name] = [change for change in changes.split(";") if change]
    sources = [web_questions()] + ([best_buy(options.best_buy)] if options.best_buy else [])
    results: dict[str, list[dict[str, list[float]]]] = {}
    for size in map(int, options.sizes.split(",")):
        for source in sources:
            if size > len(source.pairs):
                continue
            for draw in range(options.draws):
                values = evaluate_draw(source, size, draw, variants, options.config)
                results.setdefault(f"{source.name}, {size:,} pairs", []).append(values)
                sys.stderr.write(f"{source.name} {size} {draw}: {values}\n")
                if options.json:
                    options.json.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    for metric in range(len(METRICS)):
        sys.stdout.write("\n".join(["", *table(results, metric)]) + "\n")


if __name__ == "__main__":
    main()
