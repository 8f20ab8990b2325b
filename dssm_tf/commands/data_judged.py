"""`dssm data judged`: judgments, where there is no log, as what preprocess and train take."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.parser import (
    Commands,
    add_encoding,
    add_title_fields,
    command,
    fields_flag,
)
from dssm_tf.common.errors import UserError
from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from rich.console import Console

_DETAILS = """for those who have judgments and no clicks. Writes clicks.tsv, the pairs with good
grades as a log (`preprocess --input`); corpus.tsv, all titles; judgments.tsv, to learn from (`dssm
train --judgments`); with --hold-out-queries also held_out.tsv, to measure with (`dssm evaluate
--judgments`). No query is in both of the last two"""
_GOOD = 0.75  # of the best grade


def add(tasks: Commands) -> None:
    """Adds the task to `dssm data`."""
    parser = command(
        tasks, "judged", judged_command, "make a log, a corpus and judgments of judgments alone",
        _DETAILS,
    )  # fmt: skip
    parser.add_argument(
        "--judgments",
        required=True,
        type=Path,
        metavar="FILE",
        help="table with query, title, grade",
    )
    parser.add_argument(
        "--hold-out-queries", type=float, default=0.0, metavar="SHARE", help="to measure with"
    )
    parser.add_argument(
        "--good-from",
        type=float,
        metavar="GRADE",
        help="least grade of the pairs in clicks.tsv; three quarters of the best one by default",
    )
    add_encoding(parser)
    add_title_fields(parser)
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")


def judged_command(arguments: argparse.Namespace, console: Console | None = None) -> None:
    """Divides judgments; nothing is left at `--out` if it fails.

    Args:
        arguments: the parsed flags.
        console: where to print; a new one by default.

    Raises:
        UserError: a flag or the table is unusable, a part would be empty, or the output exists.
    """
    from rich.console import Console

    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.config import JudgmentsConfig
    from dssm_tf.tables.cells import LARGEST_GRADE
    from dssm_tf.tables.click_log import LogRow, write_log
    from dssm_tf.tables.graded_lists import read_grades, write_lists
    from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus, write_judgments
    from dssm_tf.tables.splits import HELD_OUT, is_held_out
    from dssm_tf.text.rules import FOLDED

    console = console or Console()
    out, share = arguments.out, arguments.hold_out_queries
    fields = parse_fields(arguments.title_fields)
    if not 0 <= share < 1:
        raise UserError(f"--hold-out-queries {share:g}: expected a share from 0 to below 1.")
    refuse_existing(out)
    lists = read_grades(arguments.judgments, LARGEST_GRADE, FOLDED, arguments.encoding, fields)
    best = max(max(one.values) for one in lists)
    good = _GOOD * best if arguments.good_from is None else arguments.good_from
    held_out = [one for one in lists if is_held_out(one.query, share, HELD_OUT)]
    learned = [one for one in lists if not is_held_out(one.query, share, HELD_OUT)]
    if not learned or (share and not held_out):
        raise UserError(
            f"--hold-out-queries {share:g}: {len(learned):,} queries are left to learn from and "
            f"{len(held_out):,} to measure with; choose another share, of a table that was "
            "divided before a larger one (queries are chosen by their text)."
        )
    clicks = [
        LogRow(one.query, title)
        for one in learned
        for title, grade in zip(one.titles, one.values, strict=True)
        if grade >= good and grade > 0
    ]
    if not clicks:
        raise UserError(
            f"--good-from {good:g}: no pair to learn from has such a grade; the best is {best:g}."
        )
    texts = sorted({title for one in lists for title in one.titles})
    ids = {title: f"t{number:06d}" for number, title in enumerate(texts, start=1)}
    names = ["clicks.tsv", "corpus.tsv", "judgments.tsv"]
    with atomic_directory(out) as aside:
        write_log(aside / names[0], clicks, fields)
        write_corpus(aside / names[1], [CorpusTitle(ids[title], title) for title in texts], fields)
        write_lists(aside / names[2], "grade", learned, fields)
        if held_out:
            names.append("held_out.tsv")
            write_judgments(
                aside / names[3],
                [
                    Judgment(f"q{number:06d}", one.query, ids[title], title, grade)
                    for number, one in enumerate(held_out, start=1)
                    for title, grade in zip(one.titles, one.values, strict=True)
                ],
                fields,
            )
    same = fields_flag(fields)
    usual = JudgmentsConfig.model_fields["max_grade"].default
    scale = f" --set judgments.max_grade={best:g}" if best > usual else ""
    lines = [
        f"{out}: {len(learned):,} queries to learn from, {len(held_out):,} to measure with, "
        f"{len(texts):,} titles; {len(clicks):,} pairs with a grade of at least {good:g} as clicks",
        f"written: {', '.join(names)}",
        f"next: dssm preprocess --input {out}/clicks.tsv --corpus {out}/corpus.tsv{same} "
        "--output DATA",
        f"      dssm train --config dssm --data DATA --judgments {out}/judgments.tsv{scale} "
        "--out RUN",
    ]
    if held_out:
        lines.append(
            f"      dssm evaluate --model RUN --judgments {out}/held_out.tsv{same} --out EVALUATION"
        )
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
