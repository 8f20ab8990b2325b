"""`dssm experiment wikispeedia`: which article links to which, as W14 does on Wikipedia."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from scipy import sparse

from dssm_tf.common import figures
from dssm_tf.common.errors import UserError
from dssm_tf.dse.bag_of_words import BagOfWords
from dssm_tf.dse.dse_tfidf import WEIGHTS, mixed
from dssm_tf.dse.experiments.report import (
    Run,
    experiment,
    markdown_table,
    per_cent,
    words_table,
)
from dssm_tf.dse.experiments.systems import fit_system, nearest_words, tenth
from dssm_tf.dse.fine_tuning import LinkTask
from dssm_tf.dse.networks import BagPair, DSEPair, DSETower, Scores, pair_scores
from dssm_tf.dse.pretraining import pretrain
from dssm_tf.dse.relevance import linked, split_links
from dssm_tf.dse.settings import FineTuning, Pretraining
from dssm_tf.evaluation.rank_loss import rank_loss
from dssm_tf.tables.reader import read_rows

SIZES = (500, 1000, 1500, 5000)
TUPLES = (100_000, 1_000_000, 10_000_000)
TUPLES_SIZE = 1000
DIMENSION = 100
TRAIN = 0.7
VALIDATION = 0.05
_WIDEST = 1500
"""Words from which on DSE's hidden layers are those of this many words.

The paper's rule would give 31 million weights at 5,000 words, an hour on two cores."""
_TRAINED = ("dse", "ssi", "psi")
SYSTEMS = (*_TRAINED, "tfidf", "dse+tfidf")
_COMPARED = ("dse", "ssi", "dse+tfidf", "tfidf")  # by the number of tuples, figure 2
PRETRAINING = Pretraining(steps=300)
STEPS = 800
# What each trained system tries with the fewest words; validation chooses. Momentum is the paper's.
FEATURES = ("binary", "tfidf")
FITTINGS = {
    "Adam 0.003": FineTuning(STEPS, 0.003, "adam"),
    "Adam 0.01": FineTuning(STEPS, 0.01, "adam"),
    "momentum 1": FineTuning(STEPS, 1.0),
}

Losses = dict[str, dict[str, float]]
Choices = dict[str, dict[str, dict[str, float | None]]]
Fitted = tuple[BagPair, sparse.csr_matrix]
"""A model and what it reads."""


class Articles(NamedTuple):
    """Articles and the relevance of each to each by links."""

    texts: tuple[str, ...]
    relevant: sparse.csr_matrix


def read_articles(docs: Path, links: Path) -> Articles:
    """Reads `doc_id text` and `source target` tables.

    Raises:
        UserError: a column or a text is missing, an id comes twice, or a link names an unknown id.
    """
    rows = [row for _, row in read_rows(docs, ("doc_id", "text"))]
    pairs = [pair for _, pair in read_rows(links, ("source", "target"))]
    if len(rows) < 3:
        raise UserError(f"{docs} has {len(rows)} articles; at least 3 are needed to rank.")
    try:
        relevant = linked([row[0] for row in rows], pairs)
    except UserError as error:
        raise UserError(f"{links} with {docs}: {error}") from error
    return Articles(tuple(row[1] for row in rows), relevant)


