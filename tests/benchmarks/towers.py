"""Speed of hashing, training and encoding, each as a ratio to a named rival in the same run.

`python -m tests.benchmarks.towers` prints a table; needs PyTorch for the training rival
(`pip install torch`). Batches are synthetic, of Zipf-distributed words as in a real log.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from dssm_tf.data.shapes import TextShape, plan_shapes
from dssm_tf.data.texts import text_batch
from dssm_tf.layers import WordHashing
from dssm_tf.losses.ranking_loss import RankingLoss
from dssm_tf.model.siamese import Siamese
from dssm_tf.model.text_features import TextFeatures
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers import TOWERS
from dssm_tf.training.devices import reuse_memory
from tests.benchmarks.batches import NEGATIVES, VOCABULARY, Batch
from tests.labels import all_count

CELLS, BATCH = 96, 1024
QUERY_WORDS, TITLE_WORDS = 6, 12


def in_parts(batch: Batch, shape: TextShape, texts: int = 0) -> dict[str, Any]:
    """A text batch as training sees it: distinct words only, texts of like length together.

    Args:
        batch: the texts.
        shape: its parts.
        texts: number of texts to pad to; as many as there are if not given.
    """
    words = tf.RaggedTensor.from_tensor(batch.tokens, padding=0)
    ngrams = tf.RaggedTensor.from_tensor(batch.ngrams, padding=0)
    return text_batch(words, ngrams, shape, tf.constant(texts or len(batch.tokens)))


def rate(step: Callable[[], object], items: int, seconds: float = 6.0) -> float:
    """Items a second of the median step, after one that warms up."""
    step()
    times: list[float] = []
    started = perf_counter()
    while perf_counter() - started < seconds or len(times) < 3:
        before = perf_counter()
        step()
        times.append(perf_counter() - before)
    return items / float(np.median(times))


def hashing_rates(units: int = 4 * CELLS) -> dict[str, float]:
    """Texts a second through the first matrix, forward and backward, XLA on."""
    batch = Batch.draw(BATCH, TITLE_WORDS, 3, seed=1)
    layer = WordHashing(VOCABULARY, units)
    layer.build()
    once = batch.arrays()
    every = tf.constant(batch.ngrams[batch.tokens.reshape(-1)], tf.int32)
    shape = (*batch.tokens.shape, units)

    def trained(forward: Callable[[], object]) -> Callable[[], object]:
        @tf.function(jit_compile=True)
        def step():
            with tf.GradientTape() as tape:
                loss = ops.sum(ops.square(forward()))
            return tf.convert_to_tensor(tape.gradient(loss, layer.kernel.value))

        return lambda: step().numpy()

    return {
        "once per distinct word": rate(
            trained(lambda: layer(once["word_ngrams"], once["tokens"])), BATCH
        ),
        "every occurrence": rate(trained(lambda: ops.reshape(layer(every), shape)), BATCH),
    }


def training_rates(tower: str = "lstm", pool: int = 0) -> dict[str, float]:
    """Training pairs a second: ours, and PyTorch's EmbeddingBag + LSTM, on the same batches.

    Args:
        tower: ours.
        pool: titles are drawn from this many by Zipf's law, as clicks and popular negatives
            are; 0 makes every title of the batch another one, the worst case for us.
    """
    query = Batch.draw(BATCH, QUERY_WORDS, 1, seed=1)
    titles = Batch.draw(pool or BATCH * (1 + NEGATIVES), TITLE_WORDS, 3, seed=2)
    if pool:
        ranks = np.random.default_rng(3).zipf(1.2, BATCH * (1 + NEGATIVES))
        titles = Batch(titles.tokens[(ranks - 1) % pool], titles.ngrams)
    found = {f"dssm-tf {tower}": _keras_rate(tower, query, titles)}
    try:
        found["PyTorch EmbeddingBag + LSTM"] = _torch_rate(query, titles)
    except ModuleNotFoundError:
        sys.stderr.write("PyTorch is not installed; no rival.\n")
    return found


def _keras_rate(tower: str, query: Batch, titles: Batch) -> float:
    options = {"cells": CELLS} if tower == "lstm" else {}
    sides = [TOWERS[tower](VOCABULARY, name=f"{s}_tower", **options) for s in ("query", "title")]
    model = Siamese(*sides)
    model.build()
    model.compile(optimizer="adam", loss=RankingLoss("click_softmax"), jit_compile=True)
    distinct, index = np.unique(titles.tokens, axis=0, return_inverse=True)
    candidates = index.reshape(BATCH, -1).astype(np.int32)
    titles = Batch(distinct, titles.ngrams)
    plain = {"query": query.arrays(), "titles": titles.arrays()}
    shapes = plan_shapes([plain], fixed=True)
    inputs = {
        "query": in_parts(query, shapes.of("query")),
        "titles": in_parts(titles, shapes.of("titles"), shapes.distinct_titles),
        "candidates": tf.constant(candidates),
    }
    element = (inputs, all_count(candidates), tf.ones([BATCH]))
    iterator = iter(tf.data.Dataset.from_tensors(element).repeat())
    model.make_train_function()
    return rate(lambda: float(model.train_function(iterator)["loss"]), BATCH, 12.0)


def _torch_rate(query: Batch, titles: Batch) -> float:
    import torch
    from torch import nn

    torch.set_num_threads(2)

    class Tower(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.EmbeddingBag(VOCABULARY + 1, 128, mode="sum")
            self.recurrence = nn.LSTM(128, CELLS, batch_first=True)

        def forward(self, flat, offsets, lengths):
            texts = len(lengths)
            words = self.embedding(flat, offsets).view(texts, -1, 128)
            outputs, _ = self.recurrence(words)
            return nn.functional.normalize(outputs[torch.arange(texts), lengths - 1], dim=-1)

    def tensors(batch: Batch):
        return tuple(torch.tensor(one) for one in batch.flat())

    towers = [Tower(), Tower()]
    parameters = [p for tower in towers for p in tower.parameters()]
    optimizer = torch.optim.Adam(parameters, 1e-3)
    inputs = [tensors(query), tensors(titles)]

    def step() -> float:
        queries = towers[0](*inputs[0])
        vectors = towers[1](*inputs[1]).view(BATCH, 1 + NEGATIVES, CELLS)
        cosines = torch.einsum("bh,bjh->bj", queries, vectors)
        loss = -torch.log_softmax(10 * cosines, -1)[:, 0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return rate(step, BATCH, 12.0)


def encoding_rates(tower: str) -> dict[str, float]:
    """Raw strings to vectors a second, in batches of 1, 64 and 1024."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(5_000)]
    ngrams = {f"#{w}#"[i : i + 3] for w in words for i in range(len(w))}
    vocabulary = Vocabulary(sorted(ngrams), FOLDED)
    features = TextFeatures(vocabulary)
    model = Siamese(TOWERS[tower](vocabulary.size))
    model.build()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def encode(texts):
        return model.encode_query(features(texts))

    found = {}
    for size in (1, 64, 1024):
        picks = np.minimum(rng.zipf(1.2, (size, 8)), len(words)) - 1
        texts = tf.constant([" ".join(words[i] for i in row) for row in picks])
        found[f"{tower}, batches of {size}"] = rate(lambda t=texts: encode(t).numpy(), size, 3.0)
    return found


def show(title: str, rates: dict[str, float], unit: str) -> None:
    """One block of the report; ratios to the last line."""
    sys.stdout.write(f"{title}\n")
    rival = list(rates.values())[-1]
    for name, value in rates.items():
        sys.stdout.write(f"  {name:<32} {value:>10,.0f} {unit}/s  x {value / rival:.2f}\n")
    sys.stdout.flush()


def main() -> None:
    """Runs all of it; about two minutes."""
    reuse_memory()
    keras.utils.set_random_seed(0)
    show("word hashing, forward and backward, 4 x 96 units", hashing_rates(), "texts")
    settings = f"{CELLS} cells, J = {NEGATIVES}, batch {BATCH}"
    show(f"training, {settings}, all titles differ", training_rates(), "pairs")
    show(f"training, {settings}, 20,000 titles by Zipf", training_rates(pool=20_000), "pairs")
    for tower in ("dssm", "lstm"):
        show(f"raw strings to vectors, {tower}", encoding_rates(tower), "texts")


if __name__ == "__main__":
    main()
