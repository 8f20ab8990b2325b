"""What was changed since it was written is told in one line."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from dssm_tf.common.checksums import CHECKSUMS, check_files, write_checksums
from dssm_tf.common.errors import UserError

MEND = "Train again."


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 10_000)
    (tmp_path / "deep" / "b c.txt").write_text("abc")
    write_checksums(tmp_path, ["a.bin", "deep/b c.txt"])
    return tmp_path


def test_the_checksum_of_abc_is_the_one_of_the_standard(directory):
    # FIPS 180-2, appendix B.1.
    wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert f"{wanted}  deep/b c.txt" in (directory / CHECKSUMS).read_text("utf-8").splitlines()
    for names in (None, ["a.bin"]):
        check_files(directory, names, MEND)


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="sha256sum is not installed")
def test_sha256sum_reads_them(directory):
    subprocess.run(["sha256sum", "--quiet", "-c", CHECKSUMS], cwd=directory, check=True)


@pytest.mark.parametrize("place", [0, 1_048_576, 2_559_999])
def test_any_flipped_bit_is_told(directory, place):
    raw = bytearray((directory / "a.bin").read_bytes())
    raw[place] ^= 1
    (directory / "a.bin").write_bytes(raw)
    check_files(directory, ["deep/b c.txt"], MEND)
    for names in (None, ["a.bin"]):
        with pytest.raises(UserError, match=r"a\.bin is damaged or was changed: .* Train again\."):
            check_files(directory, names, MEND)


def test_what_is_missing_or_not_listed_is_told(directory):
    (directory / "c.txt").write_text("")
    with pytest.raises(UserError, match=r"c\.txt is damaged or was changed"):
        check_files(directory, ["c.txt"], MEND)
    (directory / "a.bin").unlink()
    with pytest.raises(UserError, match=r"a\.bin does not exist\. Train again"):
        check_files(directory, None, MEND)
    (directory / CHECKSUMS).unlink()
    with pytest.raises(UserError, match=r"SHA256SUMS does not exist; .* Train again"):
        check_files(directory, ["deep/b c.txt"], MEND)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"one\n", b"\x00" * 9])
def test_damaged_checksums_are_told(directory, content):
    (directory / CHECKSUMS).write_bytes(content)
    with pytest.raises(UserError, match="SHA256SUMS is damaged"):
        check_files(directory, None, MEND)


def test_a_directory_may_hold_several_things_with_checksums_of_their_own(directory):
    (directory / "c.txt").write_text("new")
    write_checksums(directory, ["c.txt"], "c.sha256")
    check_files(directory, ["c.txt"], MEND, "c.sha256")
    check_files(directory, None, MEND)
    (directory / "c.txt").write_text("other")
    check_files(directory, None, MEND)
    with pytest.raises(UserError, match=r"c\.txt is damaged .* checksum in c\.sha256"):
        check_files(directory, None, MEND, "c.sha256")
