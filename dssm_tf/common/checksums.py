"""Checksums of the files that a directory is made of: what changed since is one clear line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write

CHECKSUMS = "SHA256SUMS"
"""The checksums of a directory's files, one line each, which `sha256sum -c` reads too."""


def write_checksums(directory: Path, names: Iterable[str], manifest: str = CHECKSUMS) -> None:
    """Writes checksums of files, when all of them stand.

    Args:
        directory: which holds the files.
        names: of the files, such as `variables/variables.index`.
        manifest: the file to write there; another name where a directory holds several things.
    """
    with atomic_write(directory / manifest) as file:
        file.writelines(f"{_sha256(directory / name)}  {name}\n" for name in sorted(names))


def files_in(directory: Path) -> list[str]:
    """The names of all files in a directory, those in others inside it included."""
    return [one.relative_to(directory).as_posix() for one in directory.rglob("*") if one.is_file()]


def check_files(
    directory: Path, names: Iterable[str] | None, mend: str, manifest: str = CHECKSUMS
) -> None:
    """Compares files with the checksums they were written with.

    Args:
        directory: what `write_checksums` was called for.
        names: the files; None for all that have a checksum.
        mend: a sentence that says what to do where they differ.
        manifest: where the checksums stand.

    Raises:
        UserError: the checksums or a file are missing, or a file has changed.
    """
    known = _read(directory / manifest, mend)
    for name in sorted(known) if names is None else names:
        path = directory / name
        if not path.is_file():
            raise UserError(f"{path} does not exist. {mend}")
        if known.get(name) != _sha256(path):
            raise UserError(
                f"{path} is damaged or was changed: it does not match its checksum in "
                f"{manifest}. {mend}"
            )


def fingerprint(path: Path) -> str:
    """The SHA-256 of a file; of a directory, of its checksums.

    Raises:
        UserError: it cannot be read.
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


def _read(path: Path, mend: str) -> dict[str, str]:
    """The checksum of each file."""
    try:
        lines = path.read_text("utf-8").splitlines()
        return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except FileNotFoundError:
        missing = path if path.parent.exists() else path.parent
        raise UserError(
            f"{missing} does not exist; it is written last, so the directory is incomplete, or of "
            f"an earlier version. {mend}"
        ) from None
    except NotADirectoryError:
        raise UserError(f"{path.parent} is a file. {mend}") from None
    except ValueError:  # UnicodeDecodeError is one
        raise UserError(f"{path} is damaged; expected lines of `sha256sum`. {mend}") from None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
