"""Files that readers accept, and directories that appear whole or not at all."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.localfilesystem import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from pipelines import writing
from pipelines.writing import (
    REQUEST,
    Shards,
    gzipped,
    merged,
    output_directory,
    refuse,
    tfrecord,
    write_part,
)


def test_tensorflow_reads_the_records_and_their_checksums(tmp_path):
    tf = pytest.importorskip("tensorflow")
    records = [b"", b"a", bytes(range(256)) * 40]
    path = tmp_path / "x.tfrecord.gz"
    path.write_bytes(b"".join(gzipped(map(tfrecord, records))))
    dataset = tf.data.TFRecordDataset([str(path)], compression_type="GZIP")
    assert list(dataset.as_numpy_iterator()) == records


@given(st.lists(st.binary(max_size=300)))
def test_compression_loses_nothing_and_keeps_the_order(chunks):
    packed = b"".join(gzipped(chunks))
    assert gzip.decompress(packed) == b"".join(chunks)
    assert packed[4:8] == b"\0\0\0\0"  # no time in the header


def test_every_shard_has_a_place_of_its_own():
    shards = Shards({"train": 3, "validation": 1, "test": 2})
    assert [shards.split(place) for place in range(6)] == ["train"] * 3 + ["validation"] + [
        "test"
    ] * 2
    assert shards.name(1) == "train-00001-of-00003.tfrecord.gz"
    assert shards.name(5) == "test-00001-of-00002.tfrecord.gz"
    # 2**64 - 1 is divided by 3, and odd.
    assert [shards.place(split, 2**64 - 1) for split in shards.counts] == [0, 3, 5]


def test_a_part_is_never_written_twice_under_one_name(tmp_path):
    (tmp_path / "parts").mkdir()
    names = {write_part(str(tmp_path), "train", [b"x"]) for _ in range(3)}
    assert len(names) == 3


@given(st.lists(st.lists(st.integers(0, 99)), max_size=30), st.integers(2, 5))
def test_merging_in_several_passes_is_sorting_all_lines(parts, at_once):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as directory:
        patch.setattr(writing, "MERGED_AT_ONCE", at_once)
        paths = []
        for number, part in enumerate(parts):
            paths.append(f"{directory}/{number}")
            lines = [f"{n:02d}\n".encode() for n in sorted(part, reverse=True)]
            Path(paths[-1]).write_bytes(b"".join(lines))
        found = [int(line) for line in merged(paths, Path(directory), lambda line: -int(line))]
    assert found == sorted((n for part in parts for n in part), reverse=True)


def test_more_parts_are_merged_than_a_process_may_open(tmp_path):
    parts = [tmp_path / str(number) for number in range(400)]
    for number, part in enumerate(parts):
        part.write_bytes(b"%03d\n" % number)
    code = """
import resource, sys
from pathlib import Path
import apache_beam
from pipelines.writing import merged
resource.setrlimit(resource.RLIMIT_NOFILE, (150, 150))
sys.stdout.buffer.writelines(merged(sys.argv[2:], Path(sys.argv[1])))
"""
    command = [sys.executable, "-c", code, str(tmp_path), *map(str, reversed(parts))]
    found = subprocess.run(command, capture_output=True, check=True)
    assert found.stdout == b"".join(part.read_bytes() for part in parts)


def test_a_directory_appears_when_all_is_written(tmp_path):
    target = tmp_path / "data"
    with output_directory(str(target), overwrite=False) as output:
        part = write_part(output.workers, "train", [b"record"])
        output.take({part: "train-0"})
        (output.local / "feature_spec.json").write_text("{}")
        assert not target.exists()
    assert sorted(file.name for file in target.iterdir()) == ["feature_spec.json", "train-0"]
    assert list(tmp_path.iterdir()) == [target]


def test_after_an_error_nothing_is_left_and_the_old_output_stays(tmp_path):
    target = tmp_path / "data"
    target.mkdir()
    (target / "feature_spec.json").write_text("x")

    def fail():
        with output_directory(str(target), overwrite=True) as output:
            write_part(output.workers, "train", [b"record"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [file.name for file in target.iterdir()] == ["feature_spec.json"]
    assert list(tmp_path.iterdir()) == [target]


def test_an_existing_output_or_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    refuse(str(tmp_path / "data"), overwrite=False)  # empty: fine
    (tmp_path / "data" / "old").write_text("x")
    with pytest.raises(UserError, match="add --overwrite"):
        refuse(str(tmp_path / "data"), overwrite=False)
    with pytest.raises(UserError, match="is a file"):
        refuse(str(tmp_path / "data" / "old"), overwrite=True)


class StoreFileSystem(LocalFileSystem):
    """A remote store's stand-in: `store:///path`, with a log of what was renamed."""

    renamed: list[str] = []  # noqa: RUF012

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
        return super().create(self._local(path), *arguments, **named)

    def open(self, path, *arguments, **named):
        return super().open(self._local(path), *arguments, **named)

    def rename(self, source_file_names, destination_file_names):
        type(self).renamed += destination_file_names
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


def test_on_a_remote_store_the_feature_spec_is_moved_last(tmp_path):
    from pipelines import preprocess

    log = tmp_path / "log.tsv"
    log.write_text("query\ttitle\n" + "".join(f"q{n}\tt{n}\n" for n in range(30)), "utf-8")
    target = tmp_path / "bucket" / "data"
    StoreFileSystem.renamed.clear()
    arguments = ["--input", str(log), "--output", f"store://{target}"]
    assert preprocess.run(arguments) == 0
    local = tmp_path / "local"
    assert preprocess.run(["--input", str(log), "--output", str(local)]) == 0
    written = {file.name: file.read_bytes() for file in target.iterdir()}
    (local / REQUEST).unlink()  # which names the log and its time, and is local alone
    assert written == {file.name: file.read_bytes() for file in local.iterdir()}
    assert StoreFileSystem.renamed[-1].endswith("/feature_spec.json")
    assert [file.name for file in target.parent.iterdir()] == ["data"]
    assert preprocess.run(arguments) == 1
    assert preprocess.run([*arguments, "--overwrite"]) == 0
    assert FileSystems.exists(f"store://{target}/report.html")
