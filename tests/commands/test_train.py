"""`dssm train`: its flags for tables of judgments and scores."""

from __future__ import annotations

import pytest

from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.training import train as training


@pytest.fixture
def run_until_training(tmp_path, monkeypatch):
    """Runs the command up to the training, and returns the configurations it would train."""
    configs = []

    def train(config, *_, **__):
        configs.append(config)
        raise UserError("enough")

    def run(config, flags):
        words = f"train --config {config} --data DATA --out {tmp_path}/run {flags}"
        assert main(words.split()) == 1
        return configs

    monkeypatch.setattr(training, "train", train)
    return run


def test_a_table_on_the_command_line_replaces_that_of_the_configuration(
    run_until_training, tmp_path
):
    path, new = tmp_path / "config.yaml", tmp_path / "new.tsv"
    old = f"judgments: {{file: {tmp_path / 'old.tsv'}, sha256: abc}}"  # as in a run's config.yaml
    path.write_text(f"tower: {{name: dssm}}\n{old}\n", "utf-8")
    new.touch()
    (config,) = run_until_training(path, f"--judgments {new}")
    assert (config.judgments.file, config.judgments.sha256) == (str(new), "")


@pytest.mark.parametrize("name", ["judgments", "teacher"])
def test_a_missing_table_is_refused_before_any_data_are_loaded(run_until_training, capsys, name):
    assert run_until_training("dssm", f"--{name} nowhere.tsv") == []
    assert f"{name}.file: there is no file nowhere.tsv." in capsys.readouterr().err
