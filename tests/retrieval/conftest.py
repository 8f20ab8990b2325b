"""An untrained model in a run directory, and an index."""

import json

import numpy as np
import pytest

from dssm_tf.commands.index import index
from dssm_tf.model.run_files import RANKING, mark_finished
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from tests.clicks import Click, write_data
from tests.runs import finished_run

CORPUS = [
    ("d1", "Red Hat"),
    ("d2", "Blue Box"),
    ("d3", "Green Tie"),
    ("d4", "Red Box"),
    ("d5", "Hats of Felt"),
]
TITLES = [CorpusTitle(*row) for row in CORPUS]
DIMENSION = 6


def make_run(folder, prior_weight: float):
    """Writes a run with shared towers: a text has the same vector as query and as title."""
    # With 99,999 clicks, the prior of Green Tie outweighs most cosines.
    log = [Click(title, title, 99_999 if title == "Green Tie" else 1) for _, title in CORPUS]
    data = write_data(folder / "data", log, validation=(), negatives=1)
    tower = {"name": "dssm", "widths": [8, DIMENSION]}
    config = {"tower": tower, "shared_towers": True}
    run = finished_run(folder / "run", data, config, prior_weight, seed=1)
    ranking = {"prior_weight": prior_weight, "validation": {"cutoff": -0.25}}
    (run / RANKING).write_text(json.dumps(ranking))
    mark_finished(run)
    return run


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("plain"), 0.0)


@pytest.fixture(scope="session")
def run_with_prior(tmp_path_factory):
    """The same weights with a prior weight above 0. Tests must not change it."""
    return make_run(tmp_path_factory.mktemp("prior"), 0.05)


@pytest.fixture(scope="session")
def ranker(run_with_prior):
    return SemanticRanker.load(run_with_prior)


def random_unit_vectors(rows, columns, seed):
    """Random vectors of length one."""
    vectors = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def corpus_file(tmp_path):
    write_corpus(tmp_path / "corpus.tsv", TITLES)
    return tmp_path / "corpus.tsv"


@pytest.fixture(scope="session")
def index_directory(run_with_prior, tmp_path_factory):
    """An index. Tests must not change it."""
    folder = tmp_path_factory.mktemp("index")
    write_corpus(folder / "corpus.tsv", TITLES)
    index(model=run_with_prior, corpus=folder / "corpus.tsv", out=folder / "index")
    return folder / "index"
