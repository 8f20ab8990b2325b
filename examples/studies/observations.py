"""Tests the papers' observations of trained models: numbers with intervals over seeds.

    python -m examples.studies.observations --data DATA --out OUT

trains lstm, lstm_plain, rnn, dssm and clsm on parts of Best Buy, WebQuestions and Home Depot, with
three seeds each (WebQuestions is bundled; DATA contains the others), and analyzes test pairs.
Prints a Markdown table per observation: means and Student's 95 % intervals over seeds.
OUT/observations.tsv has every value of every run, OUT/*.png the figures. With the same OUT, a
second call resumes. The findings are in `docs/paper_analyses.md`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from bm25s.stopwords import STOPWORDS_EN_PLUS

from dssm_tf.common.progress import progress_of
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import FOLDED

load_tensorflow()

from dssm_tf.analysis.activations import readings  # noqa: E402
from dssm_tf.analysis.cells import Reading, keywords  # noqa: E402
from dssm_tf.analysis.contributions import without_each  # noqa: E402
from dssm_tf.analysis.neurons import winners  # noqa: E402
from dssm_tf.analysis.shapley_explanation import explain_words  # noqa: E402
from dssm_tf.model.run_files import WEIGHTS  # noqa: E402
from dssm_tf.model.semantic_ranker import SemanticRanker  # noqa: E402
from dssm_tf.towers.recurrent import RecurrentTower  # noqa: E402
from examples.studies import observed_quantities as quantities  # noqa: E402
from examples.studies.observed_runs import SETS, Observed, topics_of, train_runs, variants  # noqa: E402
from examples.studies.observed_tables import LENGTHS, Row, show  # noqa: E402

SYSTEMS = "lstm,lstm_plain,rnn,dssm,clsm"
STOP_WORDS = frozenset(word for entry in STOPWORDS_EN_PLUS for word in FOLDED.words(entry))
"""NLTK's English list, as bundled with bm25s, tokenized by this package."""

SHORT = 4  # letters of a short word; few stop words have more
TOPIC_CELLS = 5
TEXTS_PER_LENGTH = 60
EXPLAINED_PAIRS = 10

Values = Iterator[tuple[str, float]]
Readings = Sequence[Sequence[Sequence[Reading]]]
"""By side (queries, titles), text and direction; empty if the tower is not recurrent."""


def stop_words(ranker: SemanticRanker, observed: Observed, readings_by_side: Readings) -> Values:
    """Input gates, written values, cells changed and occlusion: stop words and other words."""
    texts_by_quantity: dict[str, list[tuple[list[str], np.ndarray]]] = {}
    losses = pair_losses(ranker, observed.pairs)
    for side in range(2):
        texts = [ranker.vocabulary.words(pair[side]) for pair in observed.pairs]
        side_losses = [pair[side] for pair in losses]
        occlusion = texts_by_quantity.setdefault("occlusion", [])
        occlusion.extend(zip(texts, side_losses, strict=True))
    for reading in (
        reading for side in readings_by_side for directions in side for reading in directions
    ):
        words, word_values = word_quantities(reading)
        for quantity, values in word_values.items():
            texts_by_quantity.setdefault(quantity, []).append((words, values))
    for quantity, rows in texts_by_quantity.items():
        yield from contrasts(quantity, rows)
        short = [
            ([word for word in words if len(word) <= SHORT],
             values[[len(word) <= SHORT for word in words]])
            for words, values in rows if words
        ]  # fmt: skip
        yield from contrasts(f"{quantity}, short words", short)


def contrasts(quantity: str, texts: Sequence[tuple[list[str], np.ndarray]]) -> Values:
    """A quantity on stop words and on the other words of the texts."""
    marked = [np.array([word in STOP_WORDS for word in words], bool) for words, _ in texts]
    contrast = quantities.contrast([values for _, values in texts], marked)
    yield f"{quantity}: stop words", contrast.marked
    yield f"{quantity}: other words", contrast.others
    yield f"{quantity}: lower", contrast.lower
    yield f"{quantity}: texts", float(contrast.texts)


def word_quantities(reading: Reading) -> tuple[list[str], dict[str, np.ndarray]]:
    """The words except the first one read, and each quantity at these words.

    The first word is left out because all cells are zero before it.
    """
    order = slice(None, None, -1 if reading.backwards else 1)
    activations = {name: values[order] for name, values in reading.activations.items()}
    values = {"cells changed": np.array(reading.changed_cell_counts()[order][1:], float)}
    if "i" in activations:
        values["input gate"] = activations["i"][1:].mean(axis=1)
        values["written"] = np.abs(quantities.written_values(activations))[1:].mean(axis=1)
    return reading.words[order][1:], values


