"""Processor seconds, memory and files of evaluate and benchmark, by numbers of titles and queries.

    python -m tests.benchmarks.evaluation --titles 1000000 --queries 1000
    python -m tests.benchmarks.evaluation --titles 10000 --queries 100000

The texts are synthetic, see `tests.benchmarks.scale`. A query has one to three words of a title,
which has grade 2 for it; two random titles have grade 0. All queries rank all titles. The
benchmark learns from clicks on other titles, one per judged query. BM25 is measured, because it is
the fastest system: most of the time is that of ranking and measuring.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter

from dssm_tf.common.command_line import run
from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus, write_judgments
from tests.benchmarks.scale import load_average, run_measured, title_texts

Command = Literal["evaluate", "benchmark"]
MULTIPLE = Parameter(consume_multiple=True)


def write_inputs(folder: Path, titles: int, queries: int, seed: int = 1) -> None:
    """Writes `corpus.tsv`, `judgments.tsv` and `clicks.tsv`."""
    rng = random.Random(seed)
    texts = title_texts(np.arange(titles))
    write_corpus(
        folder / "corpus.tsv", (CorpusTitle(f"t{row}", text) for row, text in enumerate(texts))
    )

    def query_of(title: int) -> str:
        words = texts[title].split()
        return " ".join(rng.sample(words, min(len(words), rng.randint(1, 3))))

    def judgments() -> list[Judgment]:
        rows = []
        for number in range(queries):
            title = rng.randrange(titles)
            query = f"{query_of(title)} q{number % 1000}"
            graded = {title: 2.0} | {rng.randrange(titles): 0.0 for _ in range(2)} | {title: 2.0}
            rows += [
                Judgment(f"q{number}", query, f"t{row}", texts[row], grade)
                for row, grade in graded.items()
            ]
        return rows

    write_judgments(folder / "judgments.tsv", judgments())
    with (folder / "clicks.tsv").open("w", encoding="utf-8") as file:
        file.write("query\ttitle\tclicks\n")
        for _ in range(queries):
            title = rng.randrange(titles)
            file.write(f"{query_of(title)}\t{texts[title]}\t1\n")


def measure(folder: Path, command: Command, tune: bool = False) -> str:
    """Runs a command; returns its processor seconds, peak MiB and MB written, for a table."""
    out = folder / command
    (folder / "fixed.yaml").write_text("baseline: {name: bm25, k1: 0.5, b: 0.6}\n", "utf-8")
    system = "bm25" if tune else f"bm25={folder / 'fixed.yaml'}"
    inputs = ["--judgments", folder / "judgments.tsv", "--corpus", folder / "corpus.tsv"]
    flags = {
        "evaluate": ["--baselines", "bm25"],
        "benchmark": ["--systems", system, "--clicks", folder / "clicks.tsv", "--jobs", "1"],
    }[command]
    arguments = [command, *inputs, *flags, "--out", out]
    seconds, peak = run_measured([sys.executable, "-m", "dssm_tf.cli", *map(str, arguments)])
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return f"{seconds:,.0f} | {peak:,.0f} | {size / 1e6:,.0f}"


def main(
    *,
    titles: Annotated[tuple[int, ...], MULTIPLE] = (10_000, 100_000),
    queries: Annotated[tuple[int, ...], MULTIPLE] = (1_000, 10_000),
    commands: Annotated[tuple[Command, ...], MULTIPLE] = ("evaluate", "benchmark"),
    tune: bool = False,
) -> None:
    """Prints a table in Markdown, one row per command, number of titles and number of queries.

    Args:
        titles: numbers of titles.
        queries: numbers of queries.
        commands: commands to run.
        tune: `benchmark` also chooses k1 and b of BM25 by cross-validation, among 25 settings.
    """
    write = sys.stdout.write
    write(f"{load_average()}\n\n| command | titles | queries | processor s | MiB | MB written |\n")
    write("|---|---|---|---|---|---|\n")
    for title_count in titles:
        for query_count in queries:
            with TemporaryDirectory() as directory:
                write_inputs(Path(directory), title_count, query_count)
                for command in commands:
                    cells = measure(Path(directory), command, tune)
                    write(f"| {command} | {title_count:,} | {query_count:,} | {cells} |\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(run("evaluation", main, None))
