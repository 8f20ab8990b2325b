"""Files that changed after they were written are reported in one line."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from dssm_tf.common.checksums import CHECKSUMS, check_files, write_checksums
from dssm_tf.common.errors import UserError

HINT = "Train again."


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 10_000)
    (tmp_path / "deep" / "b c.txt").write_text("abc")
    write_checksums(tmp_path, ["a.bin", "deep/b c.txt"])
    return tmp_path


def test_the_checksum_of_abc_is_that_of_the_standard(directory):
    # FIPS 180-2, appendix B.1.
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert f"{expected}  deep/b c.txt" in (directory / CHECKSUMS).read_text("utf-8").splitlines()
    for names in (None, ["a.bin"]):
        check_files(directory, names, HINT)


def test_without_names_all_files_but_the_checksums_are_listed(directory):
    (directory / "new.txt").write_text("new")
    for _ in range(2):  # the second time, the checksum file exists
        write_checksums(directory)
        names = [line.split("  ")[1] for line in (directory / CHECKSUMS).read_text().splitlines()]
        assert names == ["a.bin", "deep/b c.txt", "new.txt"]


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="sha256sum is not installed")
def test_sha256sum_reads_them(directory):
    subprocess.run(["sha256sum", "--quiet", "-c", CHECKSUMS], cwd=directory, check=True)


@pytest.mark.parametrize("offset", [0, 1_048_576, 2_559_999])
def test_a_flipped_bit_is_reported(directory, offset):
    raw = bytearray((directory / "a.bin").read_bytes())
    raw[offset] ^= 1
    (directory / "a.bin").write_bytes(raw)
    check_files(directory, ["deep/b c.txt"], HINT)
    for names in (None, ["a.bin"]):
        with pytest.raises(UserError, match=r"a\.bin is damaged or was changed: .* Train again\."):
            check_files(directory, names, HINT)


def test_missing_and_unlisted_files_are_reported(directory):
    (directory / "c.txt").write_text("")
    with pytest.raises(UserError, match=r"c\.txt is damaged or was changed"):
        check_files(directory, ["c.txt"], HINT)
    (directory / "a.bin").unlink()
    with pytest.raises(UserError, match=r"a\.bin does not exist\. Train again"):
        check_files(directory, None, HINT)
    (directory / CHECKSUMS).unlink()
    with pytest.raises(UserError, match=r"SHA256SUMS does not exist; .* Train again"):
        check_files(directory, ["deep/b c.txt"], HINT)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"one\n", b"\x00" * 9])
def test_damaged_checksums_are_reported(directory, content):
    (directory / CHECKSUMS).write_bytes(content)
    with pytest.raises(UserError, match="SHA256SUMS is damaged"):
        check_files(directory, None, HINT)


def test_two_checksum_files_in_one_directory_are_independent(directory):
    (directory / "c.txt").write_text("new")
    write_checksums(directory, ["c.txt"], "c.sha256")
    check_files(directory, ["c.txt"], HINT, "c.sha256")
    check_files(directory, None, HINT)
    (directory / "c.txt").write_text("other")
    check_files(directory, None, HINT)
    with pytest.raises(UserError, match=r"c\.txt is damaged .* checksum in c\.sha256"):
        check_files(directory, None, HINT, "c.sha256")
