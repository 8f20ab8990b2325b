"""Lines and points as SVG: what is drawn where, and told apart without colours."""

from __future__ import annotations

import re

from dssm_tf.common.charts import interval_chart, line_chart


def test_every_run_has_a_line_of_its_own_however_many_there_are():
    chart = line_chart("loss", {f"run {n}": [3.0, 2.0, 1.0 + n] for n in range(7)})
    strokes = re.findall(r'<polyline .*?(style="[^"]*" stroke-dasharray="[^"]*")', chart)
    assert len(strokes) == 7
    assert len(set(strokes)) == 7
    assert all(f"run {n}</span>" in chart for n in range(7))


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
