"""Arrays are read as they were written; any other content is an error of one line."""

from __future__ import annotations

import errno
import io
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.common.arrays import map_array, read_arrays, write_array, write_arrays
from dssm_tf.common.errors import UserError
from tests.file_size import limited_file_size

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
OBJECTS = np.frombuffer(pickle.dumps(np.array([{"a": 1}], object)), np.uint8)


def npy(array, **header) -> bytes:
    """The bytes of an `.npy` file whose header has the given changes."""
    file = io.BytesIO()
    plain = {"descr": "<f4", "fortran_order": False, "shape": array.shape} | header
    np.lib.format.write_array_header_1_0(file, plain)
    return file.getvalue() + array.tobytes()


def npz(members: dict[str, bytes]) -> bytes:
    """The bytes of a ZIP file with the given members."""
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
    "truncated": npy(ARRAY)[:-1],
    "116 TiB": npy(ARRAY, shape=(1 << 30, 31_000)),
    "negative": npy(ARRAY, shape=(-3, -4)),
    "no numbers": npy(np.array([], "<U0"), descr="<U0", shape=(1 << 60,)),
    "objects": npy(OBJECTS, descr="|O", shape=(1,)),
    "nested": b"\x93NUMPY\x01\x00" + (8000).to_bytes(2, "little") + b"(" * 8000,
    "zip": npz({"a.txt": b"text"}),
    "pickle": pickle.dumps([1, 2]),
}


def test_arrays_are_read_as_they_were_written(tmp_path):
    for rows in (4, 0):
        np.save(tmp_path / "a.npy", ARRAY[:rows])
        array = map_array(tmp_path / "a.npy", "Fix it.")
        assert (array.dtype, array.shape) == (np.float32, ARRAY[:rows].shape)
        assert isinstance(array, np.memmap)
        np.testing.assert_array_equal(array, ARRAY[:rows])
    arrays = {
        "a": ARRAY,
        "fortran": np.asfortranarray(ARRAY),
        "none": np.zeros((0, 7), np.int64),
        "scalar": np.array(True),
        "text": np.frombuffer(b"{}", np.uint8),
    }
    np.savez(tmp_path / "a.npz", **arrays)
    for name, array in read_arrays(tmp_path / "a.npz", "Fix it.").items():
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays.pop(name))
    assert not arrays


def test_arrays_written_one_by_one_are_read_like_those_of_numpy(tmp_path):
    arrays = [np.arange(6.0).reshape(2, 3), np.float32(2), np.zeros((0, 2), np.int64)]
    with (tmp_path / "one.npz").open("wb") as file:
        write_arrays(file, arrays)
    np.savez(tmp_path / "numpy.npz", *arrays)
    written, expected = (read_arrays(tmp_path / f"{name}.npz", "") for name in ("one", "numpy"))
    assert list(written) == list(expected)
    for name, array in expected.items():
        assert written[name].dtype == array.dtype
        assert np.array_equal(written[name], array)


@pytest.mark.parametrize("kind", BAD)
def test_a_file_without_arrays_is_a_one_line_error(tmp_path, kind):
    path = tmp_path / "a.npy"
    path.write_bytes(BAD[kind])
    with pytest.raises(UserError, match=r"a\.npy is not an array of numbers: .+\. Fix it\.$"):
        map_array(path, "Fix it.")
    path.write_bytes(npz({"a.npy": npy(ARRAY), "b.npy": BAD[kind]}))
    with pytest.raises(
        UserError, match=r"a\.npy is not an archive of arrays: .+\. Fix it\.$"
    ) as caught:
        read_arrays(path, "Fix it.")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("offset", range(0, 320, 7))
def test_a_flipped_bit_in_an_archive_is_an_error_or_changes_no_array(tmp_path, offset):
    np.savez(tmp_path / "a.npz", a=ARRAY)
    raw = bytearray((tmp_path / "a.npz").read_bytes())
    raw[offset % len(raw)] ^= 4
    (tmp_path / "a.npz").write_bytes(raw)
    try:
        arrays = read_arrays(tmp_path / "a.npz", "Fix it.")
    except UserError:
        return
    assert [array.tolist() for array in arrays.values()] == [ARRAY.tolist()]


def test_the_error_for_a_missing_file_has_its_name(tmp_path):
    for read in (map_array, read_arrays):
        with pytest.raises(UserError, match=r"a\.npy cannot be read: No such file or directory\."):
            read(tmp_path / "a.npy", "Fix it.")


def assert_refused_without_memory(path: Path, message: str) -> None:
    """Asserts that an archive is an error before its arrays take memory."""
    tracemalloc.start()
    with pytest.raises(UserError, match=message):
        read_arrays(path, "Fix it.")
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_an_archive_that_would_grow_in_memory_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.zeros(10_000_000, np.int8))
    assert_refused_without_memory(path, r"bytes would become 10,000,128; .* are not compressed")


def test_a_shape_larger_than_the_file_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(npz({"a.npy": npy(ARRAY, shape=(1 << 28, 4))}))
    assert_refused_without_memory(path, r"its shape \(268435456, 4\) needs 4294967296 bytes")


def test_two_arrays_of_one_name_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy(ARRAY))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.npy", npy(ARRAY))
    with pytest.raises(UserError, match="two arrays have the same name"):
        read_arrays(path, "Fix it.")


@pytest.mark.parametrize("read", [map_array, read_arrays])
def test_a_lack_of_memory_is_not_called_a_damaged_file(read, tmp_path, monkeypatch):
    def fail(*_arguments, **_options):
        raise MemoryError

    path = tmp_path / "a"
    path.write_bytes(npy(ARRAY) if read is map_array else npz({"a.npy": npy(ARRAY)}))
    monkeypatch.setattr(np, "memmap" if read is map_array else "frombuffer", fail)
    with pytest.raises(MemoryError):
        read(path, "Fix it.")


class CreatesFile:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("read", [map_array, read_arrays])
def test_nothing_is_unpickled(read, tmp_path):
    array = np.array([CreatesFile(tmp_path / "touched")], object)
    path = tmp_path / "a"
    with path.open("wb") as file:
        np.save(file, array) if read is map_array else np.savez(file, array)
    with pytest.raises(UserError, match=f"{path} is not "):
        read(path, "Fix it.")
    assert not (tmp_path / "touched").exists()


def test_a_failed_write_raises_the_error_of_the_system_and_leaves_no_file(tmp_path):
    path = tmp_path / "ids.npy"
    array = np.arange(100_000)
    with limited_file_size(100_000), pytest.raises(OSError, match="File too large") as error:
        write_array(path, array)
    assert error.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []
    write_array(path, array)
    assert (map_array(path, "") == array).all()
