"""`--position-weights`: clicks weighed by how seldom their position is looked at."""

from __future__ import annotations

import json

import pytest
from pytest import approx

from dssm_tf.positions.curve import read_curve
from examples.simulate_clicks import COLUMNS, Users, simulate
from tests.positions.judged import lists

ALL = ("--validation_fraction", "0")
HEAD = "query\ttitle\tclicks\timpressions\tposition\n"


@pytest.fixture
def curve(tmp_path):
    def write(*propensities):
        path = tmp_path / f"curve{len(propensities)}.tsv"
        rows = "".join(f"{at}\t{one}\n" for at, one in enumerate(propensities, start=1))
        path.write_text(f"position\tpropensity\n{rows}", "utf-8")
        return str(path)

    return write


@pytest.fixture(scope="module")
def simulated():
    """A log of simulated users, with eta 1."""
    rows = simulate(lists(100), Users(eta=1), 30_000)
    lines = ["\t".join(COLUMNS), *("\t".join(map(str, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def clicks(data):
    return {record.pair: record.clicks for record in data.records()}


def test_a_click_counts_the_inverse_propensity_of_its_position(run, curve):
    log = HEAD + "a\tx\t3\t\t1\na\ty\t2\t\t2\nb\tx\t1\t\t3\nb\ty\t1\t\t9\nb\tz\t5\t\t\n"
    flags = ("--position-weights", curve(1, 0.5, 0.2), "--max-position-weight", "4")
    data = run(log, *flags, *ALL)
    # 1 / 0.2 = 5 is clipped to 4. Behind the curve its last weight counts, without a position 1.
    pairs = {("a", "x"): 3, ("a", "y"): 4, ("b", "x"): 4, ("b", "y"): 4, ("b", "z"): 5}
    assert clicks(data) == pairs
    assert data.titles == {"x": (7, 2), "y": (8, 2), "z": (5, 1)}


def test_what_is_too_seldom_clicked_stays_so_whatever_it_weighs(run, curve):
    log = HEAD + "a\tx\t1\t\t2\na\ty\t2\t\t1\n"
    data = run(log, "--position-weights", curve(1, 0.2), "--min-clicks", "2", *ALL)
    assert clicks(data) == {("a", "y"): 2}


def records(data):
    """The files that a training reads."""
    return {
        name: held for name, held in data.bytes().items() if name[:6] not in ("report", "spec.j")
    }


def test_positions_change_nothing_unless_they_are_asked_for_or_all_alike(run, topics, curve):
    rows = topics.splitlines()
    head = rows[0] + "\tposition"
    odd = "\n".join([head, *(f"{row}\t{n - 3}x" for n, row in enumerate(rows[1:]))]) + "\n"
    placed = "\n".join([head, *(f"{row}\t{1 + n % 3}" for n, row in enumerate(rows[1:]))]) + "\n"
    plain = records(run(topics))
    assert records(run(odd)) == plain
    alike = records(run(placed, "--position-weights", curve(1, 1)))
    assert alike.pop("examination_curve.tsv").splitlines()[1:] == [b"1\t1", b"2\t1"]
    assert alike == plain


def test_the_curve_is_estimated_shown_and_written_in_any_order_of_rows(run, simulated):
    data = run(simulated, "--position-weights", "harvesting")
    truth = [1 / at for at in range(1, 7)]
    written = data.path / "examination_curve.tsv"
    assert read_curve(written).propensities == approx(truth, abs=0.1)
    report = json.loads((data.path / "report.json").read_text("utf-8"))["positions"]
    assert report["method"] == "harvesting"
    assert report["basis"]["queries"] == 100
    assert report["weights"][1] == approx(2, abs=0.4)
    assert "clicks at positions 1, 2, ... weigh 1.00, " in (data.path / "report.html").read_text()
    head, *rows = simulated.splitlines()
    turned = run("\n".join([head, *rows[::-1]]) + "\n", "--position-weights", "harvesting")
    assert records(turned) == records(data)


def test_a_log_in_which_no_title_moved_is_left_as_it_is_and_that_is_said(run, capsys):
    """Estimated from such a log a curve is too steep or too flat, and nothing shows which."""
    rows = simulate(lists(60), Users(eta=1), 6000, rankers=1)
    log = "".join("\t".join(map(str, row)) + "\n" for row in (COLUMNS, *rows))
    data = run(log, "--position-weights", "harvesting")
    said = "no title was shown at several positions for one query; the log cannot tell"
    (line,) = [one for one in capsys.readouterr().err.splitlines() if said in one]
    assert line.endswith("every click counts once")
    assert said in (data.path / "report.html").read_text("utf-8")
    assert records(data) == records(run(log))  # and no examination_curve.tsv


@pytest.mark.parametrize(
    ("log", "asked", "said"),
    [
        ("query\ttitle\na\tb\n", "harvesting", "missing: position"),
        (HEAD + "a\tb\t1\t\t1\n", "harvesting", "no row has both"),
        (HEAD + "a\tb\t1\t5\t1\n", "harvestin", "harvestin cannot be read: No such file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(run, capsys, log, asked, said):
    run(log, "--position-weights", asked, code=1)
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error
