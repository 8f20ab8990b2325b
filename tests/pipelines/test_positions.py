"""`--position-weights`: clicks weighted by the inverse examination probability."""

from __future__ import annotations

import pytest
from pytest import approx

from dssm_tf.positions.curve import read_curve
from examples.simulate_clicks import COLUMNS, Users, simulate
from tests.positions.judged import lists

HARVEST = ("--position-weights", "harvesting")
HEAD = "query\ttitle\tclicks\timpressions\tposition\tsession_id\n"


@pytest.fixture
def curve(write):
    def curve(*propensities):
        rows = "".join(
            f"{position}\t{propensity}\n" for position, propensity in enumerate(propensities, 1)
        )
        path = write("curve.tsv", f"position\tpropensity\n{rows}")
        return ("--position-weights", str(path))

    return curve


def table(rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def test_a_click_counts_the_inverse_propensity_of_its_position(run, curve):
    log = HEAD + "a\tx\t3\t\t1\t\na\ty\t2\t\t2\t\nb\tx\t1\t\t3\t\nb\ty\t1\t\t9\t\nb\tz\t5\t\t\t\n"
    # The click that counts for a session keeps its weight.
    log += "".join(f"c\tx\t1\t\t{at}\ts\n" for at in (3, 1, 2))
    flags = (*curve(1, 0.5, 0.2), "--max-position-weight", "4", "--validation_fraction", "0")
    data = run(*flags, log=log)
    # 1 / 0.2 = 5 is clipped to 4. Positions after the curve have its last weight.
    # A row without a position has weight 1.
    pairs = {("a", "x"): 3, ("a", "y"): 4, ("b", "x"): 4, ("b", "y"): 4, ("b", "z"): 5}
    pairs["c", "x"] = 4
    assert {record.pair: record.clicks for record in data.records()} == pairs
    assert data.titles == {"x": (11, 3), "y": (8, 2), "z": (5, 1)}
    # `--min-clicks` applies to unweighted clicks.
    often = {record.pair for record in run(*flags, "--min-clicks", "2", log=log).records()}
    assert often == {("a", "x"), ("a", "y"), ("b", "z")}


def records(data):
    """The files that training reads."""
    return {
        name: content
        for name, content in data.bytes().items()
        if name[:6] not in ("report", "spec.j")
    }


def test_positions_change_nothing_without_the_flag_or_without_information(
    run, topics, curve, capsys
):
    head, *rows = topics.splitlines()
    odd, placed = (
        table(
            [
                (head, "position", "impressions"),
                *((row, position(n), 20) for n, row in enumerate(rows)),
            ]
        )
        for position in (lambda n: f"{n - 3}x", lambda n: 1 + n % 3)
    )
    plain = records(run(log=topics))
    assert records(run(log=odd)) == plain
    alike = records(run(*curve(1, 1), log=placed))
    assert alike.pop("examination_curve.tsv").splitlines()[1:] == [b"1\t1", b"2\t1"]
    assert alike == plain
    # A curve cannot be estimated if each title was displayed at a single position.
    capsys.readouterr()
    unmoved = run(*HARVEST, log=placed)
    reason = (
        "no title was displayed at several positions for one query; examination cannot be estimated"
    )
    (line,) = [line for line in capsys.readouterr().err.splitlines() if reason in line]
    assert line.endswith("every click counts once")
    assert reason in unmoved.page
    assert records(unmoved) == plain  # and no examination_curve.tsv


def test_the_estimated_curve_is_written_and_does_not_depend_on_the_order_of_rows(run):
    rows = [*simulate(lists(100), Users(eta=1), 30_000)]
    data = run(*HARVEST, log=table([COLUMNS, *rows]))
    truth = [1 / position for position in range(1, 7)]
    written = data.path / "examination_curve.tsv"
    assert read_curve(written).propensities == approx(truth, abs=0.1)
    report = data.report["positions"]
    assert report["method"] == "harvesting"
    assert report["basis"]["queries"] == 100
    assert report["weights"][1] == approx(2, abs=0.4)
    assert "clicks at positions 1, 2, ... have weights 1.00, " in data.page
    assert records(run(*HARVEST, log=table([COLUMNS, *rows[::-1]]))) == records(data)


@pytest.mark.parametrize(
    ("log", "weights", "message"),
    [
        ("query\ttitle\na\tb\n", "harvesting", "missing: position"),
        (HEAD + "a\tb\t1\t\t1\t\n", "harvesting", "no row has both"),
        (HEAD + "a\tb\t1\t5\t1\t\n", "harvestin", "harvestin cannot be read: No such file"),
    ],
)
def test_unusable_positions_are_an_error(error_of_run, log, weights, message):
    assert message in error_of_run("--position-weights", weights, log=log)
