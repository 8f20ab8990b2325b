from pathlib import Path

from dssm_tf.commands.named import named_paths


def test_runs_are_named_by_hand_or_by_file():
    found = named_paths(["mini=a/b.trec", "c/other.trec.gz"], "--runs")
    assert found == {"mini": Path("a/b.trec"), "other": Path("c/other.trec.gz")}


def test_a_path_with_an_equals_sign_that_exists_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.trec").touch()
    assert list(named_paths(["a=b.trec"], "--runs")) == ["a=b"]
