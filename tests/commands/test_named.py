import pytest

from dssm_tf.commands.named import named_paths, named_vectors
from dssm_tf.common.errors import UserError


def test_runs_and_embeddings_are_named_by_hand_or_by_file():
    assert {
        k: str(v) for k, v in named_paths(["mini=a/b.trec", "c/other.trec.gz"], "--runs").items()
    } == {
        "mini": "a/b.trec",
        "other": "c/other.trec.gz",
    }
    entries = ["mini=q.npy,t.npy", "x=q.npy,u.npy", "q.npy,other.npy"]
    found = named_vectors(entries, "--embeddings")
    assert {name: [str(path) for path in paths] for name, paths in found.items()} == {
        "mini": ["q.npy", "t.npy"],
        "x": ["q.npy", "u.npy"],
        "other": ["q.npy", "other.npy"],
    }


def test_two_of_one_name_and_a_missing_file_are_refused():
    with pytest.raises(UserError, match="two are called 'a'"):
        named_paths(["x/a.trec", "y/a.trec"], "--runs")
    with pytest.raises(UserError, match=r"expected two files, \[NAME=\]QUERIES.npy,TITLES.npy"):
        named_vectors(["mini=q.npy"], "--embeddings")


def test_a_path_with_an_equals_sign_that_exists_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.trec").touch()
    assert list(named_paths(["a=b.trec"], "--runs")) == ["a=b"]
    with pytest.raises(UserError, match=r"--runs '=b\.trec': expected PATH or NAME=PATH"):
        named_paths(["=b.trec"], "--runs")
