"""The common protocol, tables and figures of the DSE paper's experiments.

Texts become bags of words. DSE's RBMs are pretrained on them. A system is trained on some of the
links between texts, and its rank loss is measured on the others (Wu et al. 2014, sec. 4).
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf import UserError
from dssm_tf.dse.bag_of_words import BagOfWords
from dssm_tf.dse.fine_tuning import LinkTask, fine_tune
from dssm_tf.dse.networks import (
    BagPair,
    DSEPair,
    DSETower,
    PSIPair,
    ScoreFunction,
    SSIPair,
    encode,
    pair_scores,
)
from dssm_tf.dse.pretraining import pretrain
from dssm_tf.dse.settings import FineTuning, Pretraining
from dssm_tf.dse.tuple_batches import TupleBatch, TupleBatches

mpl.use("Agg")

Matrix: TypeAlias = sparse.csr_matrix

WIDEST = 1500
"""Maximum number of words for which DSE's hidden layers follow the paper's rule.

At 5,000 words, the rule would give 31 million weights, an hour on two cores."""


def split_links(relevant: Matrix, fraction: float, seed: int) -> tuple[Matrix, Matrix]:
    """Splits a symmetric relevance matrix in two; both directions of a pair stay together.

    With the same seed, the first part for a larger fraction contains that for a smaller one.
    """
    upper = sparse.triu(relevant, k=1).tocoo()
    order = np.random.default_rng(seed).permutation(upper.nnz)
    size = round(fraction * upper.nnz)

    def part(indices: NDArray[np.int64]) -> Matrix:
        ends = upper.row[indices], upper.col[indices]
        links = Matrix((np.ones(len(indices), dtype=bool), ends), relevant.shape)
        return (links + links.T).tocsr()

    return part(order[:size]), part(order[size:])


class Links(NamedTuple):
    """Training and test links, bool `(pages, pages)` each; see `LinkTask`."""

    train: Matrix
    test: Matrix
    known: Matrix
    ignored: Matrix
    validation: Matrix | None = None


class Features(NamedTuple):
    """The input features of a system; see `BagOfWords`."""

    words: int | None
    weighting: Any
    normalization: Any


@dataclass(frozen=True)
class Fitted:
    """A trained system, with its words and the bags of words of all pages."""

    model: BagPair
    words: Sequence[str]
    bags: Matrix

    def scores(self) -> ScoreFunction:
        """Scores of every page for every page."""
        return pair_scores(self.model, self.bags, self.bags)


class Protocol:
    """Bags of words, pretraining and training of the systems.

    Args:
        texts: texts of the pages.
        seed: random seed.
    """

    def __init__(self, texts: Sequence[str], seed: int) -> None:
        self.texts = texts
        self.seed = seed
        self._bags: dict[Features, tuple[BagOfWords, Matrix]] = {}
        self._towers: dict[Features, dict[int, DSETower]] = {}

    def bags(self, features: Features) -> tuple[BagOfWords, Matrix]:
        """The bag-of-words model, and the vectors of all texts."""
        if features not in self._bags:
            words, weighting, normalization = features
            bag = BagOfWords(words, weighting=weighting, normalization=normalization)
            self._bags[features] = bag, bag.fit(self.texts).transform(self.texts)
        return self._bags[features]

    def tower(self, features: Features, dimension: int, pretraining: Pretraining) -> DSETower:
        """A pretrained tower; the binary RBMs do not depend on C and are pretrained once."""
        towers = self._towers.setdefault(features, {})
        if dimension not in towers:
            bag, bags = self.bags(features)
            words = min(len(bag.words), WIDEST)
            widths = (max(1, words // 2), max(1, words // 2), words)
            tower = DSETower(len(bag.words), dimension, widths, seed=self.seed)
            lower = next(iter(towers.values())).rbms[:-1] if towers else []
            for rbm, pretrained in zip(tower.rbms, lower, strict=False):
                rbm.set_weights(pretrained.get_weights())
            pretrain(tower, bags, pretraining, seed=self.seed, first=len(lower))
            towers[dimension] = tower
        return towers[dimension]

    def fit(
        self,
        system: str,
        features: Features,
        dimension: int,
        links: Links,
        pretraining: Pretraining,
        fitting: FineTuning,
        tuples: int | None = None,
    ) -> Fitted:
        """Trains `dse`, `ssi` or `psi` on the training links, or on a fixed number of tuples.

        Raises:
            UserError: the training diverges.
        """
        bag, bags = self.bags(features)
        model: BagPair
        if system == "dse":
            tower = self.tower(features, dimension, pretraining)
            widths = [rbm.units for rbm in tower.rbms[:-1]]
            model = DSEPair(len(bag.words), dimension, widths=widths, seed=self.seed)
            model.query_tower.set_weights(tower.get_weights())
        else:
            pair = {"ssi": SSIPair, "psi": PSIPair}[system]
            model = pair(len(bag.words), dimension, seed=self.seed)
        task = LinkTask(bags, bags, links.train, links.known, links.ignored, links.validation)
        batches: Any = task.batches(fitting.batch_size, self.seed)
        if tuples is not None:
            batches = FixedTuples(tuples, batches)
        fine_tune(model, task, fitting, batches=batches)
        return Fitted(model, bag.words, bags)


class FixedTuples:
    """A fixed training set of tuples that is repeated (fig. 2).

    Every round has the same blocks of links with the same tuples, in another order.

    Args:
        tuples: approximate number of tuples.
        batches: batches of the links from which the tuples are taken.
    """

    def __init__(self, tuples: int, batches: TupleBatches) -> None:
        self._tuples = tuples
        self._batches = batches

    def __iter__(self) -> Iterator[TupleBatch]:
        random = np.random.default_rng(self._batches.seed)
        size = self._batches.batch_size
        order = random.permutation(len(self._batches.links))[: self._tuples]
        blocks = [order[start : start + size] for start in range(0, len(order), size)]
        seeds = random.integers(2**31, size=len(blocks))
        while True:
            for number in random.permutation(len(blocks)):
                batch = self._batches.batch(blocks[number])
                per_link = self._tuples / len(order)
                mask = self._drop_tuples(batch.is_irrelevant, per_link, seeds[number])
                if mask.any():
                    yield batch._replace(is_irrelevant=mask)

    def _drop_tuples(
        self, mask: NDArray[np.float32], per_link: float, seed: int
    ) -> NDArray[np.float32]:
        """Keeps `per_link` random tuples per row on average, or all if a row has fewer."""
        random = np.random.default_rng(seed)
        keep = int(per_link) + (random.random(len(mask)) < per_link - int(per_link))
        priority = np.where(mask > 0, random.random(mask.shape), 2.0)
        rank = np.argsort(np.argsort(priority, axis=1), axis=1)
        return mask * (rank < keep[:, None])


def nearest_words(words: Sequence[str], tower: DSETower) -> dict[str, list[str]]:
    """The five nearest words in the first layer, for about 40 words of all frequencies (table 2).

    Similarity is the correlation of the activities, which ignores what all words have in common.
    """
    single_words = sparse.identity(len(words), dtype=np.float32).tocsr()
    correlation = np.asarray(np.corrcoef(encode(tower.rbms[0], single_words).astype(np.float64)))
    correlation[np.diag_indices(len(words))] = -np.inf
    order = np.argsort(-correlation, axis=1, kind="stable")[:, : min(5, len(words) - 1)]
    selected = range(0, len(words), max(1, len(words) // 40))
    return {words[row]: [words[near] for near in order[row]] for row in selected}


def read_tsv(path: Any, *columns: str) -> Iterator[dict[str, str]]:
    """Yields the rows of a table.

    Raises:
        UserError: the table lacks a column.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        if missing := [name for name in columns if name not in (rows.fieldnames or ())]:
            raise UserError(f"{path} has no column {missing[0]!r}; it has {rows.fieldnames}.")
        yield from rows


