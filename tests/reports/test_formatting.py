from dataclasses import replace

from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.reports.formatting import beaten, cells_of, mark, protocol
from tests.rankers import GOOD, JUDGMENTS, many


def test_the_best_means_of_a_column_are_told_and_none_of_a_table_of_one():
    cells = cells_of(evaluate(*many()))
    assert all(cell["best"] for cell in cells["better"])
    assert not any(cell["best"] for cell in cells["worse"])
    assert not cells_of(evaluate({"good": GOOD}, JUDGMENTS))["good"][0]["best"]
    equal = cells_of(evaluate({"a": GOOD, "b": GOOD}, JUDGMENTS))
    assert all(cells[0]["best"] for cells in equal.values())


def test_letters_are_of_the_systems_to_compare_with_in_their_order():
    rankers, *judged = many()
    worse, better = rankers.values()
    three = evaluate(
        {"worse": worse, "equal": worse, "better": better},
        *judged,
        metrics=["ndcg@1", "recall@100"],
    )
    assert beaten(three, "better", "ndcg@1") == ["worse", "equal"]
    assert not beaten(three, "better", "recall@100")
    assert [mark(three, [name]) for name in three.systems] == ["ᵃ", "ᵇ", "ᶜ"]
    turned = replace(three, against=("equal", "worse"))
    assert beaten(turned, "better", "ndcg@1") == ["equal", "worse"]
    assert [mark(turned, [name]) for name in turned.systems] == ["ᵇ", "ᵃ", ""]
    assert beaten(replace(three, against=("equal",)), "better", "ndcg@1") == ["equal"]


def test_queries_that_do_not_count_are_told():
    said = protocol(evaluate({"good": GOOD}, JUDGMENTS))
    assert "1 further query has no relevant title (all grades 0): left out of the means." in said
