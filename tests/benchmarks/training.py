"""Training speed by model and precision, compared with the LSTM of torch (cuDNN's on a GPU).

    pip install torch
    python -m tests.benchmarks.training --rows 200000 --batch-size 512 4096

prints pairs per second. The log is that of `tests.benchmarks.scale`. The shipped configurations for
clicks train as in `dssm train`, with XLA on a GPU. `torch` has the same batches from the same
reader, the same number of cells as `lstm`, a first matrix of the same size (`EmbeddingBag`), the
same loss, and fused Adam. `reading` only makes the batches. Times are wall-clock seconds and
include reading; the fastest of three rounds of 100 steps counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any

import tensorflow as tf
from cyclopts import Parameter

from dssm_tf.common.command_line import run
from dssm_tf.config import Config, find_config, load_config
from dssm_tf.data.batches import Batches
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.build import build_model
from dssm_tf.training.build import build_loss
from dssm_tf.training.devices import Devices, reuse_memory
from dssm_tf.training.loop import build_optimizer
from dssm_tf.training.resolve import resolve_config
from tests.benchmarks.scale import measure, write_log
from tests.training.configuration import batches_of

SYSTEMS = ("dssm", "clsm", "rnn", "lstm", "lstm_plain", "bilstm", "torch", "reading")
PRECISIONS = ("float32", "mixed_bfloat16")
WARM_UP, TURNS, STEPS = 20, 3, 100
MULTIPLE = Parameter(consume_multiple=True)
Step = Callable[[Iterator[Any]], Any]


def our_step(config: Config, data: Preprocessed, devices: Devices) -> Step:
    """A step of `dssm train` on the next batch."""
    with devices.strategy.scope():
        model = build_model(config, data.vocabulary.size, config.training.precision)
        optimizer = build_optimizer(config.optimizer, 1, config.training.averaging, devices)
        model.compile(optimizer=optimizer, loss=build_loss(config.loss, config.lists))
        model.optimizer.build(model.trainable_variables)
        return devices.distribute(model.train_step, devices.use_xla(config.training.xla))


def torch_step(config: Config, data: Preprocessed) -> Step:
    """The same step with `torch.nn.LSTM`, in torch's default eager mode."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    cells, gamma = config.tower.cells, config.loss.gamma
    hashing = torch.nn.EmbeddingBag(data.vocabulary.size + 1, 4 * cells, mode="sum", padding_idx=0)
    lstm = torch.nn.LSTM(4 * cells, cells, batch_first=True)
    modules = torch.nn.ModuleList([hashing, lstm]).to(device)
    adam = torch.optim.Adam(modules.parameters(), config.optimizer.learning_rate, fused=True)
    bfloat16 = config.training.precision == "mixed_bfloat16"

    def to_torch(value: tf.Tensor) -> Any:
        return torch.from_numpy(value.numpy()).to(device, non_blocking=True)

    def encode(texts: dict[str, Any]) -> Any:
        words = torch.cat([hashing(bucket) for bucket in tf.nest.flatten(texts["word_ngrams"])])
        vectors = []
        for tokens in tf.nest.flatten(texts["tokens"]):
            states, _ = lstm(words[tokens])
            last = (tokens != 0).sum(1).clamp(min=1) - 1
            vectors.append(states[torch.arange(len(tokens), device=device), last])
        joined = torch.cat(vectors)
        joined = joined[texts["rows"]] if "rows" in texts else joined
        return torch.nn.functional.normalize(joined.float(), dim=1)

    def step(batches: Iterator[Any]) -> Any:
        inputs, labels, weights = tf.nest.map_structure(to_torch, next(batches))
        with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
            vectors = encode(inputs["texts"])
        queries, titles = vectors[: len(weights)], vectors[len(weights) :]
        cosines = (queries @ titles.T).gather(1, inputs["candidates"].long())
        scores = (gamma * cosines - labels["correction"]).masked_fill(~labels["mask"], -1e9)
        losses = torch.logsumexp(scores, 1) - scores[:, 0]
        loss = (weights * losses).sum() / weights.sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.detach()

    return step


def pairs_per_second(step: Step, batches: Batches) -> float:
    """Pairs per second in the fastest turn.

    Raises:
        RuntimeError: the loss is not finite.
    """
    read = iter(batches.epochs(0, 0, 1 + (WARM_UP + TURNS * STEPS) // batches.steps))
    float(tf.reduce_mean([float(step(read)) for _ in range(WARM_UP)]))
    seconds = []
    for _ in range(TURNS):
        started = perf_counter()
        for _ in range(STEPS):
            loss = step(read)
        if not float(loss) < float("inf"):
            raise RuntimeError(f"the loss is {float(loss)}")
        seconds.append(perf_counter() - started)
    return STEPS * batches.rows[0].batch_size / min(seconds)


def pairs_per_second_of(
    name: str, data: Preprocessed, devices: Devices, overrides: list[str]
) -> float:
    """Pairs per second of a configuration with overrides, or of `torch` or `reading`."""
    path = find_config("lstm" if name in ("torch", "reading") else name)
    config, data = resolve_config(load_config(path, overrides), data)
    batches = batches_of(config, data, fixed_shapes=devices.use_xla(config.training.xla))
    if name == "reading":
        step = _read
    else:
        step = torch_step(config, data) if name == "torch" else our_step(config, data, devices)
    return pairs_per_second(step, batches)


def _read(read: Iterator[Any]) -> Any:
    """Reads a batch without learning, which is an upper bound of the speed of all models."""
    return next(read)[-1][0]


def main(
    *,
    rows: int = 200_000,
    batch_size: Annotated[tuple[int, ...], MULTIPLE] = (512, 4096),
    precision: Annotated[tuple[str, ...], MULTIPLE] = PRECISIONS,
    systems: Annotated[tuple[str, ...], MULTIPLE] = SYSTEMS,
    set: Annotated[tuple[str, ...], MULTIPLE] = (),
) -> None:
    """Prints a table in Markdown, one row per system."""
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # torch needs some of it
    reuse_memory()
    write, devices = sys.stdout.write, Devices(tf.distribute.get_strategy())  # a single device
    columns = list(product(batch_size, precision))
    write(" | ".join(["\n| pairs/s", *(f"{size}, {kind}" for size, kind in columns)]))
    write(f" |\n|{'---|' * (len(columns) + 1)}\n")
    with TemporaryDirectory() as folder:
        log, directory = Path(folder, "clicks.tsv"), Path(folder, "data")
        write_log(log, rows)
        measure(log, directory)
        for name in systems:
            write(f"| {name} ")
            for size, kind in columns:
                sizes = f"training.batch_size={size}", f"training.precision={kind}"
                speed = pairs_per_second_of(name, Preprocessed(directory), devices, [*sizes, *set])
                write(f"| {speed:,.0f} ")
                sys.stdout.flush()
            write("|\n")


if __name__ == "__main__":
    sys.exit(run("training", main, None))
