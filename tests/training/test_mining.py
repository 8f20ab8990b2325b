"""Mining hard negatives, and training on a table of them."""

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

pytestmark = pytest.mark.long  # trainings


def hard_negatives_by_sorting(scores, clicked, first, last, margin) -> list[int]:
    """Moreira et al. 2024, TopK-PercPos: a negative scores at most 1 - margin of the positive."""
    remaining = [column for column in range(len(scores)) if column not in clicked]
    if clicked:
        best = max(scores[column] for column in clicked)
        remaining = [column for column in remaining if scores[column] <= best - margin * abs(best)]
    remaining.sort(key=lambda column: (-scores[column], column))
    return remaining[first - 1 : last]


@settings(max_examples=200)
@given(
    scores=st.lists(st.integers(-8, 8), min_size=6, max_size=12),
    clicked=st.sets(st.integers(0, 5), max_size=3),
    first=st.integers(1, 3),
    more=st.integers(0, 6),
    margin=st.sampled_from([0.0, 0.25, 0.75]),
)
def test_hard_negatives_are_those_of_a_plain_sort(scores, clicked, first, more, margin):
    clicked = sorted(clicked)
    columns = hard_columns(
        np.array(scores, float), np.array(clicked, int), (first, first + more), margin
    )
    assert columns.tolist() == hard_negatives_by_sorting(
        scores, clicked, first, first + more, margin
    )


def test_a_title_with_score_minus_infinity_is_no_negative_and_has_no_rank():
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
def test_the_mined_titles_of_each_query_are_ranked_by_the_cosine(mined, data, random_run):
    ranker, known = SemanticRanker.load(random_run), Preprocessed(data.path)
    titles = known.texts("titles")
    rows = [row for row in mined[1] if row.system == "mine"]
    for index, query in enumerate(known.texts("queries")):
        clicked = known.clicked[index].as_py()
        scores = (ranker.encode_queries([query]) @ ranker.encode_titles(titles).T)[0]
        expected = hard_negatives_by_sorting(scores, clicked, 2, 6, 0.05)
        rows_of_query = [row for row in rows if row.query == query]
        assert [row.rank for row in rows_of_query] == list(range(2, 2 + len(expected)))
        # Two cosines that differ only by rounding may be in the other order.
        by_title = dict(zip(titles, scores.tolist(), strict=True))
        cosines = [by_title[row.title] for row in rows_of_query]
        assert cosines == pytest.approx(scores[expected], abs=1e-5)
        assert not {row.title for row in rows_of_query} & {titles[title] for title in clicked}


def test_bm25_mines_only_titles_with_a_word_of_the_query(mined):
    rows = [row for row in mined[1] if row.system == "bm25"]
    assert rows
    assert all(set(row.query.split()) & set(row.title.split()) for row in rows)
    assert all(row.score > 0 for row in rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bm25": True, "ranks": (0, 3)}, "ranks 0 3 and margin 0.05: expected the first rank"),
        ({"bm25": True, "margin": 1.0}, "margin 1: expected .* a margin of .* below 1"),
        ({"bm25": True, "ranks": (900, 999)}, "no title of .* is at ranks 900 to 999"),
        ({"models": {"bm25": "run"}, "bm25": True}, "the name bm25 is reserved"),
    ],
)
def test_unusable_options_are_refused_and_write_no_table(data, tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        dssm_tf.mine(data.path, tmp_path / "mined.tsv", **options)
    assert not (tmp_path / "mined.tsv").exists()


def test_mined_negatives_raise_the_loss_and_unknown_rows_are_reported(
    data, run, mined, write, tmp_path, capsys
):
    table = write("mined.tsv", mined[0].read_text("utf-8") + "nobody\tasked\tx\t1\t1\n")
    changes = {"negatives": {"mined": 3, "mined_from": str(table)}, "training__epochs": 1}
    result = trained(data, tmp_path / "run", **changes)
    # With three more negatives, all hard, the loss of the same records is higher.
    assert result.history[0]["loss"] > run[1].history[0]["loss"]
    warning = " ".join(capsys.readouterr().err.split())
    assert f": 1 of {len(mined[1]) + 1:,} rows are left out, because their query or" in warning
    assert "| negatives | in_batch True, mined 3, mined_from " in (
        tmp_path / "run" / "MODEL_CARD.md"
    ).read_text("utf-8")
    write("mined.tsv", "query\ttitle\nnobody\tasked\n")
    with pytest.raises(UserError, match=r"no row has a query and a title of .*; mine with"):
        trained(data, tmp_path / "none", **changes)