def pair_losses(
    ranker: SemanticRanker, pairs: Sequence[tuple[str, str]]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The loss of each pair's cosine without each query word, and without each title word."""
    sides = []
    for side, encode in enumerate((ranker.encode_queries, ranker.encode_titles)):
        texts = [ranker.vocabulary.words(pair[side]) for pair in pairs]
        flat = [text for words in texts for text in (" ".join(words), *without_each(words))]
        ends = np.cumsum([1 + len(words) for words in texts])[:-1]
        sides.append(np.split(encode(flat).astype(np.float64), ends))
    return [
        (query[0] @ title[0] - query[1:] @ title[0], query[0] @ title[0] - title[1:] @ query[0])
        for query, title in zip(*sides, strict=True)
    ]


def first_keywords(
    ranker: SemanticRanker, observed: Observed, readings_by_side: Readings
) -> Values:
    """How often the first keyword of a query is a word of the clicked title."""
    if not readings_by_side:
        return
    masks: list[tuple[np.ndarray, ...]] = []
    for directions, (_, title) in zip(readings_by_side[0], observed.pairs, strict=True):
        words = directions[0].words
        if len(words) > 1:
            counts = zip(*(reading.changed_cell_counts() for reading in directions), strict=True)
            candidates = np.array(
                [any(count is not None for count in word_counts) for word_counts in counts]
            )
            shared = np.isin(words, FOLDED.words(title))
            masks.append((np.array(keywords(directions)), candidates, shared))
    hits = quantities.first_keyword(*zip(*masks, strict=True))
    yield "keyword: queries with a keyword", hits.with_keyword
    yield "keyword: in the title", hits.hits
    yield "keyword: in the title by chance", hits.chance


def topic_cells(ranker: SemanticRanker, observed: Observed, topics: np.ndarray) -> Values:
    """The purity of cells by topic; to compare, with shuffled topics and in rotated coordinates."""
    vectors = ranker.encode_queries([query for query, _ in observed.pairs])
    rotated = quantities.rotated_coordinates(vectors)
    for name, coordinates in (("", vectors), (", other coordinates", rotated)):
        cells = quantities.signed_cells(coordinates, TOPIC_CELLS)
        yield f"topics{name}: purity", quantities.purity(cells, topics)
        yield f"topics{name}: shuffled", quantities.shuffled_purity(cells, topics)


def first_words(ranker: SemanticRanker, observed: Observed) -> Values:
    """The influence of the first word on the vector, by the length of the text."""
    texts = dict.fromkeys(FOLDED.key(text) for pair in observed.pairs for text in pair)
    split = [ranker.vocabulary.words(text) for text in texts]
    tower = ranker.model.query_tower
    for length in LENGTHS:
        selected = [words for words in split if len(words) == length][:TEXTS_PER_LENGTH]
        if len(selected) < TEXTS_PER_LENGTH // 2:
            continue
        rotations = [words for text in selected for words in quantities.rotations(text)]
        flat = [text for words in rotations for text in (" ".join(words), *without_each(words))]
        vectors = (
            ranker.encode_titles(flat).astype(np.float64).reshape(len(rotations), 1 + length, -1)
        )
        influences = quantities.influence(vectors)
        yield f"first word of {length}: influence", float(influences[0])
        yield f"last word of {length}: influence", float(influences[-1])
        if isinstance(tower, RecurrentTower) and getattr(
            tower.recurrence.cell, "forget_gate", False
        ):
            retained = [
                quantities.retained_fraction(reading.activations["f"], reading.activations["c"])
                for (reading, *_) in readings(
                    tower, ranker.vocabulary, [" ".join(words) for words in selected]
                )
            ]
            yield f"first word of {length}: retained in the cells", float(np.mean(retained))


def scores(ranker: SemanticRanker, observed: Observed) -> Values:
    """Cosines of clicked titles and of other titles, and their agreement with grades."""
    queries, titles = zip(*observed.pairs, strict=True)
    query_vectors, title_vectors = ranker.encode_queries(queries), ranker.encode_titles(titles)
    rows = {text: row for row, text in enumerate(titles)}  # the last row of equal titles
    distinct_vectors = title_vectors[list(rows.values())]
    first = np.array(list(rows))[(query_vectors @ distinct_vectors.T).argmax(axis=1)]
    yield "clicked title first", float((first == np.array(titles)).mean())
    yield "cosine: clicked title", float((query_vectors * title_vectors).sum(axis=1).mean())
    other_vectors = np.roll(title_vectors, 1, 0)
    yield "cosine: title of another query", float((query_vectors * other_vectors).sum(1).mean())
    if observed.graded:
        queries, titles, grade_column = zip(*observed.graded, strict=True)
        query_vectors, title_vectors = ranker.encode_queries(queries), ranker.encode_titles(titles)
        cosines = (query_vectors * title_vectors).sum(axis=1).astype(np.float64)
        grades = np.array(grade_column)
        agreement = quantities.agreement(cosines, grades)
        yield "grades: Kendall", agreement.kendall
        yield "grades: Spearman", agreement.spearman
        for low, high, name in ((0, 0.67, "0 to .67"), (0.68, 1.5, "1 to 1.5"), (1.6, 2, "over")):
            mask = (grades >= low) & (grades <= high)
            yield f"cosine: graded {name}", float(cosines[mask].mean())


def agreements(ranker: SemanticRanker, observed: Observed) -> Values:
    """Rank agreement of each explanation with occlusion, and the time of an explanation."""
    by_explanation: dict[str, list[quantities.Agreement]] = {}
    seconds, cpu_seconds = [], []
    long_pairs = [
        pair for pair in observed.pairs if max(len(FOLDED.words(text)) for text in pair) > 2
    ]
    explain_words(ranker, *long_pairs[0])  # traces the model's functions
    for query, title in long_pairs[:EXPLAINED_PAIRS]:
        started, started_cpu = perf_counter(), process_time()
        explanation = explain_words(ranker, query, title)
        seconds.append(perf_counter() - started)
        cpu_seconds.append(process_time() - started_cpu)
        for side in (explanation.query, explanation.title):
            explanations = []  # name, values of the words, losses without the words
            if side.standard_errors is None:
                explanations.append(("Shapley values", side.contributions, side.losses))
            if side.features is not None:
                top = np.array([winner.position for winner in winners(side.features)])
                for name, won in (("top", top), ("all", side.features.argmax(axis=0))):
                    counts = np.bincount(won, minlength=len(side.words)).astype(float)
                    explanations.append((f"{name} neurons won", counts, side.losses))
            for reading in side.readings:
                lost = side.losses[::-1][1:] if reading.backwards else side.losses[1:]
                for name, values in word_quantities(reading)[1].items():
                    explanations.append((name, values, lost))
            for name, values, lost in explanations:
                by_explanation.setdefault(name, []).append(quantities.agreement(values, lost))
    for name, text_agreements in by_explanation.items():
        defined = [agreement for agreement in text_agreements if not np.isnan(agreement.kendall)]
        kendall, spearman = np.mean(defined, axis=0) if defined else (np.nan, np.nan)
        yield f"{name}: Kendall", float(kendall)
        yield f"{name}: Spearman", float(spearman)
    yield "explain: median seconds", float(np.median(seconds))
    yield "explain: most seconds", float(np.max(seconds))
    yield "explain: median CPU seconds", float(np.median(cpu_seconds))
    yield "explain: most CPU seconds", float(np.max(cpu_seconds))


def observe(ranker: SemanticRanker, observed: Observed, topics: np.ndarray) -> Values:
    """Yields every quantity of a model, by name."""
    tower, readings_by_side = ranker.model.query_tower, []
    if isinstance(tower, RecurrentTower):
        sides = zip(*observed.pairs, strict=True)
        readings_by_side = [list(readings(tower, ranker.vocabulary, side)) for side in sides]
    yield from stop_words(ranker, observed, readings_by_side)
    yield from first_keywords(ranker, observed, readings_by_side)
    yield from topic_cells(ranker, observed, topics)
    yield from first_words(ranker, observed)
    yield from scores(ranker, observed)


def analyze(
    observed: Observed, runs: Mapping[str, Sequence[Path]], known: set[tuple[str, str, int]]
) -> Iterator[Row]:
    """Yields every quantity of every run that is not in `known`."""
    topics = topics_of(observed)
    with progress_of(f"{observed.name}: analysis", len(runs), True, "systems") as task:
        for system, system_runs in runs.items():
            missing = {
                seed: run
                for seed, run in enumerate(system_runs)
                if (observed.name, system, seed) not in known
            }
            if not missing:
                task.advance(state=system)
                continue
            # One model with the weights of each seed in turn: its functions are traced once.
            ranker = SemanticRanker.load(system_runs[0], system)
            for seed, run in missing.items():
                ranker.model.load_weights(run / WEIGHTS)
                for name in variants(ranker, system, seed):
                    for quantity, value in observe(ranker, observed, topics):
                        yield observed.name, name, seed, quantity, value
                for quantity, value in agreements(ranker, observed):
                    yield observed.name, system, seed, quantity, value
            task.advance(state=system)


def read_rows(path: Path) -> list[Row]:
    """Reads the values of an earlier call."""
    lines = path.read_text("utf-8").splitlines()[1:] if path.exists() else []
    cells = [line.split("\t") for line in lines]
    return [
        (name, system, int(seed), quantity, float(value))
        for name, system, seed, quantity, value in cells
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the study; prints its tables and writes its files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with bestbuy/ and homedepot/")
    parser.add_argument("--out", type=Path, required=True, help="folder for runs and results")
    parser.add_argument("--sets", default=",".join(SETS), help="names of data sets")
    parser.add_argument("--systems", default=SYSTEMS, help="names of configurations")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--full", action="store_true", help="full logs and full trainings")
    options = parser.parse_args(argv)
    if options.data is None and options.sets != "webquestions":
        parser.error("--data is missing; only --sets webquestions needs none.")
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data: there is no folder {options.data}")
    table = options.out / "observations.tsv"
    rows = read_rows(table)
    for name in options.sets.split(","):
        observed = SETS[name](options.data, options.full)
        systems = options.systems.split(",")
        runs = train_runs(observed, systems, options.seeds, options.out, options.full)
        rows += analyze(observed, runs, {row[:3] for row in rows})
        cells = ([*map(str, row[:4]), f"{row[4]:.6g}"] for row in rows)
        write_table(table, ("set", "system", "seed", "quantity", "value"), cells)
    show(rows, options.out, sys.stdout)


if __name__ == "__main__":
    main()
