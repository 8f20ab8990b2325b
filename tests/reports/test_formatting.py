"""Tables and notes of a report: best values, superscripts, markers and protocol."""

from dataclasses import replace

from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.overlap import LogOverlap
from dssm_tf.reports.formatting import (
    mean_cells,
    overlap_lines,
    protocol,
    superscripts,
    systems_significantly_worse_than,
)
from dssm_tf.reports.queries import page_data
from dssm_tf.reports.report import means, text
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.training_log import TrainingLog
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
    assert systems_significantly_worse_than(evaluation, "better", "ndcg@1") == ["worse", "equal"]
    assert not systems_significantly_worse_than(evaluation, "better", "recall@100")
    assert [superscripts(evaluation, [name]) for name in evaluation.systems] == ["ᵃ", "ᵇ", "ᶜ"]
    # `against` has the systems that the letters stand for, in the order of the letters.
    reordered = replace(evaluation, against=("equal", "worse"))
    assert systems_significantly_worse_than(reordered, "better", "ndcg@1") == ["equal", "worse"]
    assert [superscripts(reordered, [name]) for name in reordered.systems] == ["ᵇ", "ᵃ", ""]
    assert systems_significantly_worse_than(
        replace(evaluation, against=("equal",)), "better", "ndcg@1"
    ) == ["equal"]


def test_the_protocol_counts_queries_without_a_relevant_title():
    sentences = protocol(evaluate({"good": GOOD}, JUDGMENTS))
    assert (
        "1 further query has no relevant title (all grades 0): left out of the means." in sentences
    )


def log_of(*rows):
    return TrainingLog.from_clicks([(query, title, 1.0) for query, title in rows], FOLDED)


def test_figures_of_a_system_trained_on_judged_queries_are_marked_and_not_compared():
    rankers, *judged = rankers_on_many_queries()
    honest = evaluate(rankers, *judged, metrics=["ndcg@1"])
    assert means(honest).count("**") == 2
    assert systems_significantly_worse_than(honest, "better", "ndcg@1") == ["worse"]
    training_logs = {"better": log_of(("QUERY 1", "title 1"), ("query 2", "title 9"))}
    overlapping = evaluate(rankers, *judged, metrics=["ndcg@1"], training_logs=training_logs)
    # Two of the 60 queries are in the log, and one of their relevant titles.
    assert overlapping.overlaps["better"] == LogOverlap(queries=2, pairs=1, marked=True)
    row = next(line for line in means(overlapping).splitlines() if "better" in line)
    assert "better †" in row
    assert "† (" in row
    assert not any(mark in row for mark in ("**", "†ᵃ"))
    assert systems_significantly_worse_than(overlapping, "better", "ndcg@1") == []
    assert not any(cell["best"] for cells in mean_cells(overlapping).values() for cell in cells)
    page = page_data(overlapping)
    assert page["names"] == ["worse", "better †"]
    assert page["marked"] == [False, True]
    # On the queries that the log does not contain, the system is compared and not marked.
    assert mean_cells(overlapping, "new")["better"][0]["best"]
    assert "†" not in means(overlapping, "new")
    assert "†" in means(overlapping, "known")


def test_the_overlap_with_a_training_log_is_stated_first():
    training_logs = {"good": log_of(("hat", "red hat"), ("shoe", "green tie"))}
    evaluation = evaluate(
        {"good": GOOD, "other": GOOD},
        JUDGMENTS,
        training_logs=training_logs,
        runs={"theirs": {"q1": {"d1": 1.0}}},
    )
    # The measured queries are hat and shoe. hat has two relevant titles, shoe has one.
    counted = (
        "the training log of good has 2 of the 2 measured queries and 1 of the 3 relevant pairs "
        "(a query and a title with a grade above 0)"
    )
    first, second = overlap_lines(evaluation)
    assert counted in first
    assert "The training data of other and theirs are unknown" in second
    assert protocol(evaluation)[:2] == [first, second]
    report = text(evaluation)[0]
    assert report.index(counted) < report.index("reaches")
    assert "**good" not in report


def test_a_training_log_without_judged_queries_is_stated_and_not_marked():
    evaluation = evaluate(
        {"good": GOOD}, JUDGMENTS, training_logs={"good": log_of(("sock", "red hat"))}
    )
    (line,) = overlap_lines(evaluation)
    assert line.startswith("The training log of good has 0 of the 2 measured queries and 0 of")
    assert evaluation.marked() == frozenset()
