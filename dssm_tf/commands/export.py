"""`dssm export`: writes a trained run as a SavedModel or as a compact model for NumPy."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.common.terminal import say


def export_model(
    *,
    model: Path,
    out: Path,
    name: str | None = None,
    format: Literal["saved_model", "compact"] = "saved_model",
    table: Literal["float32", "float16", "int8"] = "float32",
) -> None:
    """Write a SavedModel that takes raw strings, or a compact model that needs only NumPy.

    A SavedModel has the signatures encode_query, encode_title and score, and warm-up requests for
    TensorFlow Serving. A compact model is loaded by dssm_tf.runtime.
    Both are compared with the trained model before the export completes.

        dssm export --model RUN --out EXPORT

    Args:
        model: directory that `dssm train` wrote
        out: directory; the model is written to OUT/NAME/VERSION/
        name: name of the served model; by default the tower's
        format: format of the export
        table: number type of a compact model's first matrix, which has most of its bytes

    Raises:
        UserError: an input cannot be used, or an option does not apply to the format.
    """
    if format == "saved_model" and table != "float32":
        raise UserError("--table is for compact models; add --format compact.")
    load_tensorflow()
    if format == "saved_model":
        from dssm_tf.export.saved_model import export_saved_model

        target = export_saved_model(model, out, name)
        base = target.parent.resolve()
        lines = [
            f"{target}: verified against the trained model",
            f"serve it: tensorflow_model_server --port=8500 --rest_api_port=8501 "
            f"{shlex.quote(f'--model_name={base.name}')} "
            f"{shlex.quote(f'--model_base_path={base}')}",
        ]
    else:
        from dssm_tf.export.compact import export_compact

        target = export_compact(model, out, name, table)
        size = sum(file.stat().st_size for file in target.iterdir()) / 1e6
        rounding = "" if table == "float32" else f" rounded to {table}"
        lines = [
            f"{target}: {size:.1f} MB; verified against the trained model{rounding}",
            f"read it: from dssm_tf.runtime import load; load({str(target.parent)!r})",
        ]
    say(*lines)
