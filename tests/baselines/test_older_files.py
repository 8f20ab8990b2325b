"""Models that were saved before all of them were saved in one way still load."""

import json
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.systems import BASELINES
from tests.baselines.test_contract import TITLES

SAVED = Path(__file__).parent / "saved"
"""Files of that time, with the parameters of their models and the scores of two queries."""

EXPECTED = json.loads((SAVED / "expected.json").read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_it_scores_as_it_did_when_it_was_saved(name):
    model = BASELINES[name].load(SAVED / name)
    expected = EXPECTED[name]
    parameters = json.loads(json.dumps(model._parameters()))
    assert {key: parameters[key] for key in expected["parameters"]} == expected["parameters"]
    scores = model.score_matrix(["halo 3", "super mario"], TITLES)
    assert scores == pytest.approx(np.array(expected["scores"]), rel=1e-4, abs=1e-6)


def test_what_is_saved_now_is_read_rather_than_an_older_file_beside_it(tmp_path):
    (tmp_path / "bm25.json").write_text((SAVED / "bm25" / "bm25.json").read_text("utf-8"), "utf-8")
    assert BASELINES["bm25"].load(tmp_path).k1 == 2.0
    BASELINES["bm25"](k1=0.3).fit([], TITLES).save(tmp_path)
    assert BASELINES["bm25"].load(tmp_path).k1 == 0.3
