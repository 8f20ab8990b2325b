"""The verdicts of the table of choices: a difference within the seeds' spread is none."""

from __future__ import annotations

from tests.benchmarks.training_choices import BASE, table


def runs(*values: float) -> list[dict]:
    others = {"seconds": 1.0, "epoch": 2.0, "queries": 10.0}
    return [{"ndcg@1": 0.5, "ndcg@3": 0.5, "ndcg@10": value, **others} for value in values]


def test_a_choice_wins_where_its_mean_is_ahead_by_more_than_either_range():
    found = {
        BASE: runs(0.50, 0.52),
        "far ahead": runs(0.54, 0.55),  # .545 - .51 = .035, more than .02
        "as wide as it is ahead": runs(0.51, 0.56),  # .025 ahead, .05 wide
        "far behind": runs(0.40, 0.40),
    }
    rows = {line.split(" | ")[0].strip("| "): line for line in table({"log": found})}
    assert "+0.035 won" in rows["far ahead"]
    assert "+0.025 level" in rows["as wide as it is ahead"]
    assert "-0.110 lost" in rows["far behind"]


def test_with_one_seed_nothing_is_decided():
    lines = "".join(table({"log": {BASE: runs(0.5), "ahead": runs(0.6)}}))
    assert "+0.100 one seed" in lines
    assert "won" not in lines
