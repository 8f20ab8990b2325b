"""Makes a log, a corpus and held-out judgments from judgments, if no click log is available.

    python examples/judged_log.py --judgments judgments.tsv --hold-out-queries 0.2 --out SPLIT
    dssm preprocess --input SPLIT/clicks.tsv --corpus SPLIT/corpus.tsv --output DATA
    dssm train --config dssm --data DATA --judgments SPLIT/judgments.tsv --out RUN
    dssm evaluate --model RUN --judgments SPLIT/held_out.tsv --out EVALUATION

clicks.tsv contains the training pairs with good grades as clicks, corpus.tsv all titles, and
judgments.tsv the training judgments. held_out.tsv contains the test judgments; no query is in both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dssm_tf import UserError
from dssm_tf.common.files import atomic_directory
from dssm_tf.config.lists import JudgmentsConfig
from dssm_tf.tables.cells import MAX_GRADE
from dssm_tf.tables.click_log import LogRow, log_frame, write_log
from dssm_tf.tables.graded_lists import read_lists, write_lists
from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus, write_judgments
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.splits import BENCHMARK_SPLIT, is_held_out
from dssm_tf.text.fields import parse_fields
from dssm_tf.text.rules import FOLDED

GOOD_FRACTION = 0.75  # of the best grade; pairs with at least this grade become clicks


def write_tables(
    judgments: Path, out: Path, test_fraction: float, min_grade: float | None, layout: Layout
) -> str:
    """Writes the tables.

    Args:
        judgments: table with query, title, grade.
        out: directory to write, new.
        test_fraction: fraction of the queries to hold out for evaluation.
        min_grade: lowest grade of the pairs in clicks.tsv; by default three quarters of the best.
        layout: layout of the table; titles are written as one column.

    Returns:
        A summary in one line.

    Raises:
        UserError: the table is invalid, an output table would be empty, or the output exists.
    """
    lists = read_lists(judgments, "grade", (0, MAX_GRADE), FOLDED, layout)
    best = max(max(graded.values) for graded in lists)
    min_grade = GOOD_FRACTION * best if min_grade is None else min_grade
    held_out = [
        graded for graded in lists if is_held_out(graded.query, test_fraction, BENCHMARK_SPLIT)
    ]
    train = [
        graded for graded in lists if not is_held_out(graded.query, test_fraction, BENCHMARK_SPLIT)
    ]
    if not train or (test_fraction and not held_out):
        raise UserError(
            f"--hold-out-queries {test_fraction:g}: {len(train):,} training queries and "
            f"{len(held_out):,} test queries; choose another fraction."
        )
    clicks = [
        LogRow(graded.query, title)
        for graded in train
        for title, grade in zip(graded.titles, graded.values, strict=True)
        if grade >= min_grade and grade > 0
    ]
    if not clicks:
        raise UserError(
            f"--good-from {min_grade:g}: no training pair has such a grade; the best is {best:g}."
        )
    texts = sorted({title for graded in lists for title in graded.titles})
    ids = {title: f"t{number:06d}" for number, title in enumerate(texts, start=1)}
    test = [
        Judgment(f"q{number:06d}", graded.query, ids[title], title, grade)
        for number, graded in enumerate(held_out, start=1)
        for title, grade in zip(graded.titles, graded.values, strict=True)
    ]
    with atomic_directory(out) as folder:
        write_log(folder / "clicks.tsv", log_frame(clicks))
        write_corpus(folder / "corpus.tsv", [CorpusTitle(ids[title], title) for title in texts])
        write_lists(folder / "judgments.tsv", "grade", train)
        if test:
            write_judgments(folder / "held_out.tsv", test)
    default = JudgmentsConfig.model_fields["max_grade"].default
    scale = f"; train with --set judgments.max_grade={best:g}" if best > default else ""
    return (
        f"{out}: {len(train):,} training queries, {len(held_out):,} test queries, "
        f"{len(texts):,} titles; {len(clicks):,} pairs with a grade of at least {min_grade:g} as "
        f"clicks{scale}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the tables and prints a summary."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--judgments", required=True, type=Path, help="table: query, title, grade")
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")
    parser.add_argument(
        "--hold-out-queries",
        type=float,
        default=0.0,
        metavar="FRACTION",
        help="fraction of test queries",
    )
    parser.add_argument("--good-from", type=float, help="lowest grade of a pair in clicks.tsv")
    parser.add_argument("--title-fields", default="title", help="columns that make up a title")
    parser.add_argument("--encoding", default="utf-8", help="encoding of the table")
    options = parser.parse_args(argv)
    layout = Layout(options.encoding, parse_fields(options.title_fields))
    fraction = options.hold_out_queries
    try:
        print(write_tables(options.judgments, options.out, fraction, options.good_from, layout))
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
