"""Pairs a second of training, by model and precision, beside the LSTM of torch (cuDNN's on a GPU).

    pip install torch
    python -m tests.benchmarks.training --rows 200000 --batch-size 512 4096

The log is that of `tests.benchmarks.scale`. The shipped configurations of clicks train as `dssm
train` does, with XLA on a GPU. `torch` takes the same batches from the same reader, has as many
cells as `lstm`, a first matrix of the same size (`EmbeddingBag`), the same loss, and Adam in one
kernel. `reading` only makes the batches. Seconds are those of the clock, reading included; the
fastest of three turns of 100 steps counts.
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
from dssm_tf.model.semantic_ranker import build_model
from dssm_tf.training.devices import Devices, reuse_memory
from dssm_tf.training.loop import build_optimizer
from dssm_tf.training.resolve import resolve_config
from dssm_tf.training.train import build_loss
from tests.benchmarks.scale import measure, write_log
from tests.training.configuration import batches_of

SYSTEMS = ("dssm", "clsm", "rnn", "lstm", "lstm_plain", "bilstm", "torch", "reading")
PRECISIONS = ("float32", "mixed_bfloat16")
WARM_UP, TURNS, STEPS = 20, 3, 100
Several = Parameter(consume_multiple=True)
Step = Callable[[Iterator[Any]], Any]


def our_step(config: Config, data: Preprocessed, devices: Devices) -> Step:
    """A step of `dssm train` on the next batch."""
    with devices.strategy.scope():
        model = build_model(
            config.tower, config.shared_towers, data.vocabulary.size, config.training.precision
        )
        optimizer = build_optimizer(config.optimizer, 1, config.training.averaging, devices)
        model.compile(optimizer=optimizer, loss=build_loss(config.loss, config.lists))
        model.optimizer.build(model.trainable_variables)
        return devices.distribute(model.train_step, devices.use_xla(config.training.xla))


def torch_step(config: Config, data: Preprocessed) -> Step:
    """The same step of `torch.nn.LSTM`, eager as its users have it."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    cells, gamma = config.tower.cells, config.loss.gamma
    hashing = torch.nn.EmbeddingBag(data.vocabulary.size + 1, 4 * cells, mode="sum", padding_idx=0)
    lstm = torch.nn.LSTM(4 * cells, cells, batch_first=True)
    learned = torch.nn.ModuleList([hashing, lstm]).to(device)
    adam = torch.optim.Adam(learned.parameters(), config.optimizer.learning_rate, fused=True)
    half = config.training.precision == "mixed_bfloat16"

    def moved(value: tf.Tensor) -> Any:
        return torch.from_numpy(value.numpy()).to(device, non_blocking=True)

    def encode(texts: dict[str, Any]) -> Any:
        words = torch.cat([hashing(part) for part in tf.nest.flatten(texts["word_ngrams"])])
        vectors = []
        for tokens in tf.nest.flatten(texts["tokens"]):
            states, _ = lstm(words[tokens])
            last = (tokens != 0).sum(1).clamp(min=1) - 1
            vectors.append(states[torch.arange(len(tokens), device=device), last])
        joined = torch.cat(vectors)
        joined = joined[texts["rows"]] if "rows" in texts else joined
        return torch.nn.functional.normalize(joined.float(), dim=1)

    def step(read: Iterator[Any]) -> Any:
        inputs, labels, weights = tf.nest.map_structure(moved, next(read))
        with torch.autocast(device, torch.bfloat16, enabled=half):
            vectors = encode(inputs["texts"])
        queries, titles = vectors[: len(weights)], vectors[len(weights) :]
        cosines = (queries @ titles.T).gather(1, inputs["candidates"].long())
        scores = (gamma * cosines - labels["correction"]).masked_fill(~labels["mask"], -1e9)
        each = torch.logsumexp(scores, 1) - scores[:, 0]
        loss = (weights * each).sum() / weights.sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.detach()

    return step


def pairs_a_second(step: Step, batches: Batches) -> float:
    """Of the fastest turn; a loss that is no number ends it."""
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


def measured(name: str, data: Preprocessed, devices: Devices, wanted: list[str]) -> float:
    """Pairs a second of a configuration, or of `torch`, in steps of one size and precision."""
    path = find_config("lstm" if name in ("torch", "reading") else name)
    config, data = resolve_config(load_config(path, wanted), data)
    batches = batches_of(config, data, fixed_shapes=devices.use_xla(config.training.xla))
    if name == "reading":
        step = _read
    else:
        step = torch_step(config, data) if name == "torch" else our_step(config, data, devices)
    return pairs_a_second(step, batches)


def _read(read: Iterator[Any]) -> Any:
    """Takes a batch and learns nothing from it: what no model can be faster than."""
    return next(read)[-1][0]


def main(
    *,
    rows: int = 200_000,
    batch_size: Annotated[tuple[int, ...], Several] = (512, 4096),
    precision: Annotated[tuple[str, ...], Several] = PRECISIONS,
    systems: Annotated[tuple[str, ...], Several] = SYSTEMS,
    set: Annotated[tuple[str, ...], Several] = (),
) -> None:
    """Prints a table in Markdown, a row a system."""
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # torch needs some of it
    reuse_memory()
    write, devices = sys.stdout.write, Devices(tf.distribute.get_strategy())  # one of them
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
                speed = measured(name, Preprocessed(directory), devices, [*sizes, *set])
                write(f"| {speed:,.0f} ")
                sys.stdout.flush()
            write("|\n")


if __name__ == "__main__":
    sys.exit(run("training", main, None))
