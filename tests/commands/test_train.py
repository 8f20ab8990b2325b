"""`dssm train` as it is typed: which tables of judgments and scores it takes."""

from __future__ import annotations

import pytest

from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.training import train as training


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Runs the command until it would train; gives the configurations that came so far."""
    found = []

    def train(config, *_, **__):
        found.append(config)
        raise UserError("enough")

    def run(config, flags):
        words = f"train --config {config} --data DATA --out {tmp_path}/run {flags}"
        assert main(words.split()) == 1
        return found

    monkeypatch.setattr(training, "train", train)
    return run


def test_a_table_on_the_command_line_takes_the_place_of_the_configurations(trained, tmp_path):
    path, new = tmp_path / "config.yaml", tmp_path / "new.tsv"
    old = f"judgments: {{file: {tmp_path / 'old.tsv'}, sha256: abc}}"  # as that of a run is
    path.write_text(f"tower: {{name: dssm}}\n{old}\n", "utf-8")
    new.touch()
    (config,) = trained(path, f"--judgments {new}")
    assert (config.judgments.file, config.judgments.sha256) == (str(new), "")


@pytest.mark.parametrize("name", ["judgments", "teacher"])
def test_a_table_that_is_not_there_is_refused_before_anything_is_loaded(trained, capsys, name):
    assert trained("dssm", f"--{name} nowhere.tsv") == []
    assert f"{name}.file: there is no file nowhere.tsv." in capsys.readouterr().err
