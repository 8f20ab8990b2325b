"""`dssm experiment order`: what it trains, measures, writes and refuses."""

from __future__ import annotations

import json
from concurrent.futures import Future
from contextlib import contextmanager
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from dssm_tf.cli import main
from dssm_tf.common import figures
from dssm_tf.config import find_config, load_config
from dssm_tf.order import experiment
from dssm_tf.order.experiment import Dials, order
from dssm_tf.order.report import Point
from dssm_tf.order.trial import MODELS, SETTINGS, Log, fit, prepare
from dssm_tf.tables.reader import read_rows

DIALS = Dials(distances=(1, 4), share=0.5, shares=(1.0,), seeds=3, queries=160, epochs=1)


def fake(log, directory, model, epochs):
    """As theory has it, with a seed that matters: dssm at chance, all others right."""
    (directory / model).mkdir()
    right = 0.5 if model == "dssm" else 1.0
    return {
        "order": {1: right, 4: right - 0.1 * log.seed},
        "negation": dict.fromkeys((1, 4), right),
        "topic": dict.fromkeys((1, 4), 0.9),
    }


class AtOnce:
    """A pool that does what it gets, here and now."""

    def submit(self, do, *arguments):
        future = Future()
        future.set_result(do(*arguments))
        return future


@pytest.fixture
def without_training(monkeypatch):
    @contextmanager
    def here(jobs):
        yield AtOnce()

    monkeypatch.setattr(experiment, "_processes", here)
    monkeypatch.setattr(experiment, "fit", fake)

    def write(log, directory):
        (directory / "data").mkdir(parents=True)
        (directory / "log").mkdir()

    monkeypatch.setattr(experiment, "prepare", write)


def test_means_and_intervals_are_those_of_the_seeds(tmp_path, without_training):
    found = order(tmp_path / "out", DIALS)
    # 1, .9 and .8 of the seeds 0, 1 and 2.
    half = stats.t.ppf(0.975, 2) * np.std([1, 0.9, 0.8], ddof=1) / np.sqrt(3)
    point = found["by_distance"]["order"]["lstm"]["4"]
    assert point == pytest.approx({"mean": 0.9, "low": 0.9 - half, "high": 1.0})
    # .5 of .9, a quarter of negation's 1 and of order's mean over distances and seeds, .95.
    assert found["by_share"]["lstm"]["0.5"]["mean"] == pytest.approx(0.45 + 0.25 + 0.25 * 0.95)
    assert found["by_share"]["lstm"]["1"]["mean"] == pytest.approx(0.5 + 0.5 * 0.95)
    assert {*found["by_distance"]["order"]} == {*found["by_share"]} == {*MODELS}
    assert found == json.loads((tmp_path / "out" / "results.json").read_text())


