"""A saved model that was damaged, or that somebody else wrote, is one line or scores."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dssm_tf.systems import BASELINES
from tests.baselines.cases import CLICKS, TITLES

# As short as fitting can be.
QUICK = {"iterations": 2, "epochs": 2, "steps": 2, "pretraining_steps": 2, "topics": 3, "size": 5}
NAMES = sorted(set(BASELINES) - {"skip_thought"})  # which has files of another kind


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    for name in NAMES:
        kind = BASELINES[name]
        known = kind._defaults()
        settings = {key: value for key, value in QUICK.items() if key in known}
        kind(**settings).fit(CLICKS, TITLES).save(folder / name)
    return folder


def refused(folder: Path, seed: int, number: int) -> None:
    checkout = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        [sys.executable, "-m", "tests.baselines.damaged", str(folder), str(seed), str(number)],
        capture_output=True, text=True, cwd=checkout, timeout=1800,
        env=os.environ | {"PYTHONPATH": str(checkout)},
    )  # fmt: skip
    lines = run.stdout.splitlines()
    assert run.returncode == 0, f"{lines[-1:]} ended the process: {run.stderr[-2000:]}"
    assert "FAILED" not in run.stdout, run.stdout[run.stdout.index("FAILED") - 200 :][:4000]
    tried = {line.split("/")[0] for line in lines}
    assert tried == set(NAMES)


def test_a_damaged_model_is_one_line_or_scores(saved, tmp_path):
    refused(shutil.copytree(saved, tmp_path / "saved"), seed=0, number=12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_damaged_models_are_one_line_or_score(saved, tmp_path, seed):
    refused(shutil.copytree(saved, tmp_path / "saved"), seed, number=150)
