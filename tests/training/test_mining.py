"""Hard negatives: which titles they are, by a plain sort; what a table of them must hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dssm_tf
from dssm_tf.common.errors import UserError
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.training.mining import hard_columns
from tests.runs import finished_run
from tests.training.configuration import CONFIG, trained


def by_sorting(scores, clicked, first, last, margin) -> list[int]:
    """Moreira et al. 2024, TopK-PercPos: a negative scores at most 1 - margin of the positive."""
    left = [column for column in range(len(scores)) if column not in clicked]
    if clicked:
        best = max(scores[column] for column in clicked)
        left = [column for column in left if scores[column] <= best - margin * abs(best)]
    left.sort(key=lambda column: (-scores[column], column))
    return left[first - 1 : last]


@settings(max_examples=200)
@given(
    scores=st.lists(st.integers(-8, 8), min_size=6, max_size=12),
    clicked=st.sets(st.integers(0, 5), max_size=3),
    first=st.integers(1, 3),
    more=st.integers(0, 6),
    margin=st.sampled_from([0.0, 0.25, 0.75]),
)
def test_they_are_those_of_a_plain_sort(scores, clicked, first, more, margin):
    clicked = sorted(clicked)
    found = hard_columns(
        np.array(scores, float), np.array(clicked, int), (first, first + more), margin
    )
    assert found.tolist() == by_sorting(scores, clicked, first, first + more, margin)


def test_what_is_no_answer_is_no_negative_and_takes_no_rank():
    scores = np.array([-np.inf, 0.5, -np.inf, 0.4])
    assert hard_columns(scores, np.array([2]), (1, 4), 0.05).tolist() == [1, 3]


@pytest.fixture(scope="module")
def random_run(folder, data):
    return finished_run(folder / "random", data, CONFIG)


@pytest.fixture(scope="module")
def mined(folder, data, random_run):
    """The table of a model with random weights and of BM25."""
    out = folder / "mined.tsv"
    rows = dssm_tf.mine(data.path, out, {"mine": random_run}, bm25=True, ranks=(2, 6))
    return out, rows


@pytest.mark.numeric
def test_every_query_s_titles_are_those_its_cosines_say(mined, data, random_run):
    ranker, known = SemanticRanker.load(random_run), Preprocessed(data.path)
    titles = known.texts("titles")
    rows = [row for row in mined[1] if row.system == "mine"]
    for number, query in enumerate(known.texts("queries")):
        columns = known.clicked[number].as_py()
        scores = (ranker.encode_queries([query]) @ ranker.encode_titles(titles).T)[0]
        expected = by_sorting(scores, columns, 2, 6, 0.05)
        found = [row for row in rows if row.query == query]
        assert [row.rank for row in found] == list(range(2, 2 + len(expected)))
        # Two cosines that are equal but for their rounding may have changed places.
        by_title = dict(zip(titles, scores.tolist(), strict=True))
        assert [by_title[row.title] for row in found] == pytest.approx(scores[expected], abs=1e-5)
        assert not {row.title for row in found} & {titles[place] for place in columns}


def test_bm25_mines_titles_with_a_word_of_the_query_alone(mined):
    rows = [row for row in mined[1] if row.system == "bm25"]
    assert rows
    assert all(set(row.query.split()) & set(row.title.split()) for row in rows)
    assert all(row.score > 0 for row in rows)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bm25": True, "ranks": (0, 3)}, "ranks 0 3 and margin 0.05: expected the first rank"),
        ({"bm25": True, "margin": 1.0}, "margin 1: expected .* a share of .* below 1"),
        ({"bm25": True, "ranks": (900, 999)}, "no title of .* is at ranks 900 to 999"),
        ({"models": {"bm25": "run"}, "bm25": True}, "bm25 is the name of another system"),
    ],
)
def test_what_cannot_be_mined_is_one_line_and_no_table(data, tmp_path, options, says):
    with pytest.raises(UserError, match=says):
        dssm_tf.mine(data.path, tmp_path / "mined.tsv", **options)
    assert not (tmp_path / "mined.tsv").exists()


def test_mined_rivals_are_hard_and_unknown_rows_are_said(data, run, mined, write, tmp_path, capsys):
    table = write("mined.tsv", mined[0].read_text("utf-8") + "nobody\tasked\tx\t1\t1\n")
    changes = {"negatives": {"mined": 3, "mined_from": str(table)}, "training__epochs": 1}
    found = trained(data, tmp_path / "run", **changes)
    # Three more rivals, each of them hard: the same records cost more.
    assert found.history[0]["loss"] > run[1].history[0]["loss"]
    said = " ".join(capsys.readouterr().err.split())
    assert f": 1 of {len(mined[1]) + 1:,} rows have a query or a title that" in said
    assert "| negatives | in_batch True, mined 3, mined_from " in (
        tmp_path / "run" / "MODEL_CARD.md"
    ).read_text("utf-8")
    write("mined.tsv", "query\ttitle\nnobody\tasked\n")
    with pytest.raises(UserError, match=r"no row is of .*; mine with this data"):
        trained(data, tmp_path / "none", **changes)
