"""Training speed of all models for clicks, by precision, beside the same models in PyTorch.

    pip install torch
    python -m tests.benchmarks.training --rows 200000 --batch-size 1024 8192

prints two tables. The first has pairs per second, of reading and training together. The second has
the milliseconds of the parts of a step on one batch in memory: `forward` computes the loss,
`backward` also its gradients, and `update` also the optimizer's step, without the time of the parts
before. `reading` only makes the batches.

`maxsim` is trained in float32 only. The log is that of `tests.benchmarks.scale`. The shipped
configurations train as in `dssm train`, with XLA on a GPU. A row `NAME, torch` has the same batches
from the same reader, the same initial weights, scores and loss, and fused Adam without moving
averages (`tests.benchmarks.torch_models`). `lstm, cuDNN` is `lstm` with `torch.nn.LSTM`. Without
torch these rows are left out. The device is a GPU if there is one. Times are wall-clock seconds;
the fastest of `--turns` rounds of `--steps` steps counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import tensorflow as tf
from cyclopts import Parameter

from dssm_tf.common.command_line import run
from dssm_tf.config import Config, find_config, load_config
from dssm_tf.data.batches import Batches
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.build import build_model
from dssm_tf.model.siamese import Siamese
from dssm_tf.text.rules import NGRAM_KINDS
from dssm_tf.training.build import build_loss
from dssm_tf.training.devices import Devices
from dssm_tf.training.loop import build_optimizer
from dssm_tf.training.resolve import resolve_config
from tests.benchmarks.scale import measure, write_log
from tests.training.configuration import batches_of

MODELS = ("dssm", "clsm", "rnn", "lstm", "lstm_plain", "bilstm", "maxsim")
PRECISIONS = ("float32", "mixed_bfloat16")
PARTS = ("forward", "backward", "update")
NO_TORCH = "PyTorch is not installed, so its rows are left out; `pip install torch` adds them."
MULTIPLE = Parameter(consume_multiple=True)
Step = Callable[[Iterator[Any]], Any]


class System(NamedTuple):
    """A model to measure.

    Attributes:
        step: trains on the next batch of an iterator, and returns the loss.
        parts: for each of `PARTS`, a function of a batch that runs it and all parts before.
        convert: from a batch of the reader to the argument of `parts`.
        wait: waits until the device has finished, given a result.
    """

    step: Step
    parts: dict[str, Callable[[Any], Any]]
    convert: Callable[[Any], Any]
    wait: Callable[[Any], Any]


class Rounds(NamedTuple):
    """How often a step is measured: `warm_up` steps first, then `turns` rounds of `steps`."""

    warm_up: int
    turns: int
    steps: int


def keras_system(config: Config, data: Preprocessed, devices: Devices) -> System:
    """The model and the step of `dssm train`."""
    xla = devices.use_xla(config.training.xla)
    with devices.strategy.scope():
        model = new_model(config, data)
        optimizer = build_optimizer(config.optimizer, 1, config.training.averaging, devices)
        model.compile(optimizer=optimizer, loss=build_loss(config.loss, config.lists))
        model.optimizer.build(model.trainable_variables)
        step = devices.distribute(model.train_step, xla)

    def loss_of(batch: Any) -> Any:
        inputs, labels, weights = batch
        scores = model(inputs, training=True)
        return model.compute_loss(inputs, labels, scores, weights)

    def backward(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(batch)
        return loss, tape.gradient(loss, model.trainable_weights)

    def compiled(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return tf.function(function, reduce_retracing=True, autograph=False, jit_compile=xla)

    functions = loss_of, backward, lambda batch: model.train_step(batch)["loss"]
    parts = dict(zip(PARTS, map(compiled, functions), strict=True))

    def wait(result: Any) -> Any:
        return tf.nest.flatten(result)[0].numpy()

    return System(step, parts, lambda batch: batch, wait)


def new_model(config: Config, data: Preprocessed) -> Siamese:
    """The model of a configuration with its initial weights."""
    return build_model(config, data.vocabulary.size, config.training.precision)


def torch_system(config: Config, data: Preprocessed, cudnn: bool = False) -> System:
    """The same model and step in PyTorch, in its default eager mode."""
    import torch

    from tests.benchmarks.torch_models import CudnnLSTM, TorchModel, click_softmax

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = (CudnnLSTM if cudnn else TorchModel)(new_model(config, data), config).to(device)
    used = [weight for weight in model.parameters() if weight.requires_grad]
    adam = torch.optim.Adam(used, config.optimizer.learning_rate, fused=True)
    bfloat16 = config.training.precision == "mixed_bfloat16"

    def to_torch(value: tf.Tensor) -> Any:
        return torch.from_numpy(value.numpy()).to(device, non_blocking=True)

    def convert(batch: Any) -> Any:
        return tf.nest.map_structure(to_torch, batch)

    def forward(batch: Any) -> Any:
        inputs, labels, weights = batch
        with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
            scores = model(inputs)
        return click_softmax(scores, labels, weights, config.loss.gamma)

    def backward(batch: Any) -> Any:
        adam.zero_grad()
        loss = forward(batch)
        loss.backward()
        return loss.detach()

    def update(batch: Any) -> Any:
        loss = backward(batch)
        adam.step()
        return loss

    def wait(loss: Any) -> Any:
        return float(loss.detach())

    parts = dict(zip(PARTS, (forward, backward, update), strict=True))
    return System(lambda batches: update(convert(next(batches))), parts, convert, wait)


def pairs_per_second(
    step: Step, batches: Batches, rounds: Rounds, wait: Callable[[Any], Any]
) -> float:
    """Pairs per second in the fastest turn.

    Raises:
        RuntimeError: the loss is not finite.
    """
    count = rounds.warm_up + rounds.turns * rounds.steps
    read = iter(batches.epochs(0, 0, 1 + count // batches.steps))
    for _ in range(rounds.warm_up):
        wait(step(read))
    seconds = []
    for _ in range(rounds.turns):
        started = perf_counter()
        for _ in range(rounds.steps):
            loss = step(read)
        if not float(wait(loss)) < float("inf"):
            raise RuntimeError(f"the loss is {float(wait(loss))}")
        seconds.append(perf_counter() - started)
    return rounds.steps * batches.rows[0].batch_size / min(seconds)


def milliseconds_of_parts(system: System, batch: Any, rounds: Rounds) -> list[float]:
    """Milliseconds of each of `PARTS` on one batch, without the parts before."""
    converted = system.convert(batch)
    totals = [0.0]
    for part in system.parts.values():
        for _ in range(min(rounds.warm_up, 3)):
            system.wait(part(converted))
        seconds = []
        for _ in range(rounds.turns):
            started = perf_counter()
            for _ in range(rounds.steps):
                result = part(converted)
            system.wait(result)
            seconds.append(perf_counter() - started)
        totals.append(1000 * min(seconds) / rounds.steps)
    return [after - before for before, after in pairwise(totals)]


def measure_system(
    name: str, data: Preprocessed, devices: Devices, overrides: list[str], rounds: Rounds
) -> tuple[float, list[float]]:
    """Pairs per second, and the milliseconds of the parts of a step; none of `reading`.

    Args:
        name: a configuration, `NAME, torch`, `lstm, cuDNN` or `reading`.
        data: the preprocessed directory.
        devices: the devices to train on.
        overrides: settings of the configuration.
        rounds: how often a step is measured.
    """
    model, _, library = name.partition(", ")
    path = find_config("lstm" if model == "reading" else model)
    config, data = resolve_config(load_config(path, overrides), data)
    batches = batches_of(config, data, fixed_shapes=devices.use_xla(config.training.xla))
    if model == "reading":
        return pairs_per_second(lambda read: next(read)[-1][0], batches, rounds, float), []
    if library:
        system = torch_system(config, data, cudnn=library == "cuDNN")
    else:
        system = keras_system(config, data, devices)
    speed = pairs_per_second(system.step, batches, rounds, system.wait)
    batch = next(iter(batches.epochs(0, 0, 1)))
    return speed, milliseconds_of_parts(system, batch, rounds)


def has_torch() -> bool:
    """Whether torch can be imported."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def rows_of(models: tuple[str, ...], torch: bool) -> list[str]:
    """The rows of the table: each model, with torch also in PyTorch; and reading."""
    rows = ["reading"]
    for name in models:
        rows += [name, f"{name}, torch"] if torch else [name]
        if name == "lstm" and torch:
            rows.append("lstm, cuDNN")
    return rows


