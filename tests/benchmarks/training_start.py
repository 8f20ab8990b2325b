"""Processor seconds and memory of the steps of a training before its first update.

    python -m tests.benchmarks.training_start --data DATA

trains nothing. DATA is a directory of `dssm preprocess`. "MiB" is the peak of the process during a
step; the first step imports the libraries. Compare two sizes of a catalog, such as 100,000 and a
million titles: no step should grow faster than the catalog.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dssm_tf.common.command_line import run
from dssm_tf.common.quiet import load_tensorflow
from tests.benchmarks.memory import memory
from tests.benchmarks.scale import load_average


def measure(name: str, step: Callable[[], Any]) -> Any:
    """Runs a step and prints its row; returns its result."""
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # resets the peak
    started = time.process_time()
    result = step()
    seconds = time.process_time() - started
    sys.stdout.write(f"| {name} | {seconds:.1f} | {memory('self', 'VmHWM'):,.0f} |\n")
    sys.stdout.flush()
    return result


def main(*, data: Path, config: str = "maxsim") -> None:
    """Prints a table in Markdown, one row per step.

    Args:
        data: directory that preprocess wrote, with clicks.
        config: name of the configuration.
    """
    write = sys.stdout.write
    write(f"{load_average()}\n\n| step | processor s | MiB |\n|---|---|---|\n")

    def import_libraries() -> None:
        load_tensorflow(with_plots=False)
        import dssm_tf.training.train  # noqa: F401

    measure("import", import_libraries)
    from dssm_tf.common.memory import prefer_less_memory
    from dssm_tf.config import find_config, load_config
    from dssm_tf.data.preprocessed import Preprocessed
    from dssm_tf.training.build import build_loop
    from dssm_tf.training.devices import Devices
    from dssm_tf.training.loop import LoopOptions
    from dssm_tf.training.resolve import resolve_config
    from dssm_tf.training.run_directory import start_run
    from dssm_tf.training.starts import current_weights, spelled_weights
    from dssm_tf.training.train import validation_task
    from dssm_tf.training.validation import score_task

    prefer_less_memory(return_tensors=False)
    settings = load_config(find_config(config), [])
    settings, content = measure(
        "read the data", lambda: resolve_config(settings, Preprocessed(data))
    )
    with TemporaryDirectory() as folder:
        options = LoopOptions(Path(folder), quiet=True)
        loop = measure(
            "build the model and the batches",
            lambda: build_loop(settings, content, devices=Devices.choose(), options=options),
        )
        measure("write the titles", lambda: start_run(settings, content, Path(folder, "run")))
    task = measure(
        "prepare the validation", lambda: validation_task(settings.validation, content, None)
    )
    measure("rank before training", lambda: task.ndcg(score_task(loop.scorer, task)))
    if settings.tower.name == "words":
        model, seed = loop.ranking_model, settings.training.seed
        weights = current_weights(model)
        measure(
            "learn spelling", lambda: spelled_weights(model, weights, content, seed, quiet=True)
        )


if __name__ == "__main__":
    sys.exit(run("training_start", main, None))
