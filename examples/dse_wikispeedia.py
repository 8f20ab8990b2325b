"""Repeats table 3 and figure 2 of Wu et al. 2014 (DSE) on the links of Wikipedia's articles.

    python -m examples.dse_wikispeedia --docs DOCS.tsv --links LINKS.tsv --out WIKISPEEDIA

Two articles are relevant to each other if one links to the other. 70 % of the links are for
training, 5 % of these for validation; 30 % are for the test (sec. 4.3). In training, an article is
irrelevant if no training link joins it; in the test, if no link does. Each system's features and
optimizer are chosen by validation with the fewest words. Writes `tables.md`, `results.json` and the
figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dssm_tf import UserError
from dssm_tf.dse.networks import ScoreFunction
from dssm_tf.dse.rank_loss import rank_loss
from dssm_tf.dse.settings import FineTuning, Pretraining
from examples.dse_protocol import (
    Features,
    Fitted,
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

Losses = dict[str, dict[str, float]]

SIZES = (500, 1000, 1500, 5000)
TUPLES, TUPLES_SIZE = (100_000, 1_000_000, 10_000_000), 1000
DIMENSION = 100
TRAINED = ("dse", "ssi", "psi")
BY_TUPLES = ("dse", "ssi", "dse+tfidf", "tfidf")  # figure 2
WEIGHTS = np.linspace(0, 1, 21).round(2).tolist()
PRETRAINING = Pretraining(300)
WEIGHTINGS = ("binary", "tfidf")
FITTINGS = {
    "Adam 0.003": FineTuning(800, 0.003, "adam"),
    "Adam 0.01": FineTuning(800, 0.01, "adam"),
    "momentum 1": FineTuning(800, 1.0),  # the paper's
}


class Wikispeedia:
    """The systems of table 3 and figure 2 on linked articles.

    Args:
        texts: texts of the articles.
        relevant: which articles a link joins, bool `(articles, articles)`.
        quick: a tenth of the training steps.
        seed: random seed.

    Attributes:
        choices: validation rank loss by system, weighting and optimizer; None if the training
            diverged.
        weights: weight of TF-IDF in `dse+tfidf`, by the number of words.
        nearest_words: nearest words of DSE with `TUPLES_SIZE` words.
    """

    def __init__(self, texts: Sequence[str], relevant: Matrix, quick: bool, seed: int) -> None:
        self.protocol = Protocol(texts, seed)
        self._pretraining = tenth(PRETRAINING, quick)
        self._fittings = {name: tenth(fitting, quick) for name, fitting in FITTINGS.items()}
        diagonal = sparse.identity(len(texts), dtype=bool).tocsr()
        rest, test = split_links(relevant, 0.7, seed)
        validation, train = split_links(rest, 0.05, seed + 1)
        self.links = Links(train, test, train + diagonal, relevant + diagonal, validation)
        self.choices: dict[str, dict[str, dict[str, float | None]]] = {}
        self._chosen: dict[str, tuple[str, str]] = {}
        self.weights: dict[str, float] = {}
        self.nearest_words: dict[str, list[str]] = {}

    def loss(self, scores: ScoreFunction, links: Matrix | None = None) -> float:
        """Rank loss in percent on the test links, or on the given ones."""
        links = self.links.test if links is None else links
        return rank_loss(scores, links, self.links.ignored > links)

    def losses(
        self, size: int, names: Sequence[str], tuples: int | None = None
    ) -> dict[str, float]:
        """Rank losses of systems that are trained with a number of words and tuples."""
        lexical = self.cosines(size)
        scores = {"tfidf": lexical}
        for system in TRAINED:
            if system in names:
                fitted = self.fit_chosen(system, size, tuples)
                scores[system] = fitted.scores()
                if system == "dse" and (size, tuples) == (TUPLES_SIZE, None):
                    self.nearest_words = nearest_words(fitted.words, fitted.model.query_tower)
        semantic = scores["dse"](np.arange(len(self.protocol.texts)))
        scale = float(np.std(semantic[:500])) or 1.0

        def mixture(weight: float) -> ScoreFunction:
            return lambda rows: (1 - weight) * semantic[rows] / scale + weight * lexical(rows)

        weight = min(WEIGHTS, key=lambda w: self.loss(mixture(w), self.links.validation))
        scores["dse+tfidf"] = mixture(weight)
        if tuples is None:
            self.weights[str(size)] = weight
        return {name: self.loss(scores[name]) for name in names}

    def cosines(self, size: int | None) -> ScoreFunction:
        """Cosines of TF-IDF vectors over the most frequent words, or over all."""
        bags = self.protocol.bags(Features(size, "tfidf", "length"))[1]
        return lambda rows: (bags[rows] @ bags.T).toarray()

    def training_tuples(self) -> int:
        """The number of training tuples in all batches of DSE, without a limit."""
        fitting = self._fittings[self._chosen["dse"][1]]
        links = min(fitting.batch_size, self.links.train.nnz)
        return fitting.steps * links * (links - 1)

    def features(self, system: str, size: int, weighting: str) -> Features:
        """Features with maximum 1 for RBM units and binary weighting, else of length 1."""
        largest = system == "dse" or weighting == "binary"
        return Features(size, weighting, "largest" if largest else "length")

    def fit_chosen(self, system: str, size: int, tuples: int | None) -> Fitted:
        """Trains a system with its weighting and optimizer, which the first call chooses."""
        if system in self._chosen:
            return self._fit(system, size, *self._chosen[system], tuples)
        fits: dict[tuple[str, str], tuple[float, Fitted]] = {}
        losses = self.choices[system] = {weighting: {} for weighting in WEIGHTINGS}
        for weighting, fitting in product(WEIGHTINGS, self._fittings):
            try:
                fitted = self._fit(system, size, weighting, fitting, tuples)
            except UserError as error:  # training diverged
                print(error)
                losses[weighting][fitting] = None
                continue
            loss = self.loss(fitted.scores(), self.links.validation)
            losses[weighting][fitting] = loss
            fits[weighting, fitting] = loss, fitted
        if not fits:
            raise UserError(f"{system} diverged with every weighting and optimizer.")
        self._chosen[system] = min(fits, key=lambda choice: fits[choice][0])
        return fits[self._chosen[system]][1]

    def _fit(
        self, system: str, size: int, weighting: str, fitting: str, tuples: int | None
    ) -> Fitted:
        limited = f", {tuples:,} tuples" if tuples else ""
        print(f"{system}, {size} words{limited}, {weighting}, {fitting}", flush=True)
        return self.protocol.fit(
            system, self.features(system, size, weighting), min(DIMENSION, size), self.links,
            self._pretraining, self._fittings[fitting], tuples,
        )  # fmt: skip


def wikispeedia(
    docs: Path, links: Path, out: Path, quick: bool = False, seed: int = 0
) -> dict[str, Any]:
    """Rank loss by the number of words (table 3) and of tuples (fig. 2), nearest words (table 2).

    Args:
        docs: table with `doc_id` and `text`.
        links: table with `source` and `target`.
        out: directory to write into.
        quick: a tenth of the training steps, two numbers of words and of tuples.
        seed: random seed.
    """
    rows = list(read_tsv(docs, "doc_id", "text"))
    pairs = [(row["source"], row["target"]) for row in read_tsv(links, "source", "target")]
    relevant = link_matrix([row["doc_id"] for row in rows], pairs)
    systems = Wikispeedia([row["text"] for row in rows], relevant, quick, seed)
    by_words = {
        str(size): systems.losses(size, (*TRAINED, "tfidf", "dse+tfidf"))
        for size in (SIZES[:2] if quick else SIZES)
    }
    by_tuples = {
        str(number): systems.losses(TUPLES_SIZE, BY_TUPLES, number)
        for number in (TUPLES[:2] if quick else TUPLES)
    }
    # All tuples of table 3's batches: each link against the others of its batch.
    by_tuples[str(systems.training_tuples())] = {
        name: by_words[str(TUPLES_SIZE)][name] for name in BY_TUPLES
    }
    words, tuples = by_system(by_words), by_system(by_tuples)
    draw_lines(words, out / "table3_words.png", "words")
    draw_lines(tuples, out / "figure2_tuples.png", "training tuples")
    all_words_loss = systems.loss(systems.cosines(None))
    choices = {
        f"{system}, {weighting}": row
        for system, losses in systems.choices.items()
        for weighting, row in losses.items()
    }
    tables: dict[str, tuple[str, Mapping[str, Mapping[str, float | None]]]] = {
        "Table 3: rank loss (%) by the number of most frequent words": ("system", words),
        f"Figure 2: rank loss (%) by training tuples, {TUPLES_SIZE} words": ("system", tuples),
        "Choice: rank loss (%) on the validation links, fewest words": ("system", choices),
    }
    return {
        "summary": f"{len(rows):,} articles, {relevant.nnz // 2:,} linked pairs; TF-IDF over all "
        f"words: {all_words_loss:.2f} %",
        "rank_loss_by_words": words,
        "rank_loss_by_tuples": tuples,
        "tfidf_all_words": all_words_loss,
        "tfidf_weight": systems.weights,
        "choices": systems.choices,
        "tables": tables,
        "nearest_words": systems.nearest_words,
    }


def link_matrix(pages: Sequence[str], links: Iterable[Sequence[str]]) -> Matrix:
    """Whether a link in either direction joins two pages: bool `(pages, pages)`.

    Repeated links and links from a page to itself do not count.
    """
    row = {page: index for index, page in enumerate(pages)}
    try:
        ends = np.array([(row[a], row[b]) for a, b in links if a != b])
    except KeyError as error:
        raise UserError(f"a link names the page {error}, which has no text.") from None
    one_way = Matrix((np.ones(len(ends), dtype=bool), ends.T), (len(pages), len(pages)))
    return (one_way + one_way.T).astype(bool)


def tenth(settings: Any, quick: bool) -> Any:
    """A tenth of the steps if `quick`, which is enough for a check but not for a result."""
    return replace(settings, steps=max(20, settings.steps // 10)) if quick else settings


def by_system(losses: Losses) -> Losses:
    """Transposes losses by number and system to losses by system and number."""
    names = next(iter(losses.values()))
    return {name: {number: row[name] for number, row in losses.items()} for name in names}


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the experiment."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--docs", required=True, type=Path, help="table with doc_id, text")
    parser.add_argument("--links", required=True, type=Path, help="table with source, target")
    write(wikispeedia, **vars(parser.parse_args(argv)))


if __name__ == "__main__":
    main()
