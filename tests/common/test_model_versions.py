"""The versions in a model's directory."""

from __future__ import annotations

from dssm_tf.common.model_versions import newest_version, next_version, versions_in


def test_a_version_is_the_number_of_its_directory_with_or_without_leading_zeros(tmp_path):
    for name in ("0002", "1", "notes", ".3.incomplete", "-4", "5.0"):
        (tmp_path / name).mkdir()
    assert versions_in(tmp_path) == {1: tmp_path / "1", 2: tmp_path / "0002"}
    assert newest_version(tmp_path) == tmp_path / "0002"
    assert next_version(tmp_path) == tmp_path / "3"


def test_of_two_names_of_a_version_the_one_without_zeros_is_taken(tmp_path):
    for name in ("02", "2", "002"):
        (tmp_path / name).mkdir()
    assert versions_in(tmp_path) == {2: tmp_path / "2"}


def test_a_directory_without_versions_is_its_own_newest_version(tmp_path):
    assert versions_in(tmp_path / "none") == {}
    assert newest_version(tmp_path) == tmp_path
    assert next_version(tmp_path / "none") == tmp_path / "none" / "1"
