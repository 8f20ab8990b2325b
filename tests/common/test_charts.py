"""Lines and points as SVG: what is drawn where, and told apart without colours."""

from __future__ import annotations

import re

import numpy as np

from dssm_tf.common.charts import interval_chart, line_chart, point_map


def test_every_run_has_a_line_of_its_own_however_many_there_are():
    chart = line_chart("loss", {f"run {n}": [3.0, 2.0, 1.0 + n] for n in range(7)})
    strokes = re.findall(r'<polyline .*?(style="[^"]*" stroke-dasharray="[^"]*")', chart)
    assert len(strokes) == 7
    assert len(set(strokes)) == 7
    assert all(f"run {n}</span>" in chart for n in range(7))


def test_a_point_stands_where_it_is_and_says_its_name():
    drawn = point_map(np.array([[0.0, 0.0], [1.0, 2.0]]), ["low", "<high>"], "two")
    found = re.findall(r'data-name="([^"]*)" data-x="([\d.]+)" data-y="([\d.]+)"', drawn)
    assert [name for name, _, _ in found] == ["low", "&lt;high&gt;"]
    (left, bottom), (right, top) = ((float(x), float(y)) for _, x, y in found)
    assert left < right
    assert bottom > top  # y of SVG goes down
    assert 'tabindex="0"' in drawn


def test_kinds_differ_by_colour_and_by_shape_and_rare_ones_are_the_others():
    kinds = [str(kind) for kind in range(8) for _ in range(8 - kind)]
    points = np.random.default_rng(0).normal(size=(len(kinds), 2))
    drawn = point_map(points, kinds, "kinds", kinds)
    shapes = {}
    for kind, place in re.findall(
        r'<path class="(\w+)" data-name[^>]* d="M[\d.]+ [\d.]+(m[^"]*)"', drawn
    ):
        shapes.setdefault(kind, set()).add(place)
    assert set(shapes) == {"other", *(f"kind{n}" for n in range(6))}
    assert all(len(found) == 1 for found in shapes.values())
    assert len(set.union(*(shapes[f"kind{n}"] for n in range(6)))) == 6
    assert "2 others 3</span>" in drawn  # one of a kind and two of another


def test_an_interval_is_drawn_around_its_value_and_said():
    drawn = interval_chart("curve", [1.0, 0.5], [(0.9, 1.2), (0.4, 0.6)])
    points = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', drawn)
    bars = re.findall(
        r'<line x1="([\d.]+)" x2="\1" y1="([\d.]+)" y2="([\d.]+)" [^>]*stroke-width', drawn
    )
    assert [x for x, _ in points] == [x for x, _, _ in bars]
    for (_, at), (_, low, high) in zip(points, bars, strict=True):
        assert float(high) < float(at) < float(low)  # y of SVG goes down
    assert "<title>2: 0.500, from 0.400 to 0.600</title>" in drawn
    assert "from" not in interval_chart("curve", [1.0, 0.5])
