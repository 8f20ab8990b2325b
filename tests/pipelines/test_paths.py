"""Paths of preprocess that are not text, and outputs of a store that exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import UserError
from pipelines import output
from pipelines.options import PreprocessOptions


@pytest.mark.parametrize("path", [str(Path("gs://b/x")), "gs:/b/x", "s3:/b/x"])
def test_a_store_s_path_that_pathlib_has_changed_is_refused(path):
    with pytest.raises(UserError, match=r"is not a path as text, such as 'data' or 'gs://"):
        PreprocessOptions(input=("log.tsv",), output=path)
    with pytest.raises(UserError, match="is not a path as text"):
        PreprocessOptions(input=(path,), output="data")


@pytest.mark.parametrize("path", ["data", "gs://b/x", "/data", "C:\\data", "C:/data", "a:b/c"])
def test_paths_as_text_are_accepted(path):
    assert PreprocessOptions(input=(path,), output=path).output == path


def test_a_refused_output_of_a_store_is_left_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "spec.json").touch()
    monkeypatch.setattr(output, "is_local", lambda path: False)
    with (
        pytest.raises(UserError, match="exists already"),
        output.output_directory(str(tmp_path), overwrite=False),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["spec.json"]
    assert FileSystems.exists(str(tmp_path / "spec.json"))
