"""Whether what the papers say of trained models holds: numbers with intervals over seeds.

    python -m examples.studies.observations --data DATA --out OUT

trains lstm, lstm_plain, rnn, dssm and clsm on parts of Best Buy, WebQuestions and Home Depot (those
that DATA has; WebQuestions ships with the package), three seeds each, looks at pairs of other
clicks, and prints a Markdown table for each observation: means and Student's 95 % intervals
over seeds. OUT/observations.tsv has every value of every run, OUT/*.png the figures. A second call
with the same OUT goes on where the first one ended. `docs/analysis.md` says what was found.
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
from dssm_tf.analysis.explanation import explain  # noqa: E402
from dssm_tf.analysis.neurons import winners  # noqa: E402
from dssm_tf.model.run_files import WEIGHTS  # noqa: E402
from dssm_tf.model.semantic_ranker import SemanticRanker  # noqa: E402
from dssm_tf.towers.recurrent import RecurrentTower  # noqa: E402
from examples.studies import observed_quantities as quantities  # noqa: E402
from examples.studies.observed_runs import SETS, Observed, topics_of, trained, variants  # noqa: E402
from examples.studies.observed_tables import LENGTHS, Row, show  # noqa: E402

SYSTEMS = "lstm,lstm_plain,rnn,dssm,clsm"
STOP_WORDS = frozenset(word for entry in STOPWORDS_EN_PLUS for word in FOLDED.words(entry))
"""NLTK's English list, as bm25s ships it, in the words of this package."""

SHORT = 4  # letters; few stop words have more
TOPIC_CELLS = 5
TEXTS_A_LENGTH = 60
EXPLAINED = 10

Values = Iterator[tuple[str, float]]
Read = Sequence[Sequence[Sequence[Reading]]]
"""Of queries and of titles, of each text, of each direction; empty if the tower does not read."""


def stop_words(ranker: SemanticRanker, observed: Observed, read: Read) -> Values:
    """Input gates, what is written, cells moved and occlusion on stop words and on others."""
    found: dict[str, list[tuple[list[str], np.ndarray]]] = {}
    lost = lost_of(ranker, observed.pairs)
    for side in range(2):
        texts = [ranker.vocabulary.words(pair[side]) for pair in observed.pairs]
        values = [of_pair[side] for of_pair in lost]
        found.setdefault("occlusion", []).extend(zip(texts, values, strict=True))
    for reading in (reading for side in read for of_text in side for reading in of_text):
        words, of_words = inside(reading)
        for quantity, values in of_words.items():
            found.setdefault(quantity, []).append((words, values))
    for quantity, texts in found.items():
        yield from contrasts(quantity, texts)
        short = [
            ([word for word in words if len(word) <= SHORT],
             values[[len(word) <= SHORT for word in words]])
            for words, values in texts if words
        ]  # fmt: skip
        yield from contrasts(f"{quantity}, short words", short)


def contrasts(quantity: str, texts: Sequence[tuple[list[str], np.ndarray]]) -> Values:
    """A quantity on stop words and on the other words of the texts."""
    marked = [np.array([word in STOP_WORDS for word in words], bool) for words, _ in texts]
    found = quantities.contrast([values for _, values in texts], marked)
    yield f"{quantity}: stop words", found.marked
    yield f"{quantity}: other words", found.others
    yield f"{quantity}: lower", found.lower
    yield f"{quantity}: texts", float(found.texts)


def inside(reading: Reading) -> tuple[list[str], dict[str, np.ndarray]]:
    """The words after the one read first, before which all cells are zero, and what they did."""
    order = slice(None, None, -1 if reading.backwards else 1)
    activations = {name: values[order] for name, values in reading.activations.items()}
    found = {"cells moved": np.array(reading.moved()[order][1:], float)}
    if "i" in activations:
        found["input gate"] = activations["i"][1:].mean(axis=1)
        found["written"] = np.abs(quantities.written(activations))[1:].mean(axis=1)
    return reading.words[order][1:], found


