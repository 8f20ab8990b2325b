"""`dssm data judged`: judgments, where there is no log, as what preprocess and train take."""

from __future__ import annotations

from pathlib import Path

from dssm_tf.commands.flags import TITLES, TitleTables, fields_flag
from dssm_tf.common.errors import UserError
from dssm_tf.common.terminal import say

_GOOD = 0.75  # of the best grade


def judged(
    *,
    judgments: Path,
    out: Path,
    hold_out_queries: float = 0.0,
    good_from: float | None = None,
    tables: TitleTables = TITLES,
) -> None:
    """Make a log, a corpus and held-out judgments from judgments alone.

    Writes clicks.tsv, the pairs with good grades as a log (`preprocess --input`); corpus.tsv, all
    titles; judgments.tsv, to learn from (`dssm train --judgments`); with --hold-out-queries also
    held_out.tsv, to measure with (`dssm evaluate --judgments`); no query is in both of these.

        dssm data judged --judgments judgments.tsv --hold-out-queries 0.2 --out PARTS

    Args:
        judgments: table with query, title, grade
        out: directory to write, new
        hold_out_queries: share of the queries to measure with
        good_from: least grade of the pairs in clicks.tsv; three quarters of the best by default
        tables: how the files are laid out

    Raises:
        UserError: a flag or the table is unusable, a part would be empty, or the output exists.
    """
    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.config import JudgmentsConfig
    from dssm_tf.tables.cells import LARGEST_GRADE
    from dssm_tf.tables.click_log import LogRow, write_log
    from dssm_tf.tables.graded_lists import read_grades, write_lists
    from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus, write_judgments
    from dssm_tf.tables.splits import HELD_OUT, is_held_out
    from dssm_tf.text.rules import FOLDED

    layout, share = tables.layout(), hold_out_queries
    fields = layout.title_fields
    if not 0 <= share < 1:
        raise UserError(f"--hold-out-queries {share:g}: expected a share from 0 to below 1.")
    refuse_existing(out)
    lists = read_grades(judgments, LARGEST_GRADE, FOLDED, layout=layout)
    best = max(max(one.values) for one in lists)
    good = _GOOD * best if good_from is None else good_from
    held_out = [one for one in lists if is_held_out(one.query, share, HELD_OUT)]
    learned = [one for one in lists if not is_held_out(one.query, share, HELD_OUT)]
    if not learned or (share and not held_out):
        raise UserError(
            f"--hold-out-queries {share:g}: {len(learned):,} queries are left to learn from and "
            f"{len(held_out):,} to measure with; choose another "
            "share (queries are chosen by their text)."
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
    say(*lines)
