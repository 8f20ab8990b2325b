"""A whole benchmark, run once."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml

from tests.benchmark.colours import BROKEN, TINY, TITLES, arguments, benchmark


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A log, a corpus, judgments, a run of another system, and configurations."""
    folder = tmp_path_factory.mktemp("benchmark")
    draw = random.Random(0)
    rows = []
    for _ in range(150):
        title = draw.choice(TITLES)
        color, thing = title.split()
        query = draw.choice([f"{thing} {color}", thing, color, f"cheap {thing}"])
        rows.append(f"{query}\t{title}\t{draw.choice([1, 1, 3])}\n")
    (folder / "clicks.tsv").write_text("query\ttitle\tclicks\n" + "".join(rows))
    corpus = "".join(f"d{n:02d}\t{title}\n" for n, title in enumerate(TITLES))
    (folder / "corpus.tsv").write_text("doc_id\ttitle\n" + corpus)
    judged, run = [], []
    for number in range(30):
        place = draw.randrange(len(TITLES))
        color, thing = TITLES[place].split()
        query = draw.choice([f"{thing} {color}", thing, f"nice {color}", "?!"])
        judged.append(f"q{number}\t{query}\td{place:02d}\t{TITLES[place]}\t2\n")
        if number % 2:
            run.append(f"q{number} Q0 d{place:02d} 1 9.5 theirs\n")
    judged.append("q90\tpurple\td00\tred hat\t0\n")  # nothing relevant: left out
    head = "query_id\tquery\tdoc_id\ttitle\tgrade\n"
    (folder / "judgments.tsv").write_text(head + "".join(judged))
    (folder / "theirs.trec").write_text("".join(run))
    for name, config in (("tiny", TINY), ("broken", BROKEN)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config), "utf-8")
    return folder


@pytest.fixture(scope="session")
def done(folder):
    """The result of a whole benchmark, and what it printed."""
    return benchmark(folder, *arguments(folder))


@pytest.fixture(scope="session")
def written(folder, done) -> dict:
    return json.loads((folder / "out" / "metrics.json").read_text("utf-8"))
