"""The columns that titles are made of, as a model was trained on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def title_fields_of(run: Path | str) -> tuple[str, ...] | None:
    """The columns that the titles of a run's log were made of; None if it is not a run."""
    from dssm_tf.data.format import SPEC, Spec

    if not (Path(run) / SPEC).exists():
        return None
    return Spec.load(Path(run)).title_fields


def warn_of_other_fields(run: Path | str, given: tuple[str, ...], console: Console) -> None:
    """Prints a line where a run's titles had other fields; exports and others say nothing of it.

    Args:
        run: what `dssm train` wrote.
        given: the columns of `--title-fields`.
        console: where to print.
    """
    known = title_fields_of(run)
    if known is None:
        return
    if len(known) != len(given) or (len(known) > 1 and known != given):
        console.print(
            f"{run} was trained on titles of {', '.join(known)}; here they are of "
            f"{', '.join(given)}. Is --title-fields {','.join(known)} meant?",
            style="yellow", highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
