"""Inputs of the pipelines for every engine, and the outputs of a local run."""

from __future__ import annotations

from pathlib import Path

import pytest

from dssm_tf.export.compact import export_compact
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from tests.clicks import ANIMALS, COLORS, click_log, write_data
from tests.engines.engines import run_embed, run_preprocess
from tests.runs import finished_run


@pytest.fixture(scope="session")
def log(tmp_path_factory) -> Path:
    """A log with sessions, robots, impressions without clicks, positions, and bad rows."""
    rows = ["query\ttitle\tclicks\timpressions\tposition\tsession_id"]
    for i, click in enumerate(click_log(400)):
        rows.append(f"{click.query}\t{click.title}\t1\t2\t{i % 5 + 1}\ts{i % 90}")
        rows.append(f"{click.query}\tshown {i % 7}\t0\t1\t{i % 3 + 1}\ts{i % 90}")
    rows += [f"robot {number}\tred fox\t1\t1\t1\trobot" for number in range(150)]
    rows += ["no title\t", "too\tmany\tclicks\tx\ty\tz"]
    path = tmp_path_factory.mktemp("log") / "clicks.tsv"
    path.write_text("\n".join(rows) + "\n", "utf-8")
    return path


@pytest.fixture(scope="session")
def local_preprocessed(log, tmp_path_factory) -> dict[str, str]:
    return run_preprocess(log, tmp_path_factory.mktemp("local") / "data")


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
    """A corpus of three files with 400 titles each."""
    folder = tmp_path_factory.mktemp("corpus")
    for file in range(3):
        titles = [f"{COLORS[n % 5]} {ANIMALS[n % 6]} {n}" for n in range(400)]
        write_corpus(
            folder / f"{file}.tsv", [CorpusTitle(f"{file}-{n}", t) for n, t in enumerate(titles)]
        )
    return folder


@pytest.fixture(scope="session")
def local_embedded(model, corpus, tmp_path_factory) -> dict[str, str]:
    return run_embed(model, corpus, tmp_path_factory.mktemp("local") / "vectors")
