"""`dssm teach`: another model's vectors as scores for `dssm train --teacher`."""

from __future__ import annotations

import filecmp
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dssm_tf.commands.named import named_vectors
from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.common.terminal import say

if TYPE_CHECKING:
    from dssm_tf.benchmark.teacher import Lesson

QUERIES, TITLES, SCORES = "queries.tsv", "titles.tsv", "scores.tsv"


def teach(
    *,
    data: Path,
    out: Path,
    embeddings: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    best: int = 16,
    random: int = 16,
    title_queries: bool = False,
    seed: int = 0,
) -> None:
    """Write a larger model's scores for a small model to learn.

    Writes queries.tsv and titles.tsv, of the log and the corpus that preprocess read. Embed both
    with any model, in their order, and give the same command again with --embeddings: it writes
    scores.tsv for `dssm train --teacher`. Scores of a cross-encoder need no command, but a table
    with query, title and score.

        dssm teach --data DATA --out LESSON
        dssm teach --data DATA --out LESSON --embeddings queries.npy titles.npy

    Args:
        data: directory that preprocess wrote.
        out: directory to write.
        embeddings: QUERIES.npy TITLES.npy, vectors, scored by cosine: rows in the order of
            OUT/queries.tsv and OUT/titles.tsv, or with ids in STEM.ids.txt beside each.
        best: titles per query that the teacher ranks first.
        random: random titles per query.
        title_queries: also score each title as a query.
        seed: of the draw.

    Raises:
        UserError: see `dssm_tf.benchmark.teacher`; or `out` has other data's queries and titles.
    """
    paths = [*named_vectors([",".join(embeddings)], "--embeddings").values()] if embeddings else []
    load_tensorflow()
    from dssm_tf.benchmark.teacher import Lesson
    from dssm_tf.benchmark.teacher import teach as taught
    from dssm_tf.data.preprocessed import Preprocessed
    from dssm_tf.tables.graded_lists import write_lists

    lesson = Lesson.of(Preprocessed(data), title_queries)
    _write_once(lesson, out)
    lines = [
        f"{out}: {len(lesson.queries):,} queries in {QUERIES}, {len(lesson.titles):,} titles in "
        f"{TITLES}; embed both, one row per line without the header",
        "next: the same command with --embeddings QUERIES.npy TITLES.npy",
    ]
    if paths:
        write_lists(
            out / SCORES, "score", taught(lesson, paths[0], best, random, seed, progress=True)
        )
        lines = [
            f"{out / SCORES}: scores of {len(lesson.queries):,} queries, for each the clicked "
            f"titles, the teacher's first {best} and {random} drawn at random",
            f"next: dssm train --config dssm --data {data} --teacher {out / SCORES} --out RUN",
        ]
    say(*lines)


def _write_once(lesson: Lesson, out: Path) -> None:
    """Writes what to embed; raises UserError if `out` has that of other data.

    Vectors that were made of other queries and titles would be taken for those of these.
    """
    with TemporaryDirectory() as folder:
        lesson.write(Path(folder))
        _, other, _ = filecmp.cmpfiles(folder, out, (QUERIES, TITLES), shallow=False)
        if other:
            raise UserError(
                f"{out / other[0]} is of other data, or of another --title-queries; choose "
                "another --out, and embed what is written there."
            )
        shutil.copytree(folder, out, dirs_exist_ok=True)
