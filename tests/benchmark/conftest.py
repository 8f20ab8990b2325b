"""A benchmark that runs once per session."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml

from tests.benchmark.colors import BROKEN, TINY, TITLES, arguments, benchmark


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A folder with a log, a corpus, judgments, a run of another system, and configurations."""
    folder = tmp_path_factory.mktemp("benchmark")
    rng = random.Random(0)
    rows = []
    for _ in range(150):
        title = rng.choice(TITLES)
        color, thing = title.split()
        query = rng.choice([f"{thing} {color}", thing, color, f"cheap {thing}"])
        rows.append(f"{query}\t{title}\t{rng.choice([1, 1, 3])}\n")
    (folder / "clicks.tsv").write_text("query\ttitle\tclicks\n" + "".join(rows))
    corpus = "".join(f"d{n:02d}\t{title}\n" for n, title in enumerate(TITLES))
    (folder / "corpus.tsv").write_text("doc_id\ttitle\n" + corpus)
    judgments, run_lines = [], []
    for query_number in range(30):
        index = rng.randrange(len(TITLES))
        color, thing = TITLES[index].split()
        query = rng.choice([f"{thing} {color}", thing, f"nice {color}", "?!"])
        judgments.append(f"q{query_number}\t{query}\td{index:02d}\t{TITLES[index]}\t2\n")
        if query_number % 2:
            run_lines.append(f"q{query_number} Q0 d{index:02d} 1 9.5 theirs\n")
    judgments.append("q90\tpurple\td00\tred hat\t0\n")  # left out: it has no relevant title
    head = "query_id\tquery\tdoc_id\ttitle\tgrade\n"
    (folder / "judgments.tsv").write_text(head + "".join(judgments))
    (folder / "theirs.trec").write_text("".join(run_lines))
    for name, config in (("tiny", TINY), ("broken", BROKEN)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config), "utf-8")
    return folder


@pytest.fixture(scope="session")
def benchmark_output(folder):
    """The evaluation, standard output and standard error of a benchmark."""
    return benchmark(folder, *arguments(folder))


@pytest.fixture(scope="session")
def metrics(folder, benchmark_output) -> dict:
    return json.loads((folder / "out" / "metrics.json").read_text("utf-8"))
