"""`--position-weights`: clicks weighed by how seldom their position is looked at."""

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
        rows = "".join(f"{at}\t{one}\n" for at, one in enumerate(propensities, start=1))
        path = write("curve.tsv", f"position\tpropensity\n{rows}")
        return ("--position-weights", str(path))

    return curve


def table(rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def test_a_click_counts_the_inverse_propensity_of_its_position(run, curve):
    log = HEAD + "a\tx\t3\t\t1\t\na\ty\t2\t\t2\t\nb\tx\t1\t\t3\t\nb\ty\t1\t\t9\t\nb\tz\t5\t\t\t\n"
    # Of a session the click that counts keeps its weight.
    log += "".join(f"c\tx\t1\t\t{at}\ts\n" for at in (3, 1, 2))
    flags = (*curve(1, 0.5, 0.2), "--max-position-weight", "4", "--validation_fraction", "0")
    data = run(log, *flags)
    # 1 / 0.2 = 5 is clipped to 4. Behind the curve its last weight counts, without a position 1.
    pairs = {("a", "x"): 3, ("a", "y"): 4, ("b", "x"): 4, ("b", "y"): 4, ("b", "z"): 5}
    pairs["c", "x"] = 4
    assert {record.pair: record.clicks for record in data.records()} == pairs
    assert data.titles == {"x": (11, 3), "y": (8, 2), "z": (5, 1)}
    # What is clicked too seldom stays so, whatever it weighs.
    often = {record.pair for record in run(log, *flags, "--min-clicks", "2").records()}
    assert often == {("a", "x"), ("a", "y"), ("b", "z")}


def records(data):
    """The files that a training reads."""
    return {
        name: held for name, held in data.bytes().items() if name[:6] not in ("report", "spec.j")
    }


def test_positions_change_nothing_unless_they_are_asked_for_and_say_something(
    run, topics, curve, capsys
):
    head, *rows = topics.splitlines()
    odd, placed = (
        table(
            [
                (head, "position", "impressions"),
                *((row, place(n), 20) for n, row in enumerate(rows)),
            ]
        )
        for place in (lambda n: f"{n - 3}x", lambda n: 1 + n % 3)
    )
    plain = records(run(topics))
    assert records(run(odd)) == plain
    alike = records(run(placed, *curve(1, 1)))
    assert alike.pop("examination_curve.tsv").splitlines()[1:] == [b"1\t1", b"2\t1"]
    assert alike == plain
    # From a log in which no title moved a curve is too steep or too flat, and nothing shows which.
    capsys.readouterr()
    unmoved = run(placed, *HARVEST)
    said = "no title was shown at several positions for one query; examination cannot be estimated"
    (line,) = [one for one in capsys.readouterr().err.splitlines() if said in one]
    assert line.endswith("every click counts once")
    assert said in unmoved.page
    assert records(unmoved) == plain  # and no examination_curve.tsv


def test_the_curve_is_estimated_shown_and_written_in_any_order_of_rows(run):
    rows = [*simulate(lists(100), Users(eta=1), 30_000)]
    data = run(table([COLUMNS, *rows]), *HARVEST)
    truth = [1 / at for at in range(1, 7)]
    written = data.path / "examination_curve.tsv"
    assert read_curve(written).propensities == approx(truth, abs=0.1)
    report = data.report["positions"]
    assert report["method"] == "harvesting"
    assert report["basis"]["queries"] == 100
    assert report["weights"][1] == approx(2, abs=0.4)
    assert "clicks at positions 1, 2, ... have weights 1.00, " in data.page
    assert records(run(table([COLUMNS, *rows[::-1]]), *HARVEST)) == records(data)


@pytest.mark.parametrize(
    ("log", "asked", "said"),
    [
        ("query\ttitle\na\tb\n", "harvesting", "missing: position"),
        (HEAD + "a\tb\t1\t\t1\t\n", "harvesting", "no row has both"),
        (HEAD + "a\tb\t1\t5\t1\t\n", "harvestin", "harvestin cannot be read: No such file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(refused, log, asked, said):
    assert said in refused(log, "--position-weights", asked)