def test_every_file_says_the_same(tmp_path, without_training):
    console = Console(record=True, width=120, file=StringIO())
    order(tmp_path / "out", DIALS, console=console)
    out = tmp_path / "out"
    assert (out / "order.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "order.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    tables = (out / "tables.md").read_text()
    assert "| lstm | 1.00 | 0.90 ± 0.17 |" in tables
    assert "<td>0.90 ± 0.17</td>" in page
    assert "0.90 ± 0.17" in console.export_text()
    columns = ("model", "seed", "share", "kind", "distance", "ndcg@1")
    rows = [row for _, row in read_rows(out / "order.tsv", columns)]
    assert len(rows) == len(MODELS) * 3 * 2 * 3 * 2  # seeds, shares, kinds, distances
    assert ("dssm", "2", "0.5", "order", "4", "0.3000") in map(tuple, rows)


def test_the_logs_stay_and_what_was_trained_on_them_does_not(tmp_path, without_training):
    order(tmp_path / "out", DIALS)
    logs = tmp_path / "out" / "logs"
    names = {f"share-{share}-seed-{seed}" for share in ("0.5", "1") for seed in range(3)}
    assert {str(path.relative_to(logs)) for path in logs.glob("*/*")} == {f"{n}/log" for n in names}


def test_the_figure_draws_each_model_and_the_level_of_chance():
    curve = {1: (0.5, 0.4, 0.6), 4: (0.7, 0.7, 0.7)}
    panel = figures.Panel("order", "words", (1, 4), {"a": curve, "b": curve}, {"chance": 0.5})
    shares = {1: (0.9, 0.9, 0.9), 4: (0.8, 0.8, 0.8)}
    both = [panel, panel._replace(curves={"a": shares, "b": shares}, levels={"best": [0.9, 0.8]})]
    figure = figures.curves_by_model(both, "NDCG@1")
    left, right = figure.axes
    chance, *lines = left.get_lines()
    assert chance.get_ydata().tolist() == [0.5, 0.5]
    drawn = [line.get_ydata().tolist() for line in lines if line.get_linestyle() == "-"]
    assert drawn == [[0.5, 0.7], [0.5, 0.7]]
    assert [text.get_text() for text in left.get_xticklabels()] == ["1", "4"]
    assert (left.get_xlabel(), left.get_ylabel()) == ("words", "NDCG@1")
    ends = left.containers[0].lines[2][0].get_segments()
    assert ends[0][:, 1].tolist() == pytest.approx([0.4, 0.6])
    assert right.get_lines()[0].get_ydata().tolist() == [0.9, 0.8]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(names) == ["a", "b", "best", "chance"]
    figures.plt.close(figure)


def test_one_seed_has_the_interval_of_its_judged_groups():
    # 37 of 54 are right after two were added on either side.
    half = 1.959964 * np.sqrt(37 / 54 * 17 / 54 / 54)
    assert Point.of([[(1.0, 0.7)]], 50) == pytest.approx((0.7, 0.7 - half, 0.7 + half))
    all_right = Point.of([[(1.0, 1.0)]], 50)
    assert (all_right.mean, all_right.high) == (1.0, 1.0)
    assert 0.94 < all_right.low < 0.96
    # Two halves of twice as many queries are as sure as one whole of them.
    halves = Point.of([[(0.5, 0.7), (0.5, 0.7)]], 50)
    assert halves.high - halves.mean == pytest.approx(half / np.sqrt(2))


@pytest.mark.parametrize("together", [0.0, 0.5, 1.0])
def test_intervals_of_one_seed_hold_the_truth_nineteen_times_in_twenty(together):
    """Also where both queries of a group are right or wrong together, more often than not."""
    rng, truth = np.random.default_rng(1), np.array([0.9, 0.5])
    one, other = rng.random((2, 4000, 50, 2)) < truth
    other = np.where(rng.random((4000, 50, 2)) < together, one, other)
    found = np.stack([one, other], axis=2).mean(axis=(1, 2))
    points = [Point.of([[(0.3, a), (0.7, b)]], 50) for a, b in found]
    held = np.mean([low <= 0.3 * 0.9 + 0.7 * 0.5 <= high for _, low, high in points])
    assert held > 0.93  # whole numbers of right answers come in steps


def test_every_model_is_a_shipped_configuration():
    windows = {}
    for name, (base, changes) in MODELS.items():
        config = load_config(find_config(base), [*changes, *SETTINGS])
        assert (config.negatives.recorded, config.negatives.in_batch) == (1, False)
        windows[name] = config.tower.arguments.get("window")
    assert [windows[f"clsm-{width}"] for width in (1, 3, 5)] == [1, 3, 5]


def test_a_bag_of_words_trains_and_stays_at_chance_where_order_decides(tmp_path):
    log = Log(0, 0.5, (2,), 400, 200)
    prepare(log, tmp_path)
    found = fit(log, tmp_path, "dssm", 6)
    # Equal bags have equal vectors but for the rounding of a sum, which tosses a coin: of 200 the
    # share of heads has a standard deviation of .035.
    assert 0.3 <= found["order"][2] <= 0.7
    assert 0.3 <= found["negation"][2] <= 0.7
    assert found["topic"][2] >= 0.8


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--distances", "0", "3"], "--distances holds 0; expected 1, side by side, to 50 words."),
        (["--distances", "3", "3"], "--distances holds one twice: 3 3."),
        (["--share", "1.5"], "--share is 1.5; expected above 0, and 1 at most."),
        (["--shares", "0"], "--share is 0; expected above 0, and 1 at most."),
        (["--seeds", "0"], "--seeds is 0; expected at least 1."),
        (["--queries", "50"], "--queries is 50; expected at least 160, 40 a distance."),
        (["--jobs", "0"], "--jobs is 0; expected at least 1."),
    ],
)
def test_a_dial_turned_too_far_is_refused_in_one_line(tmp_path, capsys, flags, said):
    assert main(["experiment", "order", "--out", str(tmp_path / "out"), *flags]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
