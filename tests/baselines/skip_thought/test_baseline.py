"""Skip-thought as a ranker: what the log's contiguous text is, and the cosine."""

import numpy as np
import pytest
from pytest import approx

from dssm_tf.baselines.skip_thought import baseline
from dssm_tf.baselines.skip_thought.baseline import SkipThought
from dssm_tf.baselines.skip_thought.published_weights import load_vectors, write_vectors

CLICKS = [("kettle", "Red Kettle", 3.0), ("rug", "Blue Rug", 1.0), ("pot", "Red Kettle", 1.0)]
CLICKS += [("kettle", "Red Kettle", 1.0)]
SIZES = {"units": 8, "word_units": 6, "max_steps": 1}


def test_each_text_of_the_log_stands_beside_itself_and_beside_what_it_was_clicked_with():
    kettle, rug = (["Red Kettle"] * 2, ["Blue Rug"] * 2)
    assert baseline._passages(CLICKS, ["Oak Table"]) == [
        [*kettle, "kettle", "kettle", *kettle, "pot", "pot", *kettle],
        [*rug, "rug", "rug", *rug],
    ]


def test_without_clicks_the_corpus_is_one_passage():
    assert baseline._passages([], ["Red Kettle", "Blue Rug"]) == [["Red Kettle", "Blue Rug"]]


@pytest.fixture(scope="module")
def trained():
    return SkipThought(**SIZES).fit(CLICKS, [])


def test_scores_are_cosines_of_thought_vectors(trained, tmp_path):
    trained.save(tmp_path)
    titles = ["Red Kettle", "Blue Rug", "red KETTLE!"]
    query, *vectors = load_vectors(tmp_path)(["kettle rug", *titles]).astype(np.float64)
    scores = trained.score("kettle rug", titles)
    assert scores == approx([query @ vector for vector in vectors], abs=1e-6)
    assert scores[0] == scores[2]
    assert trained.score("Red Kettle", titles)[0] == approx(1.0)


def test_with_weights_nothing_is_learned(trained, tmp_path):
    trained.save(tmp_path)
    ready = SkipThought(weights=tmp_path).fit(CLICKS * 9, ["Oak Table"])
    titles = ["Red Kettle", "Blue Rug"]
    assert (ready.score("pot", titles) == trained.score("pot", titles)).all()


def test_saving_keeps_what_else_the_directory_holds(trained, tmp_path):
    (tmp_path / "mine.txt").write_text("kept")
    trained.save(tmp_path)
    write_vectors(tmp_path, load_vectors(tmp_path))  # once more, over the same names
    assert (tmp_path / "mine.txt").read_text() == "kept"
    assert SkipThought.load(tmp_path).score("rug", ["Blue Rug"]) == trained.score(
        "rug", ["Blue Rug"]
    )


def test_a_model_that_was_not_fitted_says_so():
    with pytest.raises(ValueError, match="after `fit` or `load`"):
        SkipThought().score("a", ["b"])
