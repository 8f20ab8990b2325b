"""`dssm experiment wikispeedia`: which article links to which, as W14 does on Wikipedia."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from rich.console import Console
from scipy import sparse

from dssm_tf.common import figures
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory
from dssm_tf.dse.bag_of_words import BagOfWords
from dssm_tf.dse.experiments.report import ResultTable, per_cent, words_table, write_report
from dssm_tf.dse.experiments.systems import (
    Effort,
    LinkTask,
    Rows,
    cosine_scores,
    experiment_bar,
    fit_system,
    mixed_scores,
    model_scores,
    nearest_words,
)
from dssm_tf.dse.margin_training import FineTuning, Pretraining
from dssm_tf.dse.networks.bag_pair import BagPair
from dssm_tf.dse.networks.dse import DSEPair
from dssm_tf.dse.relevance import linked, split_links

SIZES = (500, 1000, 1500, 5000)
TUPLES = (100_000, 1_000_000, 10_000_000)
TUPLES_SIZE = 1000
DIMENSION = 100
TRAIN = 0.7
VALIDATION = 0.05
WIDEST = 1500
"""Words from which on DSE's hidden layers are those of this many words.

The paper's rule would give 31 million weights at 5,000 words, an hour on two cores."""
SYSTEMS = ("dse", "ssi", "psi", "tfidf", "dse+tfidf")
PRETRAINING = Pretraining(steps=300)
STEPS = 800
# What each trained system tries with the fewest words; validation chooses. Momentum is the paper's.
FEATURES = ("binary", "tfidf")
FITTINGS = {
    "Adam 0.003": FineTuning(STEPS, 0.003, "adam"),
    "Adam 0.01": FineTuning(STEPS, 0.01, "adam"),
    "momentum 1": FineTuning(STEPS, 1.0),
}


class Articles(NamedTuple):
    """Articles and the relevance of each to each by links."""

    texts: tuple[str, ...]
    relevant: sparse.csr_matrix


def read_articles(docs: Path, links: Path) -> Articles:
    """Reads `doc_id text` and `source target` tables, TSV with a header.

    Raises:
        UserError: a column or a text is missing, an id comes twice, or a link names an unknown id.
    """
    rows = list(_table(docs, ("doc_id", "text")))
    pairs = list(_table(links, ("source", "target")))
    if len(rows) < 3:
        raise UserError(f"{docs} has {len(rows)} articles; at least 3 are needed to rank.")
    try:
        relevant = linked([row[0] for row in rows], [(pair[0], pair[1]) for pair in pairs])
    except UserError as error:
        raise UserError(f"{links} with {docs}: {error}") from error
    return Articles(tuple(row[1] for row in rows), relevant)


