"""A database of trials that cannot be written or read."""

from __future__ import annotations

import pytest
from optuna.exceptions import StorageInternalError

from dssm_tf.common.errors import UserError
from dssm_tf.tuning.tune import STUDY, tune
from tests.tuning.test_search import search
from tests.tuning.test_tune import Training, by_gamma


def test_a_full_disk_under_the_database_stops_the_search_which_can_be_run_again(
    folder, tmp_path, monkeypatch
):
    def full(config, data):
        raise StorageInternalError("during the commit") from OSError("disk I/O error")

    Training(monkeypatch, full)
    message = "trials.db cannot be written or read: disk I/O error. Free disk space"
    with pytest.raises(UserError, match=message):
        tune(search(folder, "loss.gamma=5,10"), [folder / "data"], tmp_path / "out")
    training = Training(monkeypatch, by_gamma)
    tune(search(folder, "loss.gamma=5,10"), [folder / "data"], tmp_path / "out")
    assert len(training.runs) == 2


def test_a_damaged_database_is_one_line(folder, tmp_path):
    (tmp_path / STUDY).write_bytes(b"no database\n" * 500)
    with pytest.raises(UserError, match=r"trials.db .*: file is not a database. .* another --out"):
        tune(search(folder, "loss.gamma=5,10"), [folder / "data"], tmp_path)
