"""Directories that appear whole or not at all, here and on remote stores."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from apache_beam.io.localfilesystem import LocalFileSystem

from dssm_tf.common.errors import UserError
from pipelines import frames
from pipelines.output import output_directory


def write_part(directory):
    return frames.write_part(str(directory), "train", 0, 1, b"record").path


def test_a_part_is_never_written_twice_under_one_name(tmp_path):
    (tmp_path / "parts").mkdir()
    assert len({write_part(tmp_path) for _ in range(3)}) == 3


def test_after_an_error_nothing_is_left_and_the_old_output_stays(tmp_path):
    target = tmp_path / "data"
    target.mkdir()
    (target / "spec.json").write_text("x")

    def fail():
        with output_directory(str(target), overwrite=True) as output:
            write_part(output.workers)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [file.name for file in target.iterdir()] == ["spec.json"]
    assert list(tmp_path.iterdir()) == [target]


def test_an_existing_output_or_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old").write_text("x")
    for place, overwrite in ((tmp_path / "data", False), (tmp_path / "data" / "old", True)):
        with (
            pytest.raises(UserError, match=f"{place.name} exists already"),
            output_directory(str(place), overwrite=overwrite),
        ):
            pass


class StoreFileSystem(LocalFileSystem):
    """A remote store's stand-in: `store:///path`, with a log of what got its name."""

    named: list[str] = []  # noqa: RUF012

    @classmethod
    def scheme(cls):
        return "store"

    @staticmethod
    def _local(path):
        return path.removeprefix("store://")

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path):
        local = self._local(path)
        if not self.exists(path):
            super().mkdirs(local)

    def exists(self, path):
        return super().exists(self._local(path))

    def match(self, patterns, limits=None):
        results = super().match([self._local(one) for one in patterns], limits)
        for result in results:
            for metadata in result.metadata_list:
                metadata.path = "store://" + metadata.path
        return results

    def create(self, path, *arguments, **named):
        type(self).named.append(path)
        return super().create(self._local(path), *arguments, **named)

    def open(self, path, *arguments, **named):
        return super().open(self._local(path), *arguments, **named)

    def rename(self, source_file_names, destination_file_names):
        type(self).named += destination_file_names
        super().rename(
            [self._local(one) for one in source_file_names],
            [self._local(one) for one in destination_file_names],
        )

    def delete(self, paths):
        for path in map(self._local, paths):
            if Path(path).is_dir():
                shutil.rmtree(path)
            else:
                Path(path).unlink()


def test_on_a_remote_store_the_spec_is_written_last(tmp_path):
    from pipelines import preprocess

    log = tmp_path / "log.tsv"
    log.write_text("query\ttitle\n" + "".join(f"q{n}\tt{n}\n" for n in range(30)), "utf-8")
    target = tmp_path / "bucket" / "data"
    StoreFileSystem.named.clear()
    arguments = ["--input", str(log), "--output", f"store://{target}"]
    assert preprocess.run(arguments) == 0
    local = tmp_path / "local"
    assert preprocess.run(["--input", str(log), "--output", str(local)]) == 0
    written = {file.name: file.read_bytes() for file in target.iterdir()}
    assert written == {file.name: file.read_bytes() for file in local.iterdir()}
    assert StoreFileSystem.named[-1].endswith("/spec.json")
    assert [file.name for file in target.parent.iterdir()] == ["data"]
    assert preprocess.run(arguments) == 1
