import math

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.baselines.bm25 import BM25
from dssm_tf.common.errors import UserError
from dssm_tf.text.rules import FOLDED

TITLES = ["red shoe", "red red hat", "blue hat box"]


def test_a_score_by_hand():
    # "red hat" in "red red hat": N = 3, L = (2 + 3 + 3) / 3; both words are in 2 titles, so
    # idf = log(1 + (3 - 2 + .5) / (2 + .5)); length factor = 1.5 (1 - .75 + .75 * 3 / L)
    idf = math.log(1 + 1.5 / 2.5)
    factor = 1.5 * (0.25 + 0.75 * 3 / (8 / 3))
    expected = idf * (2 / (2 + factor) + 1 / (1 + factor))
    assert BM25().fit([], TITLES).score("red hat", TITLES)[1] == pytest.approx(expected, rel=1e-6)


def test_a_title_outside_the_corpus_is_weighed_by_the_corpus():
    # "red tie": 2 words; "tie" is in no title, idf = log(1 + 3.5 / .5)
    factor = 1.5 * (0.25 + 0.75 * 2 / (8 / 3))
    expected = (math.log(1 + 1.5 / 2.5) + math.log(1 + 3.5 / 0.5)) / (1 + factor)
    model = BM25().fit([], TITLES)
    assert model.score("red tie", ["Red Tie"])[0] == pytest.approx(expected, rel=1e-6)


def test_the_formula_for_other_titles_is_the_one_bm25s_uses():
    model = BM25(k1=0.9, b=0.4).fit([], TITLES)
    inside = model.score_matrix(["red", "hat hat blue"], TITLES)
    # The same titles with their words in another order are not in the corpus.
    swapped = [" ".join(reversed(title.split())) for title in TITLES]
    assert model.score_matrix(["red", "hat hat blue"], swapped) == pytest.approx(inside, rel=1e-6)


WORD = st.sampled_from(["red", "blue", "hat", "shoe", "box", "the", "7"])
LINE = st.lists(WORD, min_size=1, max_size=6).map(" ".join)


@given(
    st.lists(LINE, min_size=1, max_size=12),
    st.lists(WORD, min_size=1, max_size=5).map(" ".join),
    st.sampled_from([(1.5, 0.75), (0.9, 0.0), (2.0, 1.0)]),
)
def test_ranking_equals_bm25s_own_retrieve(titles, query, parameters):
    k1, b = parameters
    library = bm25s.BM25(k1=k1, b=b, backend="numpy")
    library.index([FOLDED.words(title) for title in titles], show_progress=False)
    places, scores = library.retrieve([FOLDED.words(query)], k=len(titles), show_progress=False)
    ours = BM25(k1, b).fit([], titles).score(query, titles)
    assert ours[places[0]] == pytest.approx(scores[0], rel=1e-5, abs=1e-6)


def test_a_common_and_a_rare_word_are_not_worth_the_same():
    titles = ["the hat", "the shoe", "the box"]
    common, rare = BM25().fit([], titles).score_matrix(["the", "hat"], titles)[:, 0]
    assert 0 < common < rare


def test_a_long_query_scores_the_same_to_the_last_bit_in_any_batch():
    random = np.random.default_rng(0)
    titles = [" ".join(map(str, random.integers(0, 60, 12))) for _ in range(60)]
    model = BM25().fit([], titles)
    query = " ".join(map(str, range(40)))
    titles += [" ".join(reversed(title.split())) for title in titles]  # not in the corpus
    alone = model.score(query, titles)
    for others in (titles[:5], titles[:40]):
        assert (model.score_matrix([*others, query], titles)[-1] == alone).all()


def test_parameters_are_saved_with_the_corpus(tmp_path):
    BM25(k1=0.5, b=0.1).fit([], TITLES).save(tmp_path)
    loaded = BM25.load(tmp_path)
    assert (loaded.k1, loaded.b) == (0.5, 0.1)


def test_other_parameters_need_no_new_index_and_leave_the_model_alone(monkeypatch):
    model = BM25(k1=1.5, b=0.75).fit([], TITLES)
    titles = [*TITLES, "red tie"]
    before = model.score("red hat tie", titles)
    expected = BM25(k1=0.5, b=0.2).fit([], TITLES).score("red hat tie", titles)
    monkeypatch.setattr(bm25s.BM25, "index", None)
    tuned = model.with_parameters(k1=0.5, b=0.2)
    assert tuned.score("red hat tie", titles) == pytest.approx(expected, rel=1e-12)
    assert (model.score("red hat tie", titles) == before).all()
    assert not (before == expected).any()


def test_a_tuned_model_scores_the_same_to_the_last_bit_when_loaded(tmp_path):
    random = np.random.default_rng(0)
    titles = [" ".join(map(str, random.integers(0, 60, 12))) for _ in range(60)]
    tuned = BM25().fit([], titles).with_parameters(k1=0.9, b=0.3)
    tuned.save(tmp_path)
    loaded = BM25.load(tmp_path)
    assert (loaded.k1, loaded.b) == (0.9, 0.3)
    assert (loaded.score_matrix(titles, titles) == tuned.score_matrix(titles, titles)).all()


def test_the_same_titles_are_looked_up_once(monkeypatch):
    model = BM25().fit([], TITLES)
    titles = [*TITLES, "red tie"]
    first = model.score("red hat", titles)
    monkeypatch.setattr(model, "_find", None)
    assert (model.score("red hat", titles) == first).all()
    assert model.score("tie", titles)[3] > 0


def test_impossible_parameters_and_an_empty_corpus_are_refused():
    with pytest.raises(ValueError, match=r"b is 1\.2"):
        BM25(b=1.2)
    with pytest.raises(ValueError, match=r"k1 is -1"):
        BM25().fit([], TITLES).with_parameters(k1=-1)
    for corpus in ([], ["", "?!"]):
        with pytest.raises(UserError, match="needs a corpus"):
            BM25().fit([], corpus)


def test_a_whole_corpus_matrix_stays_quick():
    random = np.random.default_rng(0)
    titles = [" ".join(map(str, random.integers(0, 3000, 5))) for _ in range(2000)]
    model = BM25().fit([], titles)
    assert model.score_matrix(titles[:300], titles).argmax(axis=1).tolist() == list(range(300))
