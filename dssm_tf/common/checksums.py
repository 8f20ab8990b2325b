"""SHA-256 checksums of the files in a directory; a changed file is reported in one line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write

CHECKSUMS = "SHA256SUMS"
"""The file with the checksums of a directory, in the format of `sha256sum -c`."""


def write_checksums(
    directory: Path, names: Iterable[str] | None = None, manifest: str = CHECKSUMS
) -> None:
    """Writes the checksums of files. Call it after all files are written.

    Args:
        directory: the directory of the files.
        names: the files, relative to the directory, such as `variables/variables.index`; None for
            all files below it except the checksum file.
        manifest: name of the checksum file. Artifacts that share a directory need different names.
    """
    if names is None:
        names = {*files_in(directory)} - {manifest}
    with atomic_write(directory / manifest) as file:
        file.writelines(f"{_sha256(directory / name)}  {name}\n" for name in sorted(names))


def files_in(directory: Path) -> list[str]:
    """The paths of all files below a directory, relative to it."""
    return [
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    ]


def check_files(
    directory: Path, names: Iterable[str] | None, hint: str, manifest: str = CHECKSUMS
) -> None:
    """Checks that files have not changed since `write_checksums`.

    Args:
        directory: the directory of the files.
        names: the files, relative to the directory; None for all files with a checksum.
        hint: a sentence for the error message that says how to fix the problem.
        manifest: name of the checksum file.

    Raises:
        UserError: the checksums or a file are missing, or a file has changed.
    """
    expected = _read(directory / manifest, hint)
    for name in sorted(expected) if names is None else names:
        path = directory / name
        if not path.is_file():
            raise UserError(f"{path} does not exist. {hint}")
        if expected.get(name) != _sha256(path):
            raise UserError(
                f"{path} is damaged or was changed: it does not match its checksum in "
                f"{manifest}. {hint}"
            )


def listed_files(directory: Path, hint: str) -> list[str]:
    """The names of the files that have a checksum, see `check_files`."""
    return [*_read(directory / CHECKSUMS, hint)]


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file; for a directory, that of the list of its files' checksums.

    Raises:
        UserError: the path cannot be read.
    """
    try:
        if not path.is_dir():
            return _sha256(path)
        if (path / CHECKSUMS).exists():
            return _sha256(path / CHECKSUMS)
        lines = (f"{_sha256(path / name)}  {name}\n" for name in sorted(files_in(path)))
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error


def expected_sha256(key: str, path: Path, expected: str, accept: str) -> str:
    """The SHA-256 of a file.

    Args:
        key: the setting that has the expected SHA-256, for the message.
        path: the file.
        expected: the expected SHA-256; empty for any.
        accept: the command or flag that accepts any file, for the message.

    Raises:
        UserError: the file cannot be read, or has another SHA-256.
    """
    sha256 = sha256_of(path)
    if expected not in ("", sha256):
        raise UserError(
            f"{key}: the SHA-256 of {path} is {sha256[:16]}...; the configuration expects "
            f"{expected[:16]}.... Use the expected file, or accept this one: {accept}."
        )
    return sha256


def _read(path: Path, hint: str) -> dict[str, str]:
    """Reads the checksum of each file by name."""
    try:
        lines = path.read_text("utf-8").splitlines()
        sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except FileNotFoundError:
        missing = path if path.parent.exists() else path.parent
        raise UserError(
            f"{missing} does not exist; it is written last, so the directory is incomplete or was "
            f"written by an earlier version. {hint}"
        ) from None
    except NotADirectoryError:
        raise UserError(f"{path.parent} is a file. {hint}") from None
    except ValueError:  # UnicodeDecodeError is one
        raise UserError(
            f"{path} is damaged; expected lines as `sha256sum` writes them. {hint}"
        ) from None
    for name in sums:
        if not is_inside(name):
            raise UserError(f"{path} names the file {name[:80]!r}, outside its directory. {hint}")
    return sums


def is_inside(name: str) -> bool:
    r"""Whether a relative name stays in its directory, on every operating system.

    >>> is_inside("variables/a"), is_inside("../a"), is_inside("/a"), is_inside("C:\\a")
    (True, False, False, False)
    """
    parts = re.split(r"[/\\]", name)
    return ".." not in parts and parts[0] != "" and not re.match("[A-Za-z]:", name)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
