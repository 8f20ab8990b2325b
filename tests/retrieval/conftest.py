"""A model that nobody trained, in a directory as training writes it."""

import json
import shutil

import keras
import numpy as np
import pytest

from dssm_tf.commands.index import index
from dssm_tf.config import parse_config
from dssm_tf.data.format import KINDS, VOCABULARY, Spec
from dssm_tf.model.run_files import (
    CONFIG,
    HISTORY,
    MODEL_CARD,
    QUERY_IDS,
    RANKING,
    WEIGHTS,
    mark_finished,
)
from dssm_tf.model.run_files import TITLES as CLICKED
from dssm_tf.model.semantic_ranker import SemanticRanker, build_model
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary

CORPUS = [
    ("d1", "Red Hat"),
    ("d2", "Blue Box"),
    ("d3", "Green Tie"),
    ("d4", "Red Box"),
    ("d5", "Hats of Felt"),
]
TITLES = [CorpusTitle(*row) for row in CORPUS]
DIMENSION = 6


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory):
    """Shared towers, so that a text's vector is the same on both sides."""
    run = tmp_path_factory.mktemp("run")
    keras.utils.set_random_seed(1)
    config = parse_config(
        {"tower": {"name": "dssm", "widths": [8, DIMENSION]}, "shared_towers": True}
    )
    texts = " ".join(title for _, title in CORPUS).lower().split()
    ngrams = dict.fromkeys(ngram for word in texts for ngram in letter_ngrams(word))
    vocabulary = Vocabulary(ngrams, FOLDED)
    build_model(config, vocabulary.size).save_weights(run / WEIGHTS)
    vocabulary.save(run / VOCABULARY)
    Spec(
        rules=FOLDED,
        title_fields=("title",),
        trigrams=len(vocabulary.ngrams),
        fingerprint=vocabulary.fingerprint,
        negatives=0,
        negative_alpha=1.0,
        seed=0,
        clicks=9,
        rows={kind: [1] for kind in KINDS},
        files={},
    ).save(run)
    # Clicked so often that its prior beats any cosine: see the weight.
    (run / CLICKED).write_text("title\tclicks\tqueries\nGreen Tie\t99999\t1\n")
    (run / CONFIG).write_text(config.dump())
    (run / RANKING).write_text(
        json.dumps({"prior_weight": 0.0, "validation": {"bm25_weight": 0.25}})
    )
    (run / MODEL_CARD).write_text("# dssm\n")
    (run / HISTORY).write_text("[]")
    np.save(run / QUERY_IDS, np.zeros(0, np.int64))
    mark_finished(run)
    return run


@pytest.fixture(scope="session")
def run_with_prior(run_directory, tmp_path_factory):
    """The same weights; what is clicked often scores more. Not to be changed."""
    run = shutil.copytree(run_directory, tmp_path_factory.mktemp("prior") / "run")
    (run / RANKING).write_text(
        json.dumps({"prior_weight": 0.02, "validation": {"bm25_weight": 0.25}})
    )
    mark_finished(run)
    return run


@pytest.fixture(scope="session")
def ranker(run_with_prior):
    return SemanticRanker.load(run_with_prior)


def unit(rows, columns, seed):
    """Vectors of length one, drawn at random."""
    vectors = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def corpus_file(tmp_path):
    path = tmp_path / "corpus.tsv"
    path.write_text("doc_id\ttitle\n" + "".join(f"{name}\t{title}\n" for name, title in CORPUS))
    return path


@pytest.fixture(scope="session")
def made(run_with_prior, tmp_path_factory):
    """An index; not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    write_corpus(folder / "corpus.tsv", TITLES)
    index(model=run_with_prior, corpus=folder / "corpus.tsv", out=folder / "index")
    return folder / "index"
