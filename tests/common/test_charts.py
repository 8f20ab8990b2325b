"""Lines and points as SVG: what is drawn where, and told apart without colours."""

from __future__ import annotations

import re

from dssm_tf.common.charts import line_chart


def test_every_run_has_a_line_of_its_own_however_many_there_are():
    chart = line_chart("loss", {f"run {n}": [3.0, 2.0, 1.0 + n] for n in range(7)})
    strokes = re.findall(r'<polyline .*?(style="[^"]*" stroke-dasharray="[^"]*")', chart)
    assert len(strokes) == 7
    assert len(set(strokes)) == 7
    assert all(f"run {n}</span>" in chart for n in range(7))
