"""`dssm train` as it is typed: which tables of judgments and scores it takes."""

from __future__ import annotations

import pytest

from dssm_tf.cli import main
from dssm_tf.training import train as training


class _Read(Exception):
    """Instead of training."""


@pytest.fixture
def config(tmp_path):
    """A configuration that is tied to a table, as that of a run is."""
    path = tmp_path / "config.yaml"
    judgments = f"judgments:\n  file: {tmp_path / 'old.tsv'}\n  sha256: abc\n"
    path.write_text("tower: {name: dssm}\n" + judgments, "utf-8")
    return path


def test_a_table_on_the_command_line_takes_the_place_of_the_configurations(
    tmp_path, config, monkeypatch
):
    (tmp_path / "new.tsv").touch()

    def train(config, *arguments, **options):
        raise _Read(config.judgments)

    monkeypatch.setattr(training, "train", train)
    words = ["train", "--config", str(config), "--data", "DATA", "--out", str(tmp_path / "run")]
    with pytest.raises(_Read) as read:
        main([*words, "--judgments", str(tmp_path / "new.tsv")])
    section = read.value.args[0]
    assert (section.file, section.sha256) == (str(tmp_path / "new.tsv"), "")


@pytest.mark.parametrize("name", ["judgments", "teacher"])
def test_a_table_that_is_not_there_is_refused_before_anything_is_loaded(
    tmp_path, monkeypatch, capsys, name
):
    monkeypatch.setattr(training, "train", lambda *_, **__: pytest.fail("it went on"))
    words = ["train", "--config", "dssm", "--data", "DATA", "--out", str(tmp_path / "run")]
    assert main([*words, f"--{name}", "nowhere.tsv"]) == 1
    assert f"{name}.file: there is no file nowhere.tsv." in capsys.readouterr().err
