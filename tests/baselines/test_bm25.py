"""BM25: one score by hand, scores of bm25s, and equal scores in any batch."""

import math

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.bm25 import BM25
from dssm_tf.common.checksums import write_checksums
from dssm_tf.common.errors import UserError
from tests.baselines.cases import CORPUS, TEXT, joined

TITLES = ["red shoe", "red red hat", "blue hat box"]


def test_a_score_by_hand():
    # "red hat" in "red red hat": N = 3, L = (2 + 3 + 3) / 3; both words are in 2 titles, so
    # idf = log(1 + (3 - 2 + .5) / (2 + .5)); length factor = 1.5 (1 - .75 + .75 * 3 / L)
    idf = math.log(1 + 1.5 / 2.5)
    factor = 1.5 * (0.25 + 0.75 * 3 / (8 / 3))
    expected = idf * (2 / (2 + factor) + 1 / (1 + factor))
    model = BM25().fit([], TITLES)
    assert model.score("red hat", TITLES)[1] == pytest.approx(expected, rel=1e-12)
    # A title outside the corpus, "red tie": 2 words; "tie" is in no title, idf = log(1 + 3.5 / .5)
    factor = 1.5 * (0.25 + 0.75 * 2 / (8 / 3))
    expected = (idf + math.log(1 + 3.5 / 0.5)) / (1 + factor)
    assert model.score("red tie", ["Red Tie"])[0] == pytest.approx(expected, rel=1e-12)


@given(CORPUS, TEXT, st.sampled_from([(1.5, 0.75), (0.9, 0.0), (2.0, 1.0)]))
def test_scores_equal_those_of_bm25s(corpus, query, parameters):
    k1, b = parameters
    library = bm25s.BM25(k1=k1, b=b, backend="numpy")
    library.index(corpus, show_progress=False)
    order, scores = library.retrieve([query], k=len(corpus), show_progress=False)
    model = BM25(k1=k1, b=b).fit([], joined(corpus))
    # The same titles with their words in another order are not in the corpus.
    for titles in (corpus, [title[::-1] for title in corpus]):
        ours = model.score(" ".join(query), joined(titles))[order[0]]
        assert ours == pytest.approx(scores[0], rel=1e-5, abs=1e-6)


def test_a_long_query_scores_the_same_to_the_last_bit_in_any_batch():
    random = np.random.default_rng(0)
    titles = joined(random.integers(0, 60, (60, 12)).astype(str))
    model = BM25().fit([], titles)
    query = " ".join(map(str, range(40)))
    titles += [" ".join(reversed(title.split())) for title in titles]  # not in the corpus
    scores = model.score(query, titles)
    for others in (titles[:5], titles[:40]):
        assert (model.score_matrix([*others, query], titles)[-1] == scores).all()


def test_negative_document_frequencies_are_an_error_without_warnings(tmp_path):
    BM25().fit([], TITLES).save(tmp_path)
    path = tmp_path / "bm25.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["document_frequency"] = -10 * arrays["document_frequency"]
    np.savez(path, **arrays)
    write_checksums(tmp_path, [path.name], "bm25.sha256")
    with pytest.raises(UserError, match=r"is not a saved bm25 model: its scores are \[\[nan"):
        BM25.load(tmp_path)
