"""Paths on the command line."""

from __future__ import annotations

from pathlib import Path

from dssm_tf.common.command_line import run


def test_a_path_of_an_object_store_never_becomes_a_local_directory(tmp_path, monkeypatch, capsys):
    def command(*, out: Path, more: tuple[Path, ...] = ()) -> None:
        out.mkdir(parents=True)

    monkeypatch.chdir(tmp_path)
    for flags in (["--out", "gs://b/x"], ["--out", "x", "--more", "s3://b/x"]):
        assert run("dssm try", command, flags) == 2
        assert "://b/x is not a local path; copy it to this machine." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert run("dssm try", command, ["--out", "x"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