def wikispeedia(
    docs: Path | str,
    links: Path | str,
    out: Path | str,
    *,
    quick: bool = False,
    seed: int = 0,
    console: Console | None = None,
) -> dict[str, Any]:
    """Runs the experiment and writes `tables.md`, `results.json` and the figures.

    Relevance is that of W14 sec. 4.3: two articles answer each other if one links to the other.
    70 % of the links are learned from, a twentieth of those kept for choosing, 30 % measured.
    While learning, an article counts as irrelevant unless one of the learned links says
    otherwise; while measuring, unless any link does. Each of DSE, SSI and PSI chooses its input
    (`FEATURES`) and its optimizer (`FITTINGS`) with the fewest words, by the links kept for that.

    Args:
        docs: table with `doc_id` and `text`.
        links: table with `source` and `target`.
        out: directory to write, new.
        quick: a tenth of the training, two sizes, two numbers of tuples.
        seed: of everything random.
        console: where to print; None is silent.

    Returns:
        What `results.json` holds.

    Raises:
        UserError: see `read_articles`; or `out` exists.
    """
    articles = read_articles(Path(docs), Path(links))
    sizes = (500, 1000) if quick else SIZES
    numbers = TUPLES[:2] if quick else TUPLES
    fits = len(_TRAINED) * (len(FEATURES) * len(FITTINGS) + len(sizes) - 1) + 2 * len(numbers)
    with experiment(out, console, fits) as run:
        systems = _Systems(articles, quick, seed, run)
        of_size = {str(size): systems.losses(size, SYSTEMS) for size in sizes}
        everything = BagOfWords(None).fit(articles.texts)
        tfidf_all = systems.loss(_cosine_scores(everything.transform(articles.texts)))
        of_tuples = {
            str(number): systems.losses(TUPLES_SIZE, _COMPARED, number) for number in numbers
        }
        # All that the batches of table 3 stood for: each link against the others of its batch.
        of_tuples[str(systems.tuples_seen())] = of_size[str(TUPLES_SIZE)]
        by_size, by_tuples = _by_system(of_size, SYSTEMS), _by_system(of_tuples, _COMPARED)
        figures.rank_loss_by_number(by_size, run.directory / "table3_words.png", "words")
        figures.rank_loss_by_number(
            by_tuples, run.directory / "figure2_tuples.png", "training tuples", logarithmic=True
        )
        results = {
            "articles": len(articles.texts),
            "links": int(articles.relevant.nnz // 2),
            "quick": quick,
            "seed": seed,
            "rank_loss_by_words": by_size,
            "rank_loss_by_tuples": by_tuples,
            "tfidf_all_words": {"words": len(everything.words), "rank_loss": tfidf_all},
            "tfidf_weight": systems.weights,
            "choices": systems.choices,
            "chosen": systems.chosen,
            "nearest_words": systems.nearest_words,
        }
        tables = [
            _table_of("Table 3: rank loss (%) by the number of most frequent words", by_size),
            _table_of(
                f"Figure 2: rank loss (%) by training tuples, {TUPLES_SIZE} words", by_tuples
            ),
            _choices_table(systems.choices, sizes[0]),
            words_table(systems.nearest_words),
        ]
        preface = (
            f"{results['articles']:,} articles, {results['links']:,} linked pairs, rank loss in "
            "per cent on 30 % of the links; TF-IDF over all "
            f"{len(everything.words):,} words: {tfidf_all:.2f} %;"
        )
        run.finish(results, tables, preface)
    return run.results


class _Systems:
    """The links, split once, and the systems that are fitted to them.

    Attributes:
        choices: rank loss on the links for choosing, by system, input and optimizer; None for a
            training that diverged.
        chosen: the input and the optimizer of least loss, by system.
        weights: share of TF-IDF in the combination, by the number of words.
        nearest_words: of DSE at `TUPLES_SIZE` words, once it is fitted.
    """

    def __init__(self, articles: Articles, quick: bool, seed: int, run: Run) -> None:
        self._articles = articles
        self._pretraining = tenth(PRETRAINING) if quick else PRETRAINING
        self._fittings = {
            name: tenth(settings) if quick else settings for name, settings in FITTINGS.items()
        }
        self._seed = seed
        self._run = run
        self._towers: dict[tuple[int, str], DSETower] = {}
        self.chosen: dict[str, tuple[str, str]] = {}
        self.choices: Choices = {}
        self.weights: dict[str, float] = {}
        self.nearest_words: dict[str, list[str]] = {}
        learned, self._test = split_links(articles.relevant, TRAIN, seed)
        self._validation, self._train = split_links(learned, VALIDATION, seed + 1)
        itself = sparse.identity(len(articles.texts), dtype=bool).tocsr()
        self._known, self._ignored = self._train + itself, articles.relevant + itself

    def loss(self, scores: Scores, links: sparse.csr_matrix | None = None) -> float:
        """Rank loss in per cent on the links kept for measuring, or on others."""
        links = self._test if links is None else links
        return rank_loss(scores, links, self._ignored > links)

    def losses(
        self, size: int, names: Sequence[str], tuples: int | None = None
    ) -> dict[str, float]:
        """Rank loss of the systems, fitted with so many words and tuples."""
        texts = self._articles.texts
        lexical = _cosine_scores(BagOfWords(size).fit(texts).transform(texts))
        scores: dict[str, Scores] = {"tfidf": lexical}
        for system in _TRAINED:
            if system in names:
                model, bags = self._chosen(system, size, tuples)
                scores[system] = pair_scores(model, bags, bags)
        semantic = scores["dse"](np.arange(len(texts)))
        spread = float(np.std(semantic[:500])) or 1.0

        def combination(weight: float) -> Scores:
            return lambda rows: mixed(semantic[rows], lexical(rows), spread, weight)

        weight = min(WEIGHTS, key=lambda share: self.loss(combination(share), self._validation))
        scores["dse+tfidf"] = combination(weight)
        if tuples is None:
            self.weights[str(size)] = weight
        return {name: self.loss(scores[name]) for name in names}

    def tuples_seen(self) -> int:
        """Tuples that the batches of DSE stood for where their number was not limited."""
        settings = self._fittings[self.chosen["dse"][1]]
        links = min(settings.batch_size, self._train.nnz)
        return settings.steps * links * (links - 1)

    def _chosen(self, system: str, size: int, tuples: int | None) -> Fitted:
        """A model with the input and the optimizer of its system, chosen at the first call."""
        if system in self.chosen:
            return self._fit(system, size, *self.chosen[system], tuples)
        best: tuple[float, Fitted] | None = None
        tried = self.choices[system] = {features: {} for features in FEATURES}
        failure: UserError | None = None
        for features, fitting in product(FEATURES, FITTINGS):
            try:
                model, bags = self._fit(system, size, features, fitting, tuples)
            except UserError as error:
                failure = error
                tried[features][fitting] = None
                continue
            loss = self.loss(pair_scores(model, bags, bags), self._validation)
            tried[features][fitting] = loss
            if best is None or loss < best[0]:
                best = loss, (model, bags)
                self.chosen[system] = features, fitting
        if best is None:
            raise UserError(
                f"{system} failed with every input and optimizer, at last so: {failure}"
            ) from failure
        return best[1]

    def _fit(
        self, system: str, size: int, features: str, fitting: str, tuples: int | None
    ) -> Fitted:
        # On or off, or at most 1 for the units of an RBM; else of length 1, as cosines have it.
        normalization = "largest" if system == "dse" or features == "binary" else "length"
        bag = BagOfWords(size, weighting=features, normalization=normalization)
        bags = bag.fit(self._articles.texts).transform(self._articles.texts)
        dimension = min(DIMENSION, size)
        limited = f", {tuples:,} tuples" if tuples else ""
        told = self._run.told(f"{system}, {size} words{limited}, {features}, {fitting}")
        if system == "dse" and (size, features) not in self._towers:
            words = min(len(bag.words), _WIDEST)
            widths = (max(1, words // 2), max(1, words // 2), words)
            tower = DSETower(bags.shape[1], dimension, widths, seed=self._seed)
            pretrain(tower, bags, self._pretraining, seed=self._seed, told=told)
            self._towers[size, features] = tower
        try:
            model = fit_system(
                system,
                LinkTask(bags, bags, self._train, self._known, self._ignored, self._validation),
                dimension,
                self._fittings[fitting],
                tower=self._towers.get((size, features)),
                tuples=tuples,
                seed=self._seed,
                told=told,
            )
        finally:
            self._run.fitted()
        if isinstance(model, DSEPair) and size == TUPLES_SIZE and tuples is None:
            self.nearest_words = nearest_words(model.query_tower, bag.words)
        return model, bags


def _cosine_scores(bags: sparse.csr_matrix) -> Scores:
    """Scores of pages by the dot product of their normalised vectors."""
    return lambda rows: (bags[rows] @ bags.T).toarray()


def _by_system(losses: Losses, systems: Sequence[str]) -> Losses:
    """Losses by system and number from those by number and system."""
    return {
        system: {number: found[system] for number, found in losses.items()} for system in systems
    }


def _table_of(title: str, losses: Losses) -> str:
    return markdown_table(
        title,
        ("system", *(f"{int(number):,}" for number in next(iter(losses.values())))),
        ((system, *map(per_cent, row.values())) for system, row in losses.items()),
    )


def _choices_table(choices: Choices, size: int) -> str:
    return markdown_table(
        f"Choice: rank loss (%) on the links for choosing, {size} words",
        ("system", "input", *FITTINGS),
        (
            (system, features, *map(per_cent, losses.values()))
            for system, tried in choices.items()
            for features, losses in tried.items()
        ),
    )
