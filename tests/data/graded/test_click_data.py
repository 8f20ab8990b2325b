"""Keras's `fit` on clicks and judgments, by `ClickData`."""

from __future__ import annotations

import pytest

import dssm_tf
from dssm_tf.tables.graded_lists import write_lists
from tests.data.graded.files import lists
from tests.training.configuration import config


@pytest.mark.slow
def test_fit_trains_on_clicks_and_judgments_and_the_saved_run_lists_both(data, tmp_path):
    judged = lists(data, 40)
    write_lists(tmp_path / "j.tsv", "grade", judged)
    clicks = dssm_tf.ClickData(data.path, config(judgments__file=str(tmp_path / "j.tsv")))
    without_judgments = dssm_tf.ClickData(data.path, config())
    assert clicks.steps > without_judgments.steps
    model = clicks.build_model()
    model.compile(clicks.optimizer(1), clicks.loss())
    model.fit(clicks.training(1), epochs=1, steps_per_epoch=clicks.steps, shuffle=False, verbose=0)
    clicks.save(model, tmp_path / "run")
    assert "200 grades of 40 queries from j.tsv" in (tmp_path / "run/MODEL_CARD.md").read_text()
    query, titles = judged[0].query, judged[0].titles
    assert len(dssm_tf.load(tmp_path / "run").rank(query, titles)) == len(titles)