def lost_of(
    ranker: SemanticRanker, pairs: Sequence[tuple[str, str]]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """What the cosine of each pair loses without each word of the query, and of the title."""
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


def first_keywords(ranker: SemanticRanker, observed: Observed, read: Read) -> Values:
    """How often the first keyword of a query is a word of the clicked title."""
    if not read:
        return
    found: list[tuple[np.ndarray, ...]] = []
    for of_query, (_, title) in zip(read[0], observed.pairs, strict=True):
        words = of_query[0].words
        if len(words) > 1:
            counts = zip(*(reading.moved() for reading in of_query), strict=True)
            judged = np.array([any(one is not None for one in of_word) for of_word in counts])
            shared = np.isin(words, FOLDED.words(title))
            found.append((np.array(keywords(of_query)), judged, shared))
    hits = quantities.first_keyword(*zip(*found, strict=True))
    yield "keyword: queries that have one", hits.found
    yield "keyword: in the title", hits.hits
    yield "keyword: in the title by chance", hits.chance


def topic_cells(ranker: SemanticRanker, observed: Observed, topics: np.ndarray) -> Values:
    """Purity of the topics of cells, of shuffled labels and of cells in other coordinates."""
    vectors = ranker.encode_queries([query for query, _ in observed.pairs])
    for name, seen in (("", vectors), (", turned", quantities.turned(vectors))):
        cells = quantities.signed_cells(seen, TOPIC_CELLS)
        yield f"topics{name}: purity", quantities.purity(cells, topics)
        yield f"topics{name}: shuffled", quantities.shuffled_purity(cells, topics)


def first_words(ranker: SemanticRanker, observed: Observed) -> Values:
    """What of the last state the word read first has, by the length of the text."""
    texts = dict.fromkeys(FOLDED.key(text) for pair in observed.pairs for text in pair)
    split = [ranker.vocabulary.words(text) for text in texts]
    tower = ranker.model.query_tower
    for length in LENGTHS:
        chosen = [words for words in split if len(words) == length][:TEXTS_A_LENGTH]
        if len(chosen) < TEXTS_A_LENGTH // 2:
            continue
        every = [words for text in chosen for words in quantities.rotations(text)]
        flat = [text for words in every for text in (" ".join(words), *without_each(words))]
        vectors = ranker.encode_titles(flat).astype(np.float64).reshape(len(every), 1 + length, -1)
        places = quantities.influence(vectors)
        yield f"first word of {length}: influence", float(places[0])
        yield f"last word of {length}: influence", float(places[-1])
        if isinstance(tower, RecurrentTower) and getattr(tower.recurrence.cell, "forget_gate", 0):
            left = [
                quantities.kept(one.activations["f"], one.activations["c"])
                for (one, *_) in readings(tower, ranker.vocabulary, [" ".join(w) for w in chosen])
            ]
            yield f"first word of {length}: kept in the cells", float(np.mean(left))


def scores(ranker: SemanticRanker, observed: Observed) -> Values:
    """Cosines beside grades, and of clicked titles beside others."""
    queries, titles = zip(*observed.pairs, strict=True)
    asked, answers = ranker.encode_queries(queries), ranker.encode_titles(titles)
    answered = {text: place for place, text in enumerate(titles)}  # of equal titles the last
    best = answers[list(answered.values())]
    first = np.array(list(answered))[(asked @ best.T).argmax(axis=1)]
    yield "clicked title first", float((first == np.array(titles)).mean())
    yield "cosine: clicked title", float((asked * answers).sum(axis=1).mean())
    yield "cosine: title of another query", float((asked * np.roll(answers, 1, 0)).sum(1).mean())
    if observed.graded:
        queries, titles, grades = zip(*observed.graded, strict=True)
        asked, answers = ranker.encode_queries(queries), ranker.encode_titles(titles)
        cosines = (asked * answers).sum(axis=1).astype(np.float64)
        grades = np.array(grades)
        agreement = quantities.agreement(cosines, grades)
        yield "grades: Kendall", agreement.kendall
        yield "grades: Spearman", agreement.spearman
        for low, high, name in ((0, 0.67, "0 to .67"), (0.68, 1.5, "1 to 1.5"), (1.6, 2, "over")):
            inside = (grades >= low) & (grades <= high)
            yield f"cosine: graded {name}", float(cosines[inside].mean())


def agreements(ranker: SemanticRanker, observed: Observed) -> Values:
    """Rank agreement of each explanation with occlusion, over words of a text; and the time."""
    found: dict[str, list[quantities.Agreement]] = {}
    seconds, computed = [], []
    long = [pair for pair in observed.pairs if max(len(FOLDED.words(text)) for text in pair) > 2]
    explain(ranker, *long[0])  # traces the model's functions
    for query, title in long[:EXPLAINED]:
        started, busy = perf_counter(), process_time()
        explanation = explain(ranker, query, title)
        seconds.append(perf_counter() - started)
        computed.append(process_time() - busy)
        for side in (explanation.query, explanation.title):
            by = {}
            if side.standard_errors is None:
                by["Shapley values"] = side.contributions
            if side.features is not None:
                won = [place for _, place in winners(side.features)]
                by["top neurons won"] = np.bincount(won, minlength=len(side.words)).astype(float)
                won = side.features.argmax(axis=0)
                by["all neurons won"] = np.bincount(won, minlength=len(side.words)).astype(float)
            for name, values in by.items():
                found.setdefault(name, []).append(quantities.agreement(values, side.lost))
            for reading in side.readings:
                lost = side.lost[::-1][1:] if reading.backwards else side.lost[1:]
                for name, values in inside(reading)[1].items():
                    found.setdefault(name, []).append(quantities.agreement(values, lost))
    for name, of_texts in found.items():
        kendall, spearman = np.nanmean(np.array(of_texts), axis=0)
        yield f"{name}: Kendall", float(kendall)
        yield f"{name}: Spearman", float(spearman)
    yield "explain: median seconds", float(np.median(seconds))
    yield "explain: most seconds", float(np.max(seconds))
    yield "explain: median CPU seconds", float(np.median(computed))
    yield "explain: most CPU seconds", float(np.max(computed))


def observe(ranker: SemanticRanker, observed: Observed, topics: np.ndarray) -> Values:
    """Every quantity of a model, by name."""
    tower, read = ranker.model.query_tower, []
    if isinstance(tower, RecurrentTower):
        sides = zip(*observed.pairs, strict=True)
        read = [list(readings(tower, ranker.vocabulary, side)) for side in sides]
    yield from stop_words(ranker, observed, read)
    yield from first_keywords(ranker, observed, read)
    yield from topic_cells(ranker, observed, topics)
    yield from first_words(ranker, observed)
    yield from scores(ranker, observed)


def looked_at(observed: Observed, runs: Mapping[str, Sequence[Path]], known: set) -> Iterator[Row]:
    """Every quantity of every run that is not known."""
    topics = topics_of(observed)
    with progress_of(f"{observed.name}: looking", len(runs), True, "systems") as task:
        for system, of_system in runs.items():
            missing = {
                seed: run
                for seed, run in enumerate(of_system)
                if (observed.name, system, seed) not in known
            }
            ranker = SemanticRanker.load(of_system[0], system) if missing else None
            # One model with the weights of each seed in turn: its functions are traced once.
            for seed, run in missing.items():
                ranker.model.load_weights(run / WEIGHTS)
                for name in variants(ranker, system, seed):
                    for quantity, value in observe(ranker, observed, topics):
                        yield observed.name, name, seed, quantity, value
                for quantity, value in agreements(ranker, observed):
                    yield observed.name, system, seed, quantity, value
            task.advance(state=system)


def read_rows(path: Path) -> list[Row]:
    """What an earlier call wrote."""
    lines = path.read_text("utf-8").splitlines()[1:] if path.exists() else []
    cells = [line.split("\t") for line in lines]
    return [
        (name, system, int(seed), what, float(value)) for name, system, seed, what, value in cells
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with bestbuy/ and homedepot/")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--systems", default=SYSTEMS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="whole logs, whole trainings")
    options = parser.parse_args(argv)
    if options.data is None and options.sets != "webquestions":
        parser.error("--data is missing; only --sets webquestions needs none.")
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data: there is no folder {options.data}")
    table = options.out / "observations.tsv"
    rows = read_rows(table)
    for name in options.sets.split(","):
        observed = SETS[name](options.data, options.whole)
        systems = options.systems.split(",")
        runs = trained(observed, systems, options.seeds, options.out, options.whole)
        rows += looked_at(observed, runs, {row[:3] for row in rows})
        cells = ([*map(str, row[:4]), f"{row[4]:.6g}"] for row in rows)
        write_table(table, ("set", "system", "seed", "quantity", "value"), cells)
    show(rows, options.out, sys.stdout)


if __name__ == "__main__":
    main()
