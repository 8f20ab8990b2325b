"""`dssm train`: trains a configured model on preprocessed clicks."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.common.terminal import say


def train(
    *,
    data: Path,
    out: Path,
    config: str | None = None,
    judgments: Path | None = None,
    teacher: Path | None = None,
    start: Annotated[Path | None, Parameter(name="--from")] = None,
    overrides: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
) -> None:
    """Train a model on preprocessed clicks.

    Uses all local GPUs, and several machines through TF_CONFIG. The same command resumes an
    interrupted run and leaves a finished one unchanged. It stops if the loss or a weight is not a
    number or no click has a negative, and warns if no epoch ranks better than the untrained model.

        dssm train --config dssm --data DATA --out RUN

    Args:
        data: directory that preprocess wrote.
        out: directory of the run, new.
        config: YAML file, or the name of one that comes with the package, such as dssm;
            by default that of --from.
        judgments: also learn from this table of query, title, grade; only from it with --set
            training.clicks=false.
        teacher: also learn from this table of query, title, score of another model; see dssm teach.
        start: a finished run to start from: training starts with its weights, and its
            clicks stay in the prior; --data is from `preprocess --vocabulary-from RUN` and holds
            the clicks since.
        overrides: KEY=VALUE, a setting such as training.epochs=5; may be repeated.

    Raises:
        UserError: see `load_config` and `dssm_tf.training.train`.
    """
    from dssm_tf.config import find_config, load_config
    from dssm_tf.model.run_files import CONFIG

    files = {"judgments": judgments, "teacher": teacher}
    given = [  # in place of that of the configuration, to which a run is tied
        setting
        for name, file in files.items()
        if file
        for setting in (f"{name}.file={json.dumps(str(file))}", f'{name}.sha256=""')
    ]
    if config is None and start is None:
        raise UserError(
            "give --config, such as dssm, or --from RUN, whose configuration is then used."
        )
    path = find_config(config) if config else Path(start or "") / CONFIG
    settings = load_config(path, [*given, *overrides])
    settings.check_files()
    load_tensorflow()

    from dssm_tf.training.devices import read_cluster
    from dssm_tf.training.train import train as trained
    from dssm_tf.training.validation import with_intervals

    result = trained(settings, data, out, start=start)
    if read_cluster()[0]:
        return
    took = f"in {result.seconds:.0f} s" if result.seconds else "before; nothing left to do"
    began = "" if start is None else f", on from {start}"
    lines = [f"{out}: {result.epochs} epochs {took}, best {result.best_epoch}{began}"]
    if result.ndcg:
        lines.append(
            f"validation {with_intervals(result.ndcg)} with {result.prior_weight:g} x log-prior of "
            f"titles, 95 % intervals over {result.ndcg['queries']:,.0f} queries"
        )
    lines.append(
        f"WARNING: the model may have learned nothing: {result.doubt}. Try another "
        f"optimizer.learning_rate (it was {settings.optimizer.learning_rate:g}), or train for "
        "longer."
        if result.doubt
        else f"next: dssm export --model {shlex.quote(str(out))} --out EXPORT"
    )
    say(*lines)
