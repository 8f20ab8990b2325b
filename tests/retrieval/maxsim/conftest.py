"""A compact model with the score maxsim and random weights, and its index."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.runtime import MaxSimRanker, load
from dssm_tf.tables.judgments import CorpusTitle
from tests.runtime.maxsim_models import SETTINGS, TITLES, random_model, write_compact_model

CLICKS = {"red shoe red box": -0.5, "shoe box": -1.5}
"""Log-priors of the clicked titles."""

CORPUS = [
    CorpusTitle(f"d{row}", title) for row, title in enumerate([*TITLES, "RED shoe, red: box"])
]
QUERIES = ["red shoe", "Shoe BOX!", "blue lid", "runing shoez", "walla walla", "虎", "box red of"]


def ranker_of(model, weighted_priors=lambda titles: np.zeros(len(titles), np.float32)):
    return MaxSimRanker(SETTINGS, model, weighted_priors)


def corpus_of(titles):
    return [CorpusTitle(f"d{row}", title) for row, title in enumerate(titles)]


def hits_of(index, query, k=10, **options):
    return index.search(query, k, **options).rankings["semantic"]


def ids(hits):
    return [hit.doc_id for hit in hits]


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "1"
    # Each pair of neighboring words is in two titles, so all are kept.
    return write_compact_model(random_model([*TITLES, *TITLES]), folder, CLICKS)


@pytest.fixture(scope="session")
def ranker(model_directory) -> MaxSimRanker:
    ranker = load(model_directory)
    assert isinstance(ranker, MaxSimRanker)
    return ranker


@pytest.fixture(scope="session")
def index(ranker) -> MaxSimIndex:
    return MaxSimIndex.build(ranker, CORPUS)


@pytest.fixture(scope="session")
def directory(index, model_directory, tmp_path_factory) -> Path:
    """A saved index. Tests must not change it."""
    folder = tmp_path_factory.mktemp("index")
    shutil.copytree(model_directory, folder / "model")
    index.write(folder)
    return folder
