"""Says aloud where titles are read from other columns than a model was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def warn_of_other_fields(run: Path | str, given: tuple[str, ...], console: Console) -> None:
    """Prints a line where a run's titles had other fields; exports and others say nothing of it.

    Args:
        run: what `dssm train` wrote.
        given: the columns of `--title-fields`.
        console: where to print.
    """
    from dssm_tf.data.schema import FEATURE_SPEC, FeatureSpec

    if not (Path(run) / FEATURE_SPEC).exists():
        return
    known = FeatureSpec.load(Path(run)).title_fields
    if len(known) != len(given) or (len(known) > 1 and known != given):
        console.print(
            f"{run} was trained on titles of {', '.join(known)}; here they are of "
            f"{', '.join(given)}. Is --title-fields {','.join(known)} meant?",
            style="yellow", highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
