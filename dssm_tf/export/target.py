"""The directory of an export: `OUT/NAME/VERSION`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory
from dssm_tf.common.model_versions import next_version, versions_in

_FORBIDDEN = set('/\\:*?"<>|')


@contextmanager
def new_version(out: Path | str, name: str, marker: str) -> Iterator[tuple[Path, Path]]:
    """Yields a new directory and its future path `OUT/NAME/VERSION`, see `atomic_directory`.

    If the block fails, no new directory is left, `OUT` included.

    Args:
        out: directory of models.
        name: the name of the model.
        marker: a file that only exports of this format contain.

    Raises:
        UserError: the name is not that of a directory, or the model's directory has versions in
            another format: a server would load the highest version, whatever its format.
    """
    if not name.strip(". ") or _FORBIDDEN & set(name) or not name.isprintable():
        raise UserError(
            f"the name {name!r:.80} is not that of a directory; use letters, digits, spaces, - and "
            "_, for example."
        )
    model = Path(out) / name
    for version in versions_in(model).values():
        if not (version / marker).exists():
            raise UserError(
                f"{version} is an export in another format; choose another --out or --name, so "
                "that a server does not load both."
            )
    missing = [path for path in (model, *model.parents) if not path.exists()]
    target = next_version(model)
    try:
        with atomic_directory(target) as directory:
            yield directory, target
    except BaseException:
        for path in missing:
            with suppress(OSError):  # it is not empty, or does not exist
                path.rmdir()
        raise