def table(title: str, head: str, rows: Mapping[str, Mapping[str, float | None]]) -> str:
    """A Markdown table of rank losses."""
    columns = [f"{int(name):,}" if name.isdecimal() else name for name in next(iter(rows.values()))]
    lines = [[head, *columns], ["---"] * (1 + len(columns))]
    for name, row in rows.items():
        lines.append([name, *("-" if loss is None else f"{loss:.2f}" for loss in row.values())])
    return "\n".join([f"**{title}**", "", *(f"| {' | '.join(line)} |" for line in lines), ""])


def draw_lines(losses: Mapping[str, Mapping[str, float]], path: Path, label: str) -> None:
    """Draws rank loss against a number, one line per system."""
    figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for index, (name, row) in enumerate(losses.items()):
        axis.plot([*map(float, row)], [*row.values()], marker="os^Dv"[index % 5], label=name)
    axis.set_xscale("log")
    numbers = [float(number) for number in next(iter(losses.values()))]
    axis.set_xticks(numbers, [f"{number:,.0f}" for number in numbers], rotation=20)
    axis.minorticks_off()
    axis.set(xlabel=label, ylabel="rank loss (%)", ylim=(0, None))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def write(run: Callable[..., dict[str, Any]], out: Path, **options: Any) -> None:
    """Runs an experiment and writes `results.json` and `tables.md` into a new directory."""
    out.mkdir(parents=True)
    started = monotonic()
    try:
        results = run(out=out, **options)
    except UserError as error:
        sys.exit(str(error))
    seconds = monotonic() - started
    tables = [table(title, *rows) for title, rows in results.pop("tables").items()]
    words = [f"| {word} | {' '.join(near)} |" for word, near in results["nearest_words"].items()]
    head = "**Table 2: nearest words in DSE's first layer**\n\n| word | 5 nearest |\n|---|---|"
    summary = f"{results['summary']}; {seconds:.0f} s\n"
    (out / "tables.md").write_text("\n".join([summary, *tables, head, *words, ""]), "utf-8")
    (out / "results.json").write_text(
        json.dumps({**results, "seconds": seconds}, indent=1), "utf-8"
    )


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the flags of every experiment."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")
    parser.add_argument("--quick", action="store_true", help="a small part of the experiment")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    return parser
