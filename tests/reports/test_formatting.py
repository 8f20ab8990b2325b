from dataclasses import replace

from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.reports.formatting import mean_cells, protocol, significantly_worse, superscripts
from tests.rankers import GOOD, JUDGMENTS, rankers_on_many_queries


def test_best_marks_the_highest_means_of_a_column_with_several_systems():
    cells = mean_cells(evaluate(*rankers_on_many_queries()))
    # Judged@10 describes rankings and not their quality.
    best = {cell["metric"] for cell in cells["better"] if cell["best"]}
    assert best == {cell["metric"] for cell in cells["better"]} - {"judged@10"}
    assert not any(cell["best"] for cell in cells["worse"])
    assert not mean_cells(evaluate({"good": GOOD}, JUDGMENTS))["good"][0]["best"]
    equal = mean_cells(evaluate({"a": GOOD, "b": GOOD}, JUDGMENTS))
    assert all(cells[0]["best"] for cells in equal.values())


def test_superscripts_follow_the_order_of_the_systems_to_compare_with():
    rankers, *judged = rankers_on_many_queries()
    worse, better = rankers.values()
    evaluation = evaluate(
        {"worse": worse, "equal": worse, "better": better},
        *judged,
        metrics=["ndcg@1", "recall@100"],
    )
    assert significantly_worse(evaluation, "better", "ndcg@1") == ["worse", "equal"]
    assert not significantly_worse(evaluation, "better", "recall@100")
    assert [superscripts(evaluation, [name]) for name in evaluation.systems] == ["ᵃ", "ᵇ", "ᶜ"]
    reordered = replace(evaluation, against=("equal", "worse"))
    assert significantly_worse(reordered, "better", "ndcg@1") == ["equal", "worse"]
    assert [superscripts(reordered, [name]) for name in reordered.systems] == ["ᵇ", "ᵃ", ""]
    assert significantly_worse(replace(evaluation, against=("equal",)), "better", "ndcg@1") == [
        "equal"
    ]


def test_the_protocol_counts_queries_without_a_relevant_title():
    sentences = protocol(evaluate({"good": GOOD}, JUDGMENTS))
    assert (
        "1 further query has no relevant title (all grades 0): left out of the means." in sentences
    )
