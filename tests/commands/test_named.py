"""Names of runs in `NAME=PATH` flags."""

from pathlib import Path

from dssm_tf.commands.named import named_paths


def test_runs_are_named_by_the_user_or_by_file():
    paths = named_paths(["mini=a/b.trec", "c/other.trec.gz"], "--runs")
    assert paths == {"mini": Path("a/b.trec"), "other": Path("c/other.trec.gz")}


def test_an_existing_path_may_contain_an_equals_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.trec").touch()
    assert list(named_paths(["a=b.trec"], "--runs")) == ["a=b"]
