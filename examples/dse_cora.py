"""Repeats table 1 and figure 1 of Wu et al. 2014 (DSE) on papers of Cora's seven classes.

    python -m examples.dse_cora --out CORA

Papers of the same class are relevant to each other, papers of different classes are not. As in the
paper (sec. 4.2), the systems are trained on a fraction of the links. Writes `tables.md`,
`results.json` and the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf import UserError
from dssm_tf.dse.networks import encode
from dssm_tf.dse.rank_loss import rank_loss
from dssm_tf.dse.settings import FineTuning, Pretraining
from examples.dse_protocol import (
    Features,
    Links,
    Matrix,
    Protocol,
    arguments,
    draw_lines,
    nearest_words,
    read_tsv,
    split_links,
    write,
)

FRACTIONS, DIMENSIONS = (0.4, 0.2, 0.1, 0.05), (2, 5, 10, 20, 50)
# RBMs need binary units. SSI is better on vectors of length 1, where its first matrix, the
# identity, gives the cosine.
NORMALIZATIONS = {"dse": "largest", "ssi": "length"}
MIN_PAPERS = 10
"""Per class. With fewer, 5 % of the links may be of one class only."""


class Plan(NamedTuple):
    """Training settings for a number of words (None for all); docs/dse.md has the reasons."""

    words: int | None
    pretraining: Pretraining
    fitting: Mapping[str, FineTuning]


PLANS = (
    Plan(
        200,
        Pretraining(400),
        {"dse": FineTuning(600, 0.01, "adam"), "ssi": FineTuning(600, 1.0, clip_norm=None)},
    ),
    # Fewer steps: with four layers of up to 1,433 units, as many would take an hour.
    Plan(
        None,
        Pretraining(200),
        {
            "dse": FineTuning(300, 0.01, "adam", batch_size=128),
            "ssi": FineTuning(600, 0.01, "adam"),
        },
    ),
)


def cora(out: Path, per_class: int = 150, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """Rank loss by fraction of links and dimension C (table 1), plane (fig. 1), nearest words.

    Figure 1 and the nearest words (table 2) are of the systems that table 1 lists first: trained on
    40 % of the links, with the most frequent words and C = 2.

    Args:
        out: directory to write into.
        per_class: papers per class.
        quick: two fractions and two dimensions, of the most frequent words only.
        seed: random seed.
    """
    labels, texts = sample_papers(per_class, seed)
    relevant = same_class(labels)
    known = relevant + sparse.identity(len(labels), dtype=bool).tocsr()
    fractions, dimensions = (
        (FRACTIONS[::3], DIMENSIONS[::2][:2]) if quick else (FRACTIONS, DIMENSIONS)
    )
    protocol = Protocol(texts, seed)
    losses: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    planes, nearest = {}, dict[str, list[str]]()
    for plan in PLANS[: 1 if quick else None]:
        name = str(plan.words or "all")
        table = losses[name] = {system: {} for system in NORMALIZATIONS}
        for dimension, fraction, system in product(dimensions, fractions, NORMALIZATIONS):
            train, test = split_links(relevant, fraction, seed)
            features = Features(plan.words, "binary", NORMALIZATIONS[system])
            fitted = protocol.fit(
                system, features, dimension, Links(train, test, known, known),
                plan.pretraining, plan.fitting[system],
            )  # fmt: skip
            # Known pairs that are no test links are not ranked.
            loss = rank_loss(fitted.scores(), test, known > test)
            table[system].setdefault(f"{fraction:.0%}", {})[f"C={dimension}"] = loss
            print(
                f"{system}, {name} words, C={dimension}, {fraction:.0%}: {loss:.2f} %", flush=True
            )
            if plan is PLANS[0] and (dimension, fraction) == (dimensions[0], fractions[0]):
                if system == "dse":
                    nearest = nearest_words(fitted.words, fitted.model.query_tower)
                # For SSI, the vectors are followed by its bag of words, which is dropped.
                planes[system] = encode(fitted.model.title_vectors, fitted.bags)[:, :2]
    draw_planes(planes, labels, out / "figure1_embedding.png")
    first = losses[str(PLANS[0].words)]
    lines = {
        f"{system}, {name}": {fraction.rstrip("%"): row[name] for fraction, row in table.items()}
        for system, table in first.items()
        for name in next(iter(table.values()))
    }
    draw_lines(lines, out / "table1_rank_loss.png", "training links (%)")
    tables = {
        f"Table 1: rank loss (%), {system.upper()}, {name} words": (system.upper(), rows)
        for name, systems in losses.items()
        for system, rows in systems.items()
    }
    return {
        "summary": f"Cora, {per_class} papers of each of 7 classes",
        "rank_loss": losses,
        "tables": tables,
        "nearest_words": nearest,
    }


def sample_papers(per_class: int, seed: int) -> tuple[list[str], list[str]]:
    """Labels and texts of equally many bundled papers per class.

    Raises:
        UserError: a class has fewer papers, or the number is below `MIN_PAPERS`.
    """
    path = files("dssm_tf.datasets") / "cora" / "docs.tsv"
    rows = [(row["label"], row["words"]) for row in read_tsv(path, "label", "words")]
    labels = np.array([label for label, _ in rows])
    smallest_class = int(np.unique(labels, return_counts=True)[1].min())
    if not MIN_PAPERS <= per_class <= smallest_class:
        raise UserError(f"--per-class is {per_class}; expected {MIN_PAPERS} to {smallest_class}.")
    random = np.random.default_rng(seed)
    chosen = [
        rows[row]
        for label in np.unique(labels)
        for row in sorted(random.permutation(np.flatnonzero(labels == label))[:per_class])
    ]
    return [label for label, _ in chosen], [text for _, text in chosen]


def same_class(labels: Sequence[str]) -> Matrix:
    """Whether two papers have the same class: bool `(papers, papers)`, False on the diagonal."""
    names = np.asarray(labels)
    return Matrix((names[:, None] == names) & ~np.eye(len(names), dtype=bool))


def draw_planes(planes: Mapping[str, NDArray[Any]], labels: Sequence[str], path: Path) -> None:
    """Draws two-dimensional embeddings side by side, colored by class."""
    figure, axes = plt.subplots(1, len(planes), figsize=(10, 4.6), layout="constrained")
    names = np.array(labels)
    for axis, (system, points) in zip(axes, planes.items(), strict=True):
        for index, label in enumerate(sorted(set(labels))):
            chosen = points[names == label]
            axis.scatter(*chosen.T, s=9, alpha=0.6, color=f"C{index}", label=label)
            axis.annotate(
                label, np.median(chosen, axis=0), ha="center", va="center", weight="bold",
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": f"C{index}", "alpha": 0.8},
            )  # fmt: skip
        axis.set(title=system.upper(), xlabel="dimension 1", ylabel="dimension 2")
    axes[-1].legend(title="class", fontsize=8, markerscale=1.5)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the experiment."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--per-class", type=int, default=150, help="papers per class")
    write(cora, **vars(parser.parse_args(argv)))


if __name__ == "__main__":
    main()
