"""Training pairs a second of every click model on Keras's JAX backend, against PyTorch's LSTM.

    python -m tests.benchmarks.backends                          # batches 1024 and 8192, J = 4
    python -m tests.benchmarks.backends --batches 256 --seconds 2

needs JAX and, for the rival, PyTorch, both built for the accelerator where there is one;
TensorFlow is not used. Adam, XLA on, float32 and bfloat16. The rival is EmbeddingBag(128) +
LSTM(96), cuDNN's on a GPU. Both train on the same synthetic batches: 30,000 trigrams, words by
Zipf's law, queries of up to 6 words, titles of 3 to 12, all titles of a batch drawn apart.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from tests.labels import all_count

CELLS = 96
TOWER_OPTIONS: dict[str, dict[str, object]] = {
    "dssm": {"widths": (300, 300, 128)},
    "clsm": {"window": 3, "features": 300, "widths": (128,)},
    "rnn": {"hidden": 288},
    "lstm": {"cells": CELLS},
    "bilstm": {"cells": CELLS},
}


VOCABULARY, WORDS, NEGATIVES = 30_000, 50_000, 4
LONGEST_WORD = 12


@dataclass
class Batch:
    """Texts of words, each word some trigrams: a few words very often, most seldom.

    Args:
        tokens: `(texts, words)`, ids of words from 1, 0 = padding.
        ngrams: `(words + 1, trigrams)`, row 0 empty.
    """

    tokens: np.ndarray
    ngrams: np.ndarray

    @classmethod
    def draw(cls, texts: int, longest: int, shortest: int, seed: int) -> Batch:
        """Words by Zipf's law with exponent 1.2; 3 to 12 trigrams a word."""
        rng = np.random.default_rng(seed)
        lengths = rng.integers(shortest, longest + 1, texts)
        words = 1 + (np.minimum(rng.zipf(1.2, (texts, longest)), WORDS) * 7919) % WORDS
        tokens = np.where(np.arange(longest) < lengths[:, None], words, 0)
        sizes = rng.integers(3, LONGEST_WORD + 1, WORDS + 1)
        ngrams = rng.integers(1, VOCABULARY + 1, (WORDS + 1, LONGEST_WORD))
        ngrams[np.arange(LONGEST_WORD) >= sizes[:, None]] = 0
        ngrams[0] = 0
        return cls(tokens, ngrams)

    def arrays(self) -> dict[str, np.ndarray]:
        """A text batch: distinct words only, in one part."""
        distinct, tokens = np.unique(np.append(0, self.tokens), return_inverse=True)
        return {
            "word_ngrams": self.ngrams[distinct].astype(np.int32),
            "tokens": tokens[1:].reshape(self.tokens.shape).astype(np.int32),
        }

    def flat(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For an EmbeddingBag: trigrams of all words, where each word starts, words a text."""
        rows = self.ngrams[self.tokens.reshape(-1)]
        sizes = (rows > 0).sum(1)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return rows[rows > 0], starts, (self.tokens > 0).sum(1)


def draw(size: int) -> tuple[Batch, Batch]:
    """Queries and titles of a batch of `size` pairs."""
    titles = Batch.draw(size * (1 + NEGATIVES), longest=12, shortest=3, seed=2)
    return Batch.draw(size, longest=6, shortest=1, seed=1), titles


def median_rate(step: Callable[[], object], items: int, seconds: float) -> float:
    """Items a second of the median step, after three that compile and warm up."""
    for _ in range(3):
        step()
    times: list[float] = []
    started = perf_counter()
    while perf_counter() - started < seconds or len(times) < 5:
        before = perf_counter()
        step()
        times.append(perf_counter() - before)
    return items / float(np.median(times))


def keras_rate(tower: str, precision: str, size: int, seconds: float) -> float:
    """Pairs a second of one of our towers, two of them, not shared."""
    import jax
    import keras

    from dssm_tf.losses.ranking_loss import RankingLoss
    from dssm_tf.model.siamese import Siamese
    from dssm_tf.towers import TOWERS

    queries, titles = draw(size)
    options = TOWER_OPTIONS[tower]
    sides = [
        TOWERS[tower](VOCABULARY, name=f"{side}_tower", dtype=precision, **options)
        for side in ("query", "title")
    ]
    model = Siamese(*sides)
    model.build()
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    loss = RankingLoss("click_softmax")
    texts = len(titles.tokens)
    inputs = {
        "query": queries.arrays(),
        "titles": titles.arrays(),
        "candidates": np.arange(texts, dtype=np.int32).reshape(size, -1),
    }
    inputs = jax.tree_util.tree_map(jax.numpy.asarray, inputs)
    known = all_count(np.zeros((size, 1 + NEGATIVES)))

    def forward(trainable, fixed):
        cosines, _ = model.stateless_call(trainable, fixed, inputs, training=True)
        return loss(known, cosines)

    @jax.jit
    def update(trainable, fixed, slots):
        value, gradients = jax.value_and_grad(forward)(trainable, fixed)
        trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
        return value, trainable, slots

    state = {
        "trainable": [variable.value for variable in model.trainable_variables],
        "slots": [variable.value for variable in optimizer.variables],
    }
    fixed = [variable.value for variable in model.non_trainable_variables]

    def step() -> float:
        value, trainable, slots = update(state["trainable"], fixed, state["slots"])
        state.update(trainable=trainable, slots=slots)
        return float(value)  # waits for the device

    return median_rate(step, size, seconds)


def torch_rate(precision: str, size: int, seconds: float) -> float:
    """Pairs a second of PyTorch's EmbeddingBag + LSTM."""
    import torch
    from torch import nn

    device = "cuda" if torch.cuda.is_available() else "cpu"

    class Tower(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.EmbeddingBag(VOCABULARY + 1, 128, mode="sum")
            self.recurrence = nn.LSTM(128, CELLS, batch_first=True)

        def forward(self, flat, starts, lengths):
            texts = len(lengths)
            words = self.embedding(flat, starts).view(texts, -1, 128)
            outputs, _ = self.recurrence(words)
            last = outputs[torch.arange(texts, device=device), lengths - 1]
            return nn.functional.normalize(last.float(), dim=-1)

    def tensors(batch: Batch):
        return tuple(torch.tensor(one, device=device) for one in batch.flat())

    towers = [Tower().to(device), Tower().to(device)]
    optimizer = torch.optim.Adam([p for tower in towers for p in tower.parameters()], 1e-3)
    queries, titles = (tensors(one) for one in draw(size))

    def step() -> float:
        with torch.autocast(device, torch.bfloat16, enabled=precision == "mixed_bfloat16"):
            asked = towers[0](*queries)
            found = towers[1](*titles).view(size, 1 + NEGATIVES, CELLS)
            cosines = torch.einsum("bh,bjh->bj", asked, found)
            loss = -torch.log_softmax(10 * cosines, -1)[:, 0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return median_rate(step, size, seconds)


def device_name() -> str:
    """What JAX runs on."""
    import jax

    return str(jax.devices()[0].device_kind)


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", default="1024,8192", help="batch sizes")
    parser.add_argument("--towers", default=",".join(TOWER_OPTIONS))
    parser.add_argument("--precisions", default="float32,mixed_bfloat16")
    parser.add_argument("--seconds", type=float, default=5.0, help="a measurement")
    options = parser.parse_args(argv)
    os.environ.setdefault("KERAS_BACKEND", "jax")  # here: tests import this file, too
    sizes = [int(size) for size in options.batches.split(",")]
    precisions = options.precisions.split(",")
    columns = [(size, precision) for size in sizes for precision in precisions]
    heads = " | ".join(f"{size:,}, {precision}" for size, precision in columns)
    sys.stdout.write(f"pairs/s on {device_name()}, J = {NEGATIVES}\n\n| model | {heads} |\n")
    sys.stdout.write("|---" * (1 + len(columns)) + "|\n")
    systems: dict[str, Callable[[str, int], float]] = {
        tower: lambda precision, size, tower=tower: keras_rate(
            tower, precision, size, options.seconds
        )
        for tower in options.towers.split(",")
    }
    try:
        import torch  # noqa: F401

        systems["PyTorch EmbeddingBag + LSTM"] = lambda precision, size: torch_rate(
            precision, size, options.seconds
        )
    except ModuleNotFoundError:
        sys.stderr.write("PyTorch is not installed; no rival.\n")
    for name, measure in systems.items():
        cells = []
        for size, precision in columns:
            try:
                cells.append(f"{measure(precision, size):,.0f}")
            except RuntimeError as error:  # PyTorch has no bfloat16 LSTM on some CPUs
                sys.stderr.write(f"{name}, {size}, {precision}: {str(error).splitlines()[0]}\n")
                cells.append("failed")
        sys.stdout.write(f"| {name} | {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
