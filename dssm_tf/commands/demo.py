"""`dssm demo`: runs the usual commands on bundled data, and writes a page that searches."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from dssm_tf.commands import load_command
from dssm_tf.common.command_line import run
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write, refilled_directory
from dssm_tf.common.paths import AnyPath
from dssm_tf.common.terminal import say

if TYPE_CHECKING:
    from dssm_tf.demo_page.page import DemoResults, MeasuredSystem, SimilarPair
    from dssm_tf.runtime.maxsim_ranker import MaxSimRanker

PAGE = "index.html"
"""The file name of the page."""

_CLICKS, _CORPUS = "data/clicks.tsv", "data/corpus.tsv"
_JUDGMENTS, _MISSPELLED = "data/judgments.tsv", "data/judgments_typing_errors.tsv"
_EVALUATION, _TYPING_ERRORS = "evaluation", "evaluation_typing_errors"

# `start.spelling=false` halves the time of training. On these data, validation does not choose the
# misspelled training rows.
_COMMANDS = f"""\
preprocess --input {{out}}/{_CLICKS} --corpus {{out}}/{_CORPUS} --output {{out}}/preprocessed
train --config maxsim --set start.spelling=false --data {{out}}/preprocessed \
--out {{out}}/runs/maxsim
train --config dssm --data {{out}}/preprocessed --out {{out}}/runs/dssm
evaluate --model {{out}}/runs/maxsim --model {{out}}/runs/dssm --judgments {{out}}/{_JUDGMENTS} \
--corpus {{out}}/{_CORPUS} --out {{out}}/{_EVALUATION}
evaluate --model {{out}}/runs/maxsim --model {{out}}/runs/dssm --judgments {{out}}/{_MISSPELLED} \
--corpus {{out}}/{_CORPUS} --out {{out}}/{_TYPING_ERRORS}
export --model {{out}}/runs/dssm --out {{out}}/export
"""
_OWNED_PATTERNS = (
    ".dssm-demo", "data", "preprocessed", "runs", _EVALUATION, _TYPING_ERRORS, "export", PAGE, ".*",
)  # fmt: skip
_NEXT_COMMAND = (
    "dssm benchmark --clicks CLICKS.tsv --corpus TITLES.tsv --judge-later 0.2 "
    "--systems bm25,maxsim,dssm --out BENCH"
)
_USE_COMMANDS = (
    "dssm preprocess --input CLICKS.tsv --corpus TITLES.tsv --output DATA",
    "dssm train --data DATA --out RUN",
    "dssm index --model RUN --corpus TITLES.tsv --out INDEX",
    "dssm serve --index INDEX",
)
_SYSTEMS = {
    "maxsim": "the model of this page: compares words and texts",
    "dssm": "compares one vector per text",
    "bm25": "counts equal words; learns nothing",
}
EXAMPLES = {
    "what is the name of the capital of belguim?": "typing error",
    "what are the official languages of the eu?": "",
    "what bible do catholics follow?": "",
    "what language does egyptian people speak?": "",
    "what basketball teams has shaq played for?": "",
}
"""Questions to try, each with a note. They are test questions, one of them misspelled."""

_LEARNED_WORDS = ("uk", "eu", "usa", "cars", "ny", "nba")
_MIN_SIMILARITY = 0.5  # of a pair of learned words that the page shows


def demo(*, out: AnyPath = Path("build/demo")) -> None:
    """Try everything on bundled data, from a click log to a page that searches.

    Runs the usual commands on WebQuestions and prints each of them: preprocess, train maxsim and
    dssm, evaluate them against BM25 with and without typing errors, and export. The last step
    writes a page with the results and a search box; it needs no server.

        dssm demo --out demo

    Args:
        out: directory to write; the results of an earlier demo are replaced. If the demo fails,
            the earlier results are restored.

    Raises:
        UserError: `out` contains other files, another process writes it, or a command failed.
    """
    out = Path(out)
    with refilled_directory(out, owned_patterns=_OWNED_PATTERNS, last_file=PAGE):
        write_data(out / "data")
        commands = _COMMANDS.format(out=shlex.quote(str(out))).splitlines()
        seconds = {}
        for number, line in enumerate(commands, start=1):
            say("", f"{number}. dssm {line}")
            words, started = shlex.split(line), monotonic()
            if run(f"dssm {words[0]}", load_command(words[0]), words[1:]):
                raise UserError(f"dssm {words[0]} failed; its message is above.")
            seconds[line] = monotonic() - started
        training = next((time for line, time in seconds.items() if "--config maxsim" in line), 0.0)
        write_page(out, training, [f"dssm {line}" for line in commands])
    say(
        "",
        f"with your own log: {_NEXT_COMMAND}",
        f"open in a browser: {out / PAGE} (results, and a search box to try)",
    )


def write_data(directory: Path) -> None:
    """Writes a log of the training questions, judgments from the test questions, and a corpus.

    The judgments are written twice, the second time with a typing error in each question.
    """
    from dssm_tf.tables import columns
    from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus, write_judgments
    from dssm_tf.tables.read import read
    from dssm_tf.tables.writer import write_table
    from dssm_tf.text.typos import with_typo

    with as_file(files("dssm_tf.datasets") / "webquestions" / "pairs.tsv") as table:
        names = ("query_id", "split", "query", "title")
        rows = read(table, [*map(columns.unchanged, names)]).select(names).rows()
    ids = {title: f"wq{i:05d}" for i, title in enumerate(dict.fromkeys(row[3] for row in rows), 1)}
    clicks = ((query, title) for _, split, query, title in rows if split != "test")
    write_table(directory / "clicks.tsv", ("query", "title"), clicks)
    judgments = dict.fromkeys(
        Judgment(query_id, query, ids[title], title, 1.0)
        for query_id, split, query, title in rows
        if split == "test"
    )
    write_judgments(directory / "judgments.tsv", list(judgments))
    misspelled = [judgment._replace(query=with_typo(judgment.query)) for judgment in judgments]
    write_judgments(directory / "judgments_typing_errors.tsv", misspelled)
    write_corpus(directory / "corpus.tsv", [CorpusTitle(ids[title], title) for title in ids])


def write_page(out: Path, seconds: float, commands: Sequence[str]) -> None:
    """Writes the page with the results.

    Args:
        out: directory of a demo with the results of all commands.
        seconds: duration of the training of maxsim.
        commands: the commands that ran.
    """
    from dssm_tf.demo_page.page import Example, render
    from dssm_tf.evaluation.ranking import tie_key
    from dssm_tf.export.load import load
    from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
    from dssm_tf.tables.judgments import read_corpus

    ranker = load(out / "runs" / "maxsim")
    if not isinstance(ranker, MaxSimRanker):
        raise UserError(f"{out / 'runs' / 'maxsim'} has no model with the score maxsim.")
    titles = sorted({row.title for row in read_corpus(out / _CORPUS)}, key=tie_key)
    results = _results(out, ranker, len(titles), seconds, commands)
    examples = [Example(*row) for row in EXAMPLES.items()]
    with atomic_write(out / PAGE) as file:
        file.write(render(results, ranker, titles, examples))


def _results(
    out: Path, ranker: MaxSimRanker, titles: int, seconds: float, commands: Sequence[str]
) -> DemoResults:
    """The results that the page shows; see `write_page`."""
    from dssm_tf.demo_page.page import DemoResults

    clicks = len((out / _CLICKS).read_text("utf-8").splitlines()) - 1
    counts = ranker.vocabulary.counts
    letter_ngrams = sum(number for kind, number in counts.items() if kind != "whole_word")
    metrics, misspelled = (
        json.loads((out / name / "metrics.json").read_bytes())
        for name in (_EVALUATION, _TYPING_ERRORS)
    )
    systems, interval = measured_systems(metrics["systems"], misspelled["systems"])
    return DemoResults(
        numbers={
            "clicks": f"{clicks:,}",
            "titles": f"{titles:,}",
            "different words in titles": f"{len(ranker.maxsim.frequencies.words):,}",
            "letter n-grams (pieces of words)": f"{letter_ngrams:,}",
        },
        clicks=clicks,
        titles=titles,
        measured=metrics["queries"]["measured"],
        seconds=seconds,
        pairs=similar_pairs(ranker),
        columns=("right title first", "with one typing error", "NDCG@10"),
        systems=systems,
        interval=interval,
        note=note_about(metrics["systems"]),
        next_command=_NEXT_COMMAND,
        use_commands=_USE_COMMANDS,
        commands=commands,
    )


def measured_systems(
    metrics: Mapping[str, Any], misspelled: Mapping[str, Any]
) -> tuple[list[MeasuredSystem], float]:
    """The rows of the table, and the largest half-width of the 95 % intervals in points.

    Each question has titles of grade 1 only, so NDCG@1 is the fraction of questions whose first
    title is right.

    Args:
        metrics: `systems` of metrics.json.
        misspelled: the same for questions with typing errors.
    """
    from dssm_tf.demo_page.page import MeasuredSystem

    rows, half_widths = [], []
    for name, description in _SYSTEMS.items():
        first, with_error = (100 * systems[name]["ndcg@1"] for systems in (metrics, misspelled))
        ndcg = f"{metrics[name]['ndcg@10']:.3f}".removeprefix("0")
        values = (f"{first:.1f}\u00a0%", f"{with_error:.1f}\u00a0%", ndcg)
        label = "BM25" if name == "bm25" else name
        rows.append(MeasuredSystem(label, description, values))
        for low, high in (systems[name]["ci95"]["ndcg@1"] for systems in (metrics, misspelled)):
            half_widths.append(50 * (high - low))
    return rows, max(half_widths)


def note_about(metrics: Mapping[str, Any]) -> str:
    """A sentence about the table, if another model is ahead; see `measured_systems`."""
    if metrics["dssm"]["ndcg@1"] <= metrics["maxsim"]["ndcg@1"]:
        return ""
    return (
        "On these names of people and places, dssm is ahead. On a large catalog of products, "
        "maxsim is ahead (docs/results.md)."
    )


def similar_pairs(ranker: MaxSimRanker) -> list[SimilarPair]:
    """Some words of questions with the most similar other word of titles."""
    from dssm_tf.demo_page.page import SimilarPair
    from dssm_tf.runtime.similar_words import SimilarWords

    words = list(ranker.maxsim.frequencies.words)
    similar = SimilarWords(ranker.maxsim, words)
    pairs = []
    for word in _LEARNED_WORDS:
        rows, similarities = similar.of_word(word)
        for row, similarity in zip(rows.tolist(), similarities.tolist(), strict=True):
            if words[row] != word:
                pairs.append(SimilarPair(word, words[row], similarity))
                break
    return [pair for pair in pairs if pair.similarity >= _MIN_SIMILARITY]
