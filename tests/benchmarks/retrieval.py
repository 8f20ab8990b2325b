"""Build time, memory, recall and speed of both kinds of index, by the number of titles.

    python -m tests.benchmarks.retrieval --model RUN [--titles 10000 100000 1000000]

Titles are synthetic: a title of WebQuestions with one to three further words, so that thousands of
titles have most of their words in common. Queries are those of WebQuestions. The model is any run
or compact model trained on such words, such as `build/demo/runs/dssm` after `make demo`.

Each index is built by `dssm index` and searched in another process by one thread, one query at a
time. `dssm index` prints the recall, measured on these queries. Seconds are processor seconds of
all threads, which depend little on other processes.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dssm_tf.common.command_line import run
from tests.benchmarks.runtime import questions
from tests.benchmarks.scale import ROOT, run_measured

QUERIES = 400
SECONDS = 2.0  # of searching

SEARCH = """
import resource, sys, time
from dssm_tf.retrieval.index import VectorIndex
started = time.process_time()
index = VectorIndex.open(sys.argv[1])
opened = time.process_time() - started
vectors = index.model.encode_queries(open(sys.argv[2]).read().splitlines(), prior=True)
count, started = 0, time.process_time()
while (seconds := time.process_time() - started) < float(sys.argv[3]):
    index.nearest.search(vectors[count % len(vectors)], 10)
    count += 1
print(f"| {1000 * seconds / count:.3f} | {opened:.2f} |",
      f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} |")
"""


def write_corpus(path: Path, titles: int, seed: int = 1) -> None:
    """Writes a synthetic corpus."""
    rng = random.Random(seed)
    words = sorted({word for query in questions() for word in query.lower().split()})
    names = sorted(questions("title"))
    with path.open("w", encoding="utf-8") as file:
        file.write("doc_id\ttitle\n")
        for number in range(titles):
            more = " ".join(rng.choices(words, k=rng.randint(1, 3)))
            file.write(f"t{number}\t{rng.choice(names)} {more}\n")


def build(folder: Path, model: Path, kind: str) -> str:
    """Runs `dssm index`; returns its seconds, peak memory and size on disk, for a table."""
    command = ["index", "--model", model, "--corpus", folder / "corpus.tsv", "--kind", kind]
    command += ["--queries", folder / "queries.txt", "--out", folder / kind]
    seconds, peak = run_measured([sys.executable, "-m", "dssm_tf.cli", *map(str, command)])
    size = sum(path.stat().st_size for path in (folder / kind).rglob("*") if path.is_file())
    return f"{seconds:.1f} | {peak:,.0f} | {size / 2**20:,.0f}"


def main(
    *,
    model: Path = Path("build/demo/runs/dssm"),
    titles: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (10**4, 10**5, 10**6),
) -> None:
    """Prints a table."""
    write = sys.stdout.write
    write(
        "| titles | kind | `dssm index`, s | peak, MiB | MiB on disk | search, ms | open, s | "
        "peak, MiB |\n|---|---|---|---|---|---|---|---|\n"
    )
    for count in titles:
        for kind in ("exact", "fast"):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                write_corpus(folder / "corpus.tsv", count)
                queries = random.Random(2).sample(sorted(questions()), QUERIES)
                (folder / "queries.txt").write_text("\n".join(queries))
                write(f"| {count:,} | {kind} | {build(folder, model.resolve(), kind)} ")
                sys.stdout.flush()
                arguments = [folder / kind, folder / "queries.txt", SECONDS]
                subprocess.run(
                    [sys.executable, "-c", SEARCH, *map(str, arguments)], cwd=ROOT, check=True,
                    env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                )  # fmt: skip


if __name__ == "__main__":
    sys.exit(run("retrieval", main, None))
