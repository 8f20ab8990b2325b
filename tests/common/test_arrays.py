"""Arrays come back as they were written; whatever else a file holds is one line."""

from __future__ import annotations

import errno
import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.common.arrays import map_array, read_arrays, write_array
from dssm_tf.common.errors import UserError
from tests.file_size import limited_file_size

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
OBJECTS = np.frombuffer(pickle.dumps(np.array([{"a": 1}], object)), np.uint8)


def npy(array, **header) -> bytes:
    """An .npy file, with another header."""
    file = io.BytesIO()
    plain = {"descr": "<f4", "fortran_order": False, "shape": array.shape} | header
    np.lib.format.write_array_header_1_0(file, plain)
    return file.getvalue() + array.tobytes()


def npz(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


BAD = {
    "empty": b"",
    "text": b"no array",
    "magic": b"\x93NUMPY",
    "unknown format": b"\x93NUMPY\x09\x00" + b"\x00" * 200,
    "cut": npy(ARRAY)[:-1],
    "116 TiB": npy(ARRAY, shape=(1 << 30, 31_000)),
    "negative": npy(ARRAY, shape=(-3, -4)),
    "no numbers": npy(np.array([], "<U0"), descr="<U0", shape=(1 << 60,)),
    "objects": npy(OBJECTS, descr="|O", shape=(1,)),
    "nested": b"\x93NUMPY\x01\x00" + (8000).to_bytes(2, "little") + b"(" * 8000,
    "zip": npz({"a.txt": b"text"}),
    "pickle": pickle.dumps([1, 2]),
}


def test_arrays_come_back_as_they_were(tmp_path):
    for rows in (4, 0):
        np.save(tmp_path / "a.npy", ARRAY[:rows])
        found = map_array(tmp_path / "a.npy", "Mend.")
        assert (found.dtype, found.shape) == (np.float32, ARRAY[:rows].shape)
        assert isinstance(found, np.memmap)
        np.testing.assert_array_equal(found, ARRAY[:rows])
    arrays = {
        "a": ARRAY,
        "fortran": np.asfortranarray(ARRAY),
        "none": np.zeros((0, 7), np.int64),
        "scalar": np.array(True),
        "text": np.frombuffer(b"{}", np.uint8),
    }
    np.savez(tmp_path / "a.npz", **arrays)
    for name, array in read_arrays(tmp_path / "a.npz", "Mend.").items():
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays.pop(name))
    assert not arrays


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_array_is_one_line(tmp_path, kind):
    path = tmp_path / "a.npy"
    path.write_bytes(BAD[kind])
    with pytest.raises(UserError, match=r"a\.npy is no array of numbers: .+\. Mend\.$"):
        map_array(path, "Mend.")
    path.write_bytes(npz({"a.npy": npy(ARRAY), "b.npy": BAD[kind]}))
    with pytest.raises(UserError, match=r"a\.npy is no archive of arrays: .+\. Mend\.$") as caught:
        read_arrays(path, "Mend.")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", range(0, 320, 7))
def test_a_flipped_bit_in_an_archive_is_told_or_changes_nothing(tmp_path, place):
    np.savez(tmp_path / "a.npz", a=ARRAY)
    raw = bytearray((tmp_path / "a.npz").read_bytes())
    raw[place % len(raw)] ^= 4
    (tmp_path / "a.npz").write_bytes(raw)
    try:
        found = read_arrays(tmp_path / "a.npz", "Mend.")
    except UserError:
        return
    assert [array.tolist() for array in found.values()] == [ARRAY.tolist()]


def test_a_file_that_is_missing_is_named(tmp_path):
    for read in (map_array, read_arrays):
        with pytest.raises(UserError, match=r"a\.npy cannot be read: No such file or directory\."):
            read(tmp_path / "a.npy", "Mend.")


class Touches:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("read", [map_array, read_arrays])
def test_nothing_is_unpickled(read, tmp_path):
    array = np.array([Touches(tmp_path / "touched")], object)
    path = tmp_path / "a"
    with path.open("wb") as file:
        np.save(file, array) if read is map_array else np.savez(file, array)
    with pytest.raises(UserError, match=f"{path} is no "):
        read(path, "Mend.")
    assert not (tmp_path / "touched").exists()


def test_an_array_is_written_whole_or_with_the_systems_reason_not_at_all(tmp_path):
    path = tmp_path / "ids.npy"
    array = np.arange(100_000)
    with limited_file_size(100_000), pytest.raises(OSError, match="File too large") as raised:
        write_array(path, array)
    assert raised.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []
    write_array(path, array)
    assert (map_array(path, "") == array).all()
