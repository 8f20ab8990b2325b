"""Doc2vec: equality with gensim, the paper's settings, and texts without known words."""

import json

import numpy as np
import pytest

from dssm_tf.baselines.doc2vec import Doc2Vec
from dssm_tf.common.errors import UserError
from tests.reference.paper_settings import DOC2VEC
from tests.script import python

doc2vec = pytest.importorskip("gensim.models.doc2vec", reason="needs the extra `baselines`")

TITLES = ["red hat", "blue hat box", "green tree house", "tall tree", "red red box"]
CLICKS = [("hat red", "red hat", 2.0), ("Hat, red", "Red Hat", 1.0), ("tree", "tall tree", 1.0)]
SMALL = {"size": 8, "sample": 0.0, "epochs": 20, "seed": 3}


def fitted(**values):
    return Doc2Vec(**{**SMALL, **values}).fit(CLICKS, TITLES)


def test_the_default_settings_are_those_of_the_paper():
    settings = Doc2Vec().parameters()
    assert settings.pop("seed") == 0
    assert {"vector_size": settings.pop("size"), **settings} == DOC2VEC


def test_vectors_equal_those_of_gensim_trained_on_the_pairs_and_the_titles():
    texts = ["hat red", "tree", "red hat", "tall tree", *TITLES]  # queries, titles, corpus
    tags = {text: tag for tag, text in enumerate(sorted(set(texts)))}
    documents = [doc2vec.TaggedDocument(text.split(), [tags[text]]) for text in texts]
    settings = DOC2VEC | {"vector_size": 8, "sample": 0.0, "epochs": 20, "seed": 3}
    library = doc2vec.Doc2Vec(documents, workers=1, **settings)
    expected = np.stack([library.dv[tags[text]] for text in TITLES])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    model = fitted()
    assert model.vectors(TITLES) == pytest.approx(expected, abs=1e-5)
    assert model.most_similar("Hat", 3) == library.wv.most_similar("hat", topn=3)
    with pytest.raises(UserError, match="doc2vec was not trained on the word 'zoo'"):
        model.most_similar("zoo")


@pytest.mark.long
def test_vectors_do_not_depend_on_the_hash_seed_of_the_process():
    code = """
from tests.baselines.test_doc2vec import fitted
print(fitted().vectors(["red hat", "blue tree"]).tolist())
"""
    # The tolerance is for sums in another order. If the hash mattered, vectors would differ widely.
    expected = fitted().vectors(["red hat", "blue tree"])
    vectors = json.loads(python(code, PYTHONHASHSEED="2"))
    assert np.array(vectors) == pytest.approx(expected, abs=1e-6)


def test_a_text_without_a_known_word_scores_zero():
    model = fitted(min_count=2)
    assert (model.score_matrix(["unseen", "", "green"], TITLES) == 0).all()
    assert (model.score("red", ["green house", "", "?"]) == 0).all()
