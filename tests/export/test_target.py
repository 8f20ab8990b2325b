"""Where exports are written."""

from __future__ import annotations

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.export.target import new_version


def write(out, name="shop", marker="saved_model.pb"):
    with new_version(out, name, marker) as (directory, target):
        (directory / marker).touch()
    return target


@pytest.mark.parametrize(
    "name", ["../up", "/tmp/x", "a/b", "a\\b", "..", ".", "", " ", "C:x", "a\nb", "a\0b"]
)
def test_a_name_that_leaves_the_directory_is_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(UserError, match="is not that of a directory"):
        write(tmp_path / "out", name)
    assert list(tmp_path.iterdir()) == []


def test_versions_of_one_format_are_counted(tmp_path):
    assert [write(tmp_path / "out").name for _ in range(3)] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "markers", [("saved_model.pb", "compact.json"), ("compact.json", "saved_model.pb")]
)
def test_exports_of_two_formats_never_share_a_served_directory(tmp_path, markers):
    write(tmp_path, marker=markers[0])
    with pytest.raises(UserError, match="1 is an export in another format; choose another --out"):
        write(tmp_path, marker=markers[1])
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["1"]


def test_an_export_is_written_beside_versions_with_leading_zeros(tmp_path):
    write(tmp_path).rename(tmp_path / "shop" / "0001")
    assert write(tmp_path).name == "2"
    with pytest.raises(UserError, match="0001 is an export in another format"):
        write(tmp_path, marker="compact.json")


def test_a_failed_export_leaves_no_empty_directory(tmp_path):
    for out in (tmp_path / "new" / "out", tmp_path):
        with pytest.raises(RuntimeError), new_version(out, "shop", "compact.json"):
            raise RuntimeError
        assert list(tmp_path.iterdir()) == []
