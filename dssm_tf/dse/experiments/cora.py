"""`dssm experiment cora`: DSE against SSI on papers of seven classes, as W14 does on NIPS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.resources import as_file, files
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy import sparse

from dssm_tf.common import figures
from dssm_tf.common.errors import UserError
from dssm_tf.dse.bag_of_words import BagOfWords
from dssm_tf.dse.experiments.report import experiment, markdown_table, per_cent, words_table
from dssm_tf.dse.experiments.systems import fit_system, nearest_words
from dssm_tf.dse.fine_tuning import LinkTask
from dssm_tf.dse.networks import DSETower, encode, pair_scores
from dssm_tf.dse.pretraining import pretrain
from dssm_tf.dse.relevance import same_class, split_links
from dssm_tf.dse.settings import FineTuning, Pretraining
from dssm_tf.tables.reader import read_rows

_SHARES = (0.4, 0.2, 0.1, 0.05)
_DIMENSIONS = (2, 5, 10, 20, 50)
# Units of an RBM are on or off; on vectors of length 1 SSI's I is the cosine, and it does better.
SYSTEMS = {"dse": "largest", "ssi": "length"}
ALL = "all"
LEAST = 10
"""Papers a class that the protocol needs."""


class Plan(NamedTuple):
    """How the systems are trained on so many words.

    Args:
        words: the most frequent ones; None for all.
        pretraining: of DSE.
        fitting: of each system. Of momentum and Adam, each has what suited it better in a first
            run (docs/dse.md).
    """

    words: int | None
    pretraining: Pretraining
    fitting: Mapping[str, FineTuning]


PLANS = (
    Plan(
        200,
        Pretraining(400),
        {"dse": FineTuning(600, 0.01, "adam"), "ssi": FineTuning(600, 1.0, clip_norm=None)},
    ),
    # Four layers of up to 1,433 units: as many steps would take an hour, and fewer do.
    Plan(
        None,
        Pretraining(200),
        {
            "dse": FineTuning(300, 0.01, "adam", batch_size=128),
            "ssi": FineTuning(600, 0.01, "adam"),
        },
    ),
)


class Papers(NamedTuple):
    """Papers, the class of each and the words it holds."""

    labels: tuple[str, ...]
    texts: tuple[str, ...]


def read_papers() -> Papers:
    """The bundled Cora papers."""
    with as_file(files("dssm_tf.datasets") / "cora" / "docs.tsv") as table:
        rows = [row for _, row in read_rows(table, ("label", "words"))]
    return Papers(*zip(*rows, strict=True))


def _sample_papers(papers: Papers, per_class: int, seed: int) -> Papers:
    """As many papers of every class, in the order of the classes.

    Raises:
        UserError: they are fewer than `LEAST`, or more than the smallest class has.
    """
    most = min(Counter(papers.labels).values())
    if not LEAST <= per_class <= most:
        raise UserError(
            f"--per-class is {per_class}; expected {LEAST}, so that a twentieth of the links joins "
            f"papers of several classes, to {most}, which the smallest class has."
        )
    labels = np.array(papers.labels)
    random = np.random.default_rng(seed)
    chosen: list[int] = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen += sorted(random.permutation(members)[:per_class].tolist())
    return Papers(tuple(papers.labels[i] for i in chosen), tuple(papers.texts[i] for i in chosen))


def cora(
    out: Path | str,
    *,
    per_class: int = 150,
    quick: bool = False,
    seed: int = 0,
    console: Console | None = None,
) -> dict[str, Any]:
    """Runs the experiment and writes `tables.md`, `results.json` and the figures.

    Relevance is that of W14 sec. 4.2: a paper answers another of its class. A share of the links
    is learned from, the rest is measured; a title is irrelevant if of another class.

    Args:
        out: directory to write, new.
        per_class: papers a class. The paper has 50 of nine classes, of whole NIPS articles;
            Cora's papers hold ten of the 200 words only.
        quick: two shares and two dimensions, on the most frequent words only.
        seed: of everything random.
        console: where to print; None is silent.

    Returns:
        What `results.json` holds.

    Raises:
        UserError: `out` exists, or `per_class` is not from `LEAST` to the size of a class.
    """
    papers = _sample_papers(read_papers(), per_class, seed)
    relevant = same_class(papers.labels)
    # As in the paper, irrelevant is what is of another class, not what no learned link joins.
    known = relevant + sparse.identity(len(papers.labels), dtype=bool).tocsr()
    shares = (0.4, 0.05) if quick else _SHARES
    dimensions = (2, 10) if quick else _DIMENSIONS
    plans = PLANS[:1] if quick else PLANS
    losses: dict[str, Any] = {}
    embeddings: dict[str, NDArray[np.float32]] = {}
    with experiment(out, console, len(plans) * len(SYSTEMS) * len(shares) * len(dimensions)) as run:
        for plan in plans:
            name = str(plan.words or ALL)
            bags = {}
            for system, normalization in SYSTEMS.items():
                bag = BagOfWords(plan.words, weighting="binary", normalization=normalization)
                bags[system] = bag.fit(papers.texts).transform(papers.texts)
            losses[name] = {system: {f"{share:g}": {} for share in shares} for system in SYSTEMS}
            lower: DSETower | None = None
            for dimension in dimensions:
                told = run.told(f"dse, {name} words, C = {dimension}")
                tower = DSETower(len(bag.words), dimension, seed=seed)
                pretrain(tower, bags["dse"], plan.pretraining, seed=seed, lower=lower, told=told)
                lower = lower or tower
                for share, system in product(shares, SYSTEMS):
                    learned, measured = split_links(relevant, share, seed)
                    task = LinkTask(bags[system], bags[system], learned, known)
                    told = run.told(f"{system}, {name} words, C = {dimension}, {share:.0%}")
                    model = fit_system(
                        system, task, dimension, plan.fitting[system],
                        tower=tower, seed=seed, told=told,
                    )  # fmt: skip
                    run.fitted()
                    loss = task.loss(pair_scores(model, task.queries, task.titles), measured)
                    losses[name][system][f"{share:g}"][str(dimension)] = loss
                    if plan.words and share == max(shares) and dimension == 2:
                        # SSI's words follow its embedding.
                        vectors = encode(model.title_vectors, bags[system])[:, :2]
                        np.save(run.directory / f"embedding_{system}.npy", vectors)
                        embeddings[system.upper()] = vectors
            if plan.words and lower:
                neighbours = nearest_words(lower, bag.words)
                figures.rank_loss_by_share(losses[name], run.directory / "table1_rank_loss.png")
        figures.embeddings(
            embeddings, papers.labels, run.directory / "figure1_embedding.png", legend="class"
        )
        results = {
            "papers": len(papers.labels),
            "per_class": per_class,
            "quick": quick,
            "seed": seed,
            "rank_loss": losses,
            "nearest_neighbour_of_the_same_class": {
                name: class_purity(vectors, papers.labels) for name, vectors in embeddings.items()
            },
            "nearest_words": neighbours,
        }
        preface = (
            f"Cora, {per_class} papers of each of 7 classes, rank loss in per cent on the links "
            "that were not learned from,"
        )
        tables = [
            _table1(words, system, shares)
            for words, systems in losses.items()
            for system, shares in systems.items()
        ]
        run.finish(results, [*tables, words_table(neighbours)], preface)
    return run.results


def _table1(words: str, system: str, shares: Mapping[str, Mapping[str, float]]) -> str:
    dimensions = next(iter(shares.values()))
    return markdown_table(
        f"Table 1: rank loss (%), {system.upper()}, {words} words",
        (system.upper(), *(f"C={dimension}" for dimension in dimensions)),
        (
            (f"{float(share):.0%} train", *map(per_cent, row.values()))
            for share, row in shares.items()
        ),
    )


def class_purity(vectors: NDArray[np.floating[Any]], labels: tuple[str, ...]) -> float:
    """Share of points whose nearest other point is of the same class: how clear a figure is."""
    distances = ((vectors[:, None] - vectors[None]) ** 2).sum(axis=2)
    distances[np.diag_indices(len(distances))] = np.inf
    names = np.array(labels)
    return float((names[distances.argmin(axis=1)] == names).mean())
