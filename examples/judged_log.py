"""Makes a log, a corpus and held-out judgments from judgments alone, where there is no log.

    python examples/judged_log.py --judgments judgments.tsv --hold-out-queries 0.2 --out PARTS
    dssm preprocess --input PARTS/clicks.tsv --corpus PARTS/corpus.tsv --output DATA
    dssm train --config dssm --data DATA --judgments PARTS/judgments.tsv --out RUN
    dssm evaluate --model RUN --judgments PARTS/held_out.tsv --out EVALUATION

clicks.tsv holds the pairs with good grades as a log, corpus.tsv all titles, judgments.tsv what to
learn from; held_out.tsv, what to measure with, shares no query with it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dssm_tf import UserError
from dssm_tf.common.files import atomic_directory
from dssm_tf.config.lists import JudgmentsConfig
from dssm_tf.tables.cells import LARGEST_GRADE
from dssm_tf.tables.click_log import LogRow, log_frame, write_log
from dssm_tf.tables.graded_lists import read_lists, write_lists
from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus, write_judgments
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.splits import HELD_OUT, is_held_out
from dssm_tf.text.fields import parse_fields
from dssm_tf.text.rules import FOLDED

GOOD = 0.75  # of the best grade


def make(judgments: Path, out: Path, share: float, good: float | None, layout: Layout) -> str:
    """Writes the tables.

    Args:
        judgments: table with query, title, grade.
        out: directory to write, new.
        share: of the queries to measure with.
        good: least grade of the pairs in clicks.tsv; by default three quarters of the best.
        layout: of the table; titles are written as one column.

    Returns:
        What was done, in a line.

    Raises:
        UserError: the table is unusable, a part would be empty, or the output exists.
    """
    lists = read_lists(judgments, "grade", (0, LARGEST_GRADE), FOLDED, layout)
    best = max(max(one.values) for one in lists)
    good = GOOD * best if good is None else good
    held_out = [one for one in lists if is_held_out(one.query, share, HELD_OUT)]
    learned = [one for one in lists if not is_held_out(one.query, share, HELD_OUT)]
    if not learned or (share and not held_out):
        raise UserError(
            f"--hold-out-queries {share:g}: {len(learned):,} queries are left to learn from and "
            f"{len(held_out):,} to measure with; choose another share."
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
    measured = [
        Judgment(f"q{number:06d}", one.query, ids[title], title, grade)
        for number, one in enumerate(held_out, start=1)
        for title, grade in zip(one.titles, one.values, strict=True)
    ]
    with atomic_directory(out) as folder:
        write_log(folder / "clicks.tsv", log_frame(clicks))
        write_corpus(folder / "corpus.tsv", [CorpusTitle(ids[one], one) for one in texts])
        write_lists(folder / "judgments.tsv", "grade", learned)
        if measured:
            write_judgments(folder / "held_out.tsv", measured)
    usual = JudgmentsConfig.model_fields["max_grade"].default
    scale = f"; train with --set judgments.max_grade={best:g}" if best > usual else ""
    return (
        f"{out}: {len(learned):,} queries to learn from, {len(held_out):,} to measure with, "
        f"{len(texts):,} titles; {len(clicks):,} pairs with a grade of at least {good:g} as "
        f"clicks{scale}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the tables; ends with one line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--judgments", required=True, type=Path, help="table: query, title, grade")
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")
    parser.add_argument("--hold-out-queries", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--good-from", type=float, help="least grade of a click")
    parser.add_argument("--title-fields", default="title", help="columns that make up a title")
    parser.add_argument("--encoding", default="utf-8")
    options = parser.parse_args(argv)
    layout = Layout(options.encoding, parse_fields(options.title_fields))
    share = options.hold_out_queries
    try:
        print(make(options.judgments, options.out, share, options.good_from, layout))
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
