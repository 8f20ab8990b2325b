"""`dssm demo`: runs the usual commands on bundled data, from a click log to an exported ranker."""

from __future__ import annotations

import shlex
import shutil
from importlib.resources import as_file, files
from pathlib import Path

from dssm_tf.commands import load_command
from dssm_tf.common.command_line import run
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import check_replaceable
from dssm_tf.common.paths import AnyPath
from dssm_tf.common.terminal import say
from dssm_tf.reports.markdown import PAGE, write

_COMMANDS = """\
preprocess --input {out}/data/clicks.tsv --corpus {out}/data/corpus.tsv --output {out}/preprocessed
train --config dssm --data {out}/preprocessed --out {out}/runs/dssm
train --config lstm --data {out}/preprocessed --out {out}/runs/lstm
evaluate --model {out}/runs/dssm --model {out}/runs/lstm --judgments {out}/data/judgments.tsv \
--corpus {out}/data/corpus.tsv --out {out}/evaluation
report --model {out}/runs/dssm --beside {out}/runs/lstm --judgments {out}/data/judgments.tsv \
--corpus {out}/data/corpus.tsv --out {out}/report
export --model {out}/runs/dssm --out {out}/export
export --model {out}/runs/lstm --out {out}/export
search --model {out}/runs/dssm --corpus {out}/data/corpus.tsv --k 3 "capital of austrailia" \
"where is the grand canion"
"""
_OWNED_PATTERNS = (
    ".dssm-demo", "data", "preprocessed", "runs", "evaluation", "report", "export", "report.md",
    "report.html", ".*",
)  # fmt: skip
_NEXT_COMMAND = (
    "dssm benchmark --clicks CLICKS.tsv --corpus TITLES.tsv --judge-later 0.2 "
    "--systems bm25,dssm --out BENCH"
)
_PAGE = """\
# Results of the demo

Two models learned from questions and the titles that answer them (WebQuestions, Berant, Chou,
Frostig and Liang 2013, CC BY 4.0).

- [The two models and BM25, measured on other questions](evaluation/report.html), with the questions
  that each answers better
- [What they have learned](report/report.html): explained pairs, learning curves
- Model cards: [dssm](runs/dssm/MODEL_CARD.md), [lstm](runs/lstm/MODEL_CARD.md)
- SavedModels for TensorFlow Serving: [dssm](export/dssm/1), [lstm](export/lstm/1)
- The data: [the log](data/clicks.tsv), [all titles](data/corpus.tsv),
  [judgments](data/judgments.tsv), [the report of preprocessing](preprocessed/report.json)

## Next, with your own click log

Compare a model with BM25, with the last fifth of the clicks as judgments. CLICKS.tsv has the
columns `query`, `title` and `timestamp`, TITLES.tsv has `doc_id` and `title`:

    {yours}

Then train a model and search with it:

    dssm preprocess --input CLICKS.tsv --corpus TITLES.tsv --output DATA
    dssm train --config dssm --data DATA --out RUN
    dssm index --model RUN --corpus TITLES.tsv --out INDEX
    dssm serve --index INDEX

## The commands that ran

{commands}
"""


def demo(*, out: AnyPath = Path("build/demo")) -> None:
    """Try everything on bundled data, from a click log to an exported ranker.

    Runs the usual commands on WebQuestions and prints each of them: preprocess, train dssm and
    lstm, evaluate them against BM25, report, export and search.

        dssm demo --out demo

    Args:
        out: directory to write; the results of an earlier demo are replaced.

    Raises:
        UserError: `out` contains other files, or a command failed.
    """
    out = Path(out)
    check_replaceable(out, _OWNED_PATTERNS)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / _OWNED_PATTERNS[0]).touch()
    write_data(out / "data")
    commands = _COMMANDS.format(out=shlex.quote(str(out))).splitlines()
    for number, line in enumerate(commands, start=1):
        say("", f"{number}. dssm {line}")
        words = shlex.split(line)
        if run(f"dssm {words[0]}", load_command(words[0]), words[1:]):
            raise UserError(f"dssm {words[0]} failed; its message is above.")
    command_lines = "\n".join(f"    dssm {line}" for line in commands)
    write(out, _PAGE.format(yours=_NEXT_COMMAND, commands=command_lines))
    say("", f"open: {out / PAGE}", f"with your own log: {_NEXT_COMMAND}")


def write_data(directory: Path) -> None:
    """Writes a log of the training questions, judgments from the test questions, and a corpus."""
    from dssm_tf.tables import columns
    from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus, write_judgments
    from dssm_tf.tables.read import read
    from dssm_tf.tables.writer import write_table

    with as_file(files("dssm_tf.datasets") / "webquestions" / "pairs.tsv") as table:
        names = ("query_id", "split", "query", "title")
        rows = read(table, [*map(columns.raw, names)]).select(names).rows()
    ids = {title: f"wq{i:05d}" for i, title in enumerate(dict.fromkeys(row[3] for row in rows), 1)}
    clicks = ((query, title) for _, split, query, title in rows if split != "test")
    write_table(directory / "clicks.tsv", ("query", "title"), clicks)
    judgments = dict.fromkeys(
        Judgment(query_id, query, ids[title], title, 1.0)
        for query_id, split, query, title in rows
        if split == "test"
    )
    write_judgments(directory / "judgments.tsv", list(judgments))
    write_corpus(directory / "corpus.tsv", [CorpusTitle(ids[title], title) for title in ids])
