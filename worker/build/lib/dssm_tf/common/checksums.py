"""Checksums of the files that a directory is made of: what changed since is one clear line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write

CHECKSUMS = "SHA256SUMS"
"""The checksums of a directory's files, one line each, which `sha256sum -c` reads too."""

QUICK = "CRC32C"
"""Checksums that a processor makes several times as fast, for what is read at each start."""

_BLOCK = 1 << 20  # bytes read at once


def write_checksums(directory: Path, names: Iterable[str], manifest: str = CHECKSUMS) -> None:
    """Writes checksums of files, when all of them stand.

    Args:
        directory: which holds the files.
        names: of the files, such as `variables/variables.index`.
        manifest: the file to write there; another name where a directory holds several things,
            `QUICK` for checksums of that kind.
    """
    digest = _crc32c if manifest == QUICK else _sha256
    with atomic_write(directory / manifest) as file:
        file.writelines(f"{digest(directory / name)}  {name}\n" for name in sorted(names))


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
    digest = _crc32c if manifest == QUICK else _sha256
    for name in sorted(known) if names is None else names:
        path = directory / name
        if not path.is_file():
            raise UserError(f"{path} does not exist. {mend}")
        if known.get(name) != digest(path):
            raise UserError(
                f"{path} is damaged or was changed: it does not have the checksum in {manifest} "
                f"beside it. {mend}"
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
        files = sorted(one for one in path.rglob("*") if one.is_file())
        lines = (f"{_sha256(one)}  {one.relative_to(path)}\n" for one in files)
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error


def _read(path: Path, mend: str) -> dict[str, str]:
    """The checksum of each file."""
    try:
        lines = path.read_text("utf-8").splitlines()
        return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except FileNotFoundError:
        if not path.parent.exists():
            raise UserError(f"{path.parent} does not exist. {mend}") from None
        raise UserError(
            f"{path} does not exist, which is written last: what should be there is not complete, "
            f"or of an earlier version. {mend}"
        ) from None
    except NotADirectoryError:
        raise UserError(f"{path.parent} is a file. {mend}") from None
    except ValueError:  # UnicodeDecodeError is one
        raise UserError(f"{path} is damaged; expected lines of `sha256sum`. {mend}") from None


def _crc32c(path: Path) -> str:
    import google_crc32c

    found = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found = google_crc32c.extend(found, block)
    return f"{found:08x}"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
