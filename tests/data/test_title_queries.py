"""Titles as queries for themselves: which, with what negatives."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.data.clicks import choose_titles, click_rows, draw_weights, title_rows
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.text_batches import Numbers
from tests.clicks import Click, click_log, write_data


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A log in which the title `red fox` is a query too, and what is made of it."""
    log = [*click_log(), Click("red fox", "blue whale"), Click("red fox", "the red fox")]
    log += [Click("a fox", "red fox"), Click("nothing", "?!")]
    data = Preprocessed(write_data(tmp_path_factory.mktemp("t") / "data", log).path)
    numbers = Numbers(data)
    texts = numbers.texts(title_queries=True)
    draw = draw_weights(data.title_counts[0], 0.75)
    chosen = np.arange(len(draw))
    rows = title_rows(chosen, texts, draw, click_rows(data, "train", 4, "none", 8), 0)
    return data, texts, rows


def test_each_title_is_clicked_for_its_own_text_once(made):
    data, texts, rows = made
    titles = data.texts("titles")
    named = [titles[number] for number in rows.titles[:, 0]]
    assert sorted([*named, "?!"]) == sorted(titles)  # one without a word is no query
    assert (rows.query == texts.first_title + rows.titles[:, 0]).all()
    assert (rows.weights == 1).all()
    assert rows.titles.shape[1] == 5


def test_negatives_are_other_titles_each_once(made):
    _, _, rows = made
    for titles in rows.titles.tolist():
        drawn = [title for title in titles if title >= 0]
        assert len(set(drawn)) == len(drawn) > 3


def test_what_was_clicked_for_a_query_of_the_same_words_is_never_a_negative(made):
    data, texts, _ = made
    fox, whale, the = data.find("titles", ["red fox", "blue whale", "the red fox"]).tolist()
    assert texts.clicked.of(texts.first_title + fox).tolist() == sorted([fox, whale, the])
    chosen = np.full(200, fox)
    draw = draw_weights(data.title_counts[0], 0.75)
    rows = title_rows(chosen, texts, draw, click_rows(data, "train", 4, "none", 8), 1)
    assert not {whale, the, fox} & set(rows.titles[:, 1:].ravel().tolist())


def test_titles_without_a_click_are_a_sample_where_there_are_many():
    clicks = np.array([5, 0, 3, *[0] * 40, 1])
    assert choose_titles(clicks, 100, seed=0).tolist() == [*range(44)]
    found = choose_titles(clicks, 10, seed=0)
    assert {0, 2, 43} <= set(found.tolist())
    assert len(found) == 3 + 10
    assert found.tolist() == choose_titles(clicks, 10, seed=0).tolist()
    assert found.tolist() != choose_titles(clicks, 10, seed=1).tolist()
    # The most clicked ones first, where memory is short.
    assert choose_titles(clicks, 10, seed=0, max_titles=2).tolist() == [0, 2]
