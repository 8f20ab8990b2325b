"""`dssm train` and `dssm export`: what they print besides the progress."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from dssm_tf.config import find_config, load_config


def train_command(
    config: str,
    data: Path,
    out: Path,
    overrides: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Trains and says what came of it.

    Args:
        config: a YAML file, or the name of a shipped one.
        data: directory preprocess wrote.
        out: the run's directory.
        overrides: `key=value` settings.
        console: where to print.

    Raises:
        UserError: see `load_config` and `dssm_tf.training.train`.
    """
    settings = load_config(find_config(config), overrides)  # before TensorFlow's slow import

    from dssm_tf.distribution import Workers
    from dssm_tf.training import train

    result = train(settings, data, out)
    if not Workers.from_environment().chief:
        return
    console = console or Console()
    values = "/".join(f"{result.ndcg[f'ndcg@{k}']:.3f}" for k in (1, 3, 10)) if result.ndcg else ""
    lines = [f"{out}: {result.epochs} epochs in {result.seconds:.0f} s, best {result.best_epoch}"]
    if values:
        lines.append(
            f"validation NDCG@1/3/10 {values} with {result.prior_weight:g} x log-prior of titles"
        )
    lines.append(f"next: dssm export --model {out} --out EXPORT")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def export_command(
    model: Path, out: Path, name: str | None = None, console: Console | None = None
) -> Path:
    """Exports and says how to serve it.

    Args:
        model: directory `dssm train` wrote.
        out: where models lie.
        name: the served model's name.
        console: where to print.
    """
    from dssm_tf.export import export

    target = export(model, out, name)
    console = console or Console()
    base = target.parent.resolve()
    for line in (
        f"{target}: verified against the trained model",
        f"serve it: tensorflow_model_server --port=8500 --rest_api_port=8501 "
        f"--model_name={base.name} --model_base_path={base}",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return target