def _table(path: Path, columns: Sequence[str]) -> Iterator[list[str]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from error
    header = lines[0].rstrip("\r").split("\t")
    missing = [name for name in columns if name not in header]
    if missing:
        raise UserError(
            f"{path} has the columns {', '.join(header)}; it needs {', '.join(columns)} "
            f"(missing: {', '.join(missing)})."
        )
    places = [header.index(name) for name in columns]
    for number, line in enumerate(lines[1:], start=2):
        fields = line.rstrip("\r").split("\t")
        if not line.strip():
            continue
        if len(fields) != len(header):
            raise UserError(
                f"{path}:{number} has {len(fields)} columns; the header has {len(header)}."
            )
        yield [fields[place] for place in places]


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
        docs: TSV with `doc_id` and `text`.
        links: TSV with `source` and `target`.
        out: directory to write, new.
        quick: a tenth of the training, three sizes, two numbers of tuples.
        seed: of everything random.
        console: where to print; None is silent.

    Returns:
        What `results.json` holds.

    Raises:
        UserError: see `read_articles`; or `out` exists.
    """
    console = console or Console(quiet=True)
    started = monotonic()
    articles = read_articles(Path(docs), Path(links))
    experiment = _Experiment(articles, quick, seed)
    sizes = (500, 1000) if quick else SIZES
    numbers = TUPLES[:2] if quick else TUPLES
    by_size: dict[str, dict[str, float]] = {system: {} for system in SYSTEMS}
    by_tuples: dict[str, dict[str, float]] = {
        system: {} for system in ("dse", "ssi", "dse+tfidf", "tfidf")
    }
    weights: dict[str, float] = {}
    with (
        atomic_directory(out) as directory,
        experiment_bar(console, experiment.fits(len(sizes), len(numbers))) as start,
    ):
        for size in sizes:
            found, weights[str(size)] = experiment.systems(size, SYSTEMS, start)
            for system, loss in found.items():
                by_size[system][str(size)] = loss
        everything = BagOfWords(None).fit(articles.texts)
        all_words = experiment.task(everything.transform(articles.texts))
        tfidf_all = all_words.loss(cosine_scores(all_words.bags))
        for number in numbers:
            found, _ = experiment.systems(TUPLES_SIZE, tuple(by_tuples), start, tuples=number)
            for system, loss in found.items():
                by_tuples[system][str(number)] = loss
        # All that the batches of table 3 stood for: each link against the others of its batch.
        possible = experiment.tuples_seen()
        for system, row in by_tuples.items():
            row[str(possible)] = by_size[system][str(TUPLES_SIZE)]
        figures.rank_loss_by_number(by_size, directory / "table3_words.png", "words")
        figures.rank_loss_by_number(
            by_tuples, directory / "figure2_tuples.png", "training tuples", logarithmic=True
        )
        results = {
            "articles": len(articles.texts),
            "links": int(articles.relevant.nnz // 2),
            "quick": quick,
            "seed": seed,
            "rank_loss_by_words": by_size,
            "rank_loss_by_tuples": by_tuples,
            "tfidf_all_words": {"words": len(everything.words), "rank_loss": tfidf_all},
            "tfidf_weight": weights,
            "choices": experiment.choices,
            "chosen": experiment.chosen,
            "nearest_words": experiment.nearest_words,
            "seconds": round(monotonic() - started, 1),
        }
        tables = [
            _table_of("Table 3: rank loss (%) by the number of most frequent words", by_size),
            _table_of(
                f"Figure 2: rank loss (%) by training tuples, {TUPLES_SIZE} words", by_tuples
            ),
            _choices_table(experiment.choices, sizes[0]),
            words_table(experiment.nearest_words),
        ]
        preface = (
            f"{results['articles']:,} articles, {results['links']:,} linked pairs, rank loss in "
            f"per cent on 30 % of the links, {results['seconds']:.0f} s"
            + (", a tenth of the training (--quick)." if quick else ".")
            + f" TF-IDF over all {len(everything.words):,} words: {tfidf_all:.2f} %."
        )
        write_report(directory, results, tables, preface)
    for table in tables:
        table.print(console)
    console.print(preface, highlight=False)
    console.print(f"{out}: tables.md, results.json, figures")
    return results


class _Experiment:
    """The links of all runs, split once, and how each system is trained.

    Attributes:
        choices: rank loss on the links for choosing, by system, input and optimizer; None for a
            training that diverged.
        chosen: the input and the optimizer of least loss, by system.
        nearest_words: of DSE at `TUPLES_SIZE` words, once it is fitted.
    """

    def __init__(self, articles: Articles, quick: bool, seed: int) -> None:
        self._articles = articles
        self._quick = quick
        self._seed = seed
        self.chosen: dict[str, tuple[str, str]] = {}
        self.choices: dict[str, dict[str, dict[str, float | None]]] = {}
        self.nearest_words: dict[str, list[str]] = {}
        learned, self._test = split_links(articles.relevant, TRAIN, seed)
        self._validation, self._train = split_links(learned, VALIDATION, seed + 1)
        self._itself = sparse.identity(len(articles.texts), dtype=bool).tocsr()

    def fits(self, sizes: int, numbers: int) -> int:
        """How many models are trained: those to choose from, and one a system and number."""
        return 3 * (len(FEATURES) * len(FITTINGS) + sizes - 1) + 2 * numbers

    def task(self, bags: sparse.csr_matrix) -> LinkTask:
        """The links with some vectors of the articles."""
        return LinkTask(
            bags,
            self._train,
            self._test,
            self._train + self._itself,
            self._articles.relevant + self._itself,
            self._validation,
        )

    def systems(
        self, size: int, names: Sequence[str], start: Any, tuples: int | None = None
    ) -> tuple[dict[str, float], float]:
        """Rank loss of the systems, and the share of TF-IDF in the combination."""
        texts = self._articles.texts
        cosine = self.task(BagOfWords(size).fit(texts).transform(texts))
        lexical = cosine_scores(cosine.bags)
        scores: dict[str, Rows] = {"tfidf": lexical}
        weight = 0.0
        for system in ("dse", "ssi", "psi"):
            if system not in names:
                continue
            if system in self.chosen:
                model, bags = self._fit(system, size, *self.chosen[system], start, tuples)
            else:
                model, bags = self._choose(system, size, start)
            scores[system] = model_scores(model, bags)
        if "dse+tfidf" in names:
            scores["dse+tfidf"], weight = mixed_scores(cosine, scores["dse"], lexical)
        return {name: cosine.loss(scores[name]) for name in names}, weight

    def tuples_seen(self) -> int:
        """Tuples that the batches of DSE stood for where their number was not limited."""
        effort = self._effort(self.chosen["dse"][1])
        links = min(effort.batch_size, self._train.nnz)
        return effort.fitting.steps * links * (links - 1)

    def _choose(self, system: str, size: int, start: Any) -> tuple[BagPair, sparse.csr_matrix]:
        """The best model of all inputs and optimizers, which the system keeps from here on."""
        best: tuple[float, BagPair, sparse.csr_matrix] | None = None
        tried = self.choices[system] = {}
        failure: UserError | None = None
        for features in FEATURES:
            tried[features] = {}
            for fitting in FITTINGS:
                try:
                    model, bags = self._fit(system, size, features, fitting, start)
                except UserError as error:
                    failure = error
                    tried[features][fitting] = None
                    continue
                loss = self.task(bags).loss(model_scores(model, bags), self._validation)
                tried[features][fitting] = loss
                if best is None or loss < best[0]:
                    best = loss, model, bags
                    self.chosen[system] = features, fitting
        if best is None:
            raise UserError(
                f"{system} failed with every input and optimizer, at last so: {failure}"
            ) from failure
        return best[1:]

    def _fit(
        self,
        system: str,
        size: int,
        features: str,
        fitting: str,
        start: Any,
        tuples: int | None = None,
    ) -> tuple[BagPair, sparse.csr_matrix]:
        texts = self._articles.texts
        bag = _bag(size, features, system).fit(texts)
        bags = bag.transform(texts)
        limited = f", {tuples:,} tuples" if tuples else ""
        told = start(f"{system}, {size} words{limited}, {features}, {fitting}")
        model = fit_system(
            system,
            self.task(bags),
            min(DIMENSION, size),
            self._effort(fitting),
            widths=_widths(bag),
            tuples=tuples,
            seed=self._seed,
            told=told,
        )
        if isinstance(model, DSEPair) and size == TUPLES_SIZE and tuples is None:
            self.nearest_words = nearest_words(model.query_tower, bag.words)
        return model, bags

    def _effort(self, fitting: str) -> Effort:
        effort = Effort(FITTINGS[fitting], PRETRAINING)
        return effort.quick() if self._quick else effort


def _bag(size: int, features: str, system: str) -> BagOfWords:
    """Whether each word is there, or TF-IDF: of length 1, or for an RBM's units at most 1."""
    if features == "binary":
        return BagOfWords(size, weighting="binary", normalization="none")
    return BagOfWords(size, normalization="largest" if system == "dse" else "length")


def _widths(bag: BagOfWords) -> tuple[int, int, int]:
    words = min(len(bag.words), WIDEST)
    return (max(1, words // 2), max(1, words // 2), words)


def _table_of(title: str, losses: dict[str, dict[str, float]]) -> ResultTable:
    numbers = sorted({int(number) for row in losses.values() for number in row})
    return ResultTable(
        title,
        ("system", *(f"{number:,}" for number in numbers)),
        tuple(
            (system, *(per_cent(row.get(str(number))) for number in numbers))
            for system, row in losses.items()
        ),
    )


def _choices_table(
    choices: dict[str, dict[str, dict[str, float | None]]], size: int
) -> ResultTable:
    return ResultTable(
        f"Choice: rank loss (%) on the links for choosing, {size} words",
        ("system", "input", *FITTINGS),
        tuple(
            (system, features, *(per_cent(losses[fitting]) for fitting in FITTINGS))
            for system, tried in choices.items()
            for features, losses in tried.items()
        ),
    )