def device_name() -> str:
    """The GPU of TensorFlow, or the number of logical CPUs."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return f"no GPU, {os.cpu_count()} logical CPUs"
    return str(tf.config.experimental.get_device_details(gpus[0]).get("device_name", gpus[0].name))


def main(
    *,
    rows: int = 200_000,
    batch_size: Annotated[tuple[int, ...], MULTIPLE] = (1024, 8192),
    precision: Annotated[tuple[str, ...], MULTIPLE] = PRECISIONS,
    models: Annotated[tuple[str, ...], MULTIPLE] = MODELS,
    set: Annotated[tuple[str, ...], MULTIPLE] = (),
    warm_up: int = 20,
    turns: int = 3,
    steps: int = 100,
) -> None:
    """Prints both tables in Markdown."""
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # torch needs some of it
    write, devices = sys.stdout.write, Devices(tf.distribute.get_strategy())  # a single device
    rounds, torch = Rounds(warm_up, turns, steps), has_torch()
    columns = list(product(batch_size, precision))
    write(f"{device_name()}.{'' if torch else f' {NO_TORCH}'}\n\n")
    write(" | ".join(["| pairs/s", *(f"{size:,}, {kind}" for size, kind in columns)]))
    write(f" |\n|{'---|' * (len(columns) + 1)}\n")
    times = []
    with TemporaryDirectory() as folder:
        log, directory = Path(folder, "clicks.tsv"), Path(folder, "data")
        write_log(log, rows)
        measure(log, directory, "--letter-ngrams", ",".join(NGRAM_KINDS))
        for name in rows_of(models, torch):
            write(f"| {name} ")
            for size, kind in columns:
                if name.startswith("maxsim") and kind != "float32":
                    write("| float32 only ")
                    continue
                sizes = [f"training.batch_size={size}", f"training.precision={kind}"]
                data = Preprocessed(directory)
                speed, parts = measure_system(name, data, devices, [*sizes, *set], rounds)
                write(f"| {speed:,.0f} ")
                sys.stdout.flush()
                if parts:
                    cells = " | ".join(f"{part:.1f}" for part in parts)
                    whole = f"{1000 * size / speed:.1f}"
                    times.append(f"| {name} | {size:,}, {kind} | {cells} | {whole} |\n")
            write("|\n")
    write(f"\n| ms per step | batch | {' | '.join(PARTS)} | with reading |\n|{'---|' * 6}\n")
    sys.stdout.writelines(times)


if __name__ == "__main__":
    sys.exit(run("training", main, None))
