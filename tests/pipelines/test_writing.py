"""Files of workers, and the output on a store that cannot rename directories."""

from __future__ import annotations

import shutil
from pathlib import Path

from apache_beam.io.localfilesystem import LocalFileSystem

from pipelines.shards import write_output_file


def test_each_file_of_a_worker_has_a_unique_name(tmp_path):
    (tmp_path / "parts").mkdir()
    paths = {write_output_file(str(tmp_path), "train", 0, 1, b"record").path for _ in range(3)}
    assert len(paths) == 3


def local(path):
    return path.removeprefix("store://")


class StoreFileSystem(LocalFileSystem):
    """A fake remote store, `store:///path`, which lists names in the order of their creation."""

    named: list[str] = []  # noqa: RUF012

    @classmethod
    def scheme(cls):
        return "store"

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def mkdirs(self, path):
        Path(local(path)).mkdir(parents=True, exist_ok=True)

    def match(self, patterns, limits=None):
        results = super().match([*map(local, patterns)], limits)
        for metadata in (file for result in results for file in result.metadata_list):
            metadata.path = f"store://{metadata.path}"
        return results

    def create(self, path, *arguments, **named):
        self.named.append(path)
        return super().create(local(path), *arguments, **named)

    def open(self, path, *arguments, **named):
        return super().open(local(path), *arguments, **named)

    def rename(self, source_file_names, destination_file_names):
        self.named.extend(destination_file_names)
        for source, destination in zip(source_file_names, destination_file_names, strict=True):
            Path(local(source)).rename(local(destination))

    def delete(self, paths):
        for path in paths:
            shutil.rmtree(local(path))


def test_on_a_remote_store_the_spec_is_written_last(run, error_of_run, topics, tmp_path):
    expected = run(log=topics).bytes()
    target = tmp_path / "bucket" / "data"
    flags = ("--output", f"store://{target}")
    run(*flags, log=topics)
    assert {file.name: file.read_bytes() for file in target.iterdir()} == expected
    assert StoreFileSystem.named[-1].endswith("/spec.json")
    assert [file.name for file in target.parent.iterdir()] == ["data"]
    assert "exists already" in error_of_run(*flags, log=topics)
