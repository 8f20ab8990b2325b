"""What the pipelines read on every engine, and what one machine writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dssm_tf.export.compact import export_compact
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from tests.clicks import ANIMALS, COLORS, click_log, write_data
from tests.engines.engines import embedded, preprocessed
from tests.runs import finished_run


@pytest.fixture(scope="session")
def log(tmp_path_factory) -> Path:
    """A log with sessions, robots, titles shown and not clicked, positions, and bad rows."""
    rows = ["query\ttitle\tclicks\timpressions\tposition\tsession_id"]
    for number, one in enumerate(click_log(400)):
        rows.append(f"{one.query}\t{one.title}\t1\t2\t{number % 5 + 1}\ts{number % 90}")
        rows.append(f"{one.query}\tshown {number % 7}\t0\t1\t{number % 3 + 1}\ts{number % 90}")
    rows += [f"robot {number}\tred fox\t1\t1\t1\trobot" for number in range(150)]
    rows += ["no title\t", "too\tmany\tclicks\tx\ty\tz"]
    path = tmp_path_factory.mktemp("log") / "clicks.tsv"
    path.write_text("\n".join(rows) + "\n", "utf-8")
    return path


@pytest.fixture(scope="session")
def preprocessed_here(log, tmp_path_factory) -> dict[str, str]:
    return preprocessed(log, tmp_path_factory.mktemp("local") / "data")


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    """A compact export."""
    folder = tmp_path_factory.mktemp("model")
    data = write_data(folder / "data", click_log(), validation=())
    run = finished_run(folder / "run", data, {"tower": {"name": "dssm", "widths": [8, 6]}})
    export_compact(run, folder / "export", "model")
    return folder / "export" / "model"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """Three files, each a piece."""
    folder = tmp_path_factory.mktemp("corpus")
    for file in range(3):
        titles = [f"{COLORS[n % 5]} {ANIMALS[n % 6]} {n}" for n in range(400)]
        write_corpus(
            folder / f"{file}.tsv", [CorpusTitle(f"{file}-{n}", t) for n, t in enumerate(titles)]
        )
    return folder


@pytest.fixture(scope="session")
def embedded_here(model, corpus, tmp_path_factory) -> dict[str, str]:
    return embedded(model, corpus, tmp_path_factory.mktemp("local") / "vectors")
