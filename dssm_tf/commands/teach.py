"""`dssm teach`: another model's vectors as scores for `dssm train --teacher`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dssm_tf.commands.named import named_vectors
from dssm_tf.commands.parser import Commands, command
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.benchmark.teacher import Lesson

QUERIES, TITLES, SCORES = "queries.tsv", "titles.tsv", "scores.tsv"


def add(commands: Commands) -> None:
    """Adds the command to the parser."""

    def run(arguments: argparse.Namespace) -> None:
        teach_command(
            arguments.data,
            arguments.out,
            arguments.embeddings,
            arguments.best,
            arguments.random,
            arguments.title_queries,
            arguments.seed,
        )

    parser = command(
        commands,
        "teach",
        run,
        "write another model's scores for a small model to learn from",
        "Writes queries.tsv and titles.tsv, of the log and the corpus that preprocess read. Embed "
        "both with any model, in their order, and give the same command again with --embeddings: "
        "it writes scores.tsv for `dssm train --teacher`. Scores that a cross-encoder gives need "
        "no command, but a table with query, title and score",
    )
    parser.add_argument("--data", required=True, type=Path, help="directory preprocess wrote")
    parser.add_argument("--out", required=True, type=Path, help="directory to write")
    parser.add_argument(
        "--embeddings",
        nargs="+",
        metavar="QUERIES.npy TITLES.npy",
        help="vectors, scored by cosine: rows in the order of OUT/queries.tsv and OUT/titles.tsv, "
        "or with ids in STEM.ids.txt beside each",
    )
    parser.add_argument(
        "--best", type=int, default=16, help="titles a query that the teacher ranks first"
    )
    parser.add_argument("--random", type=int, default=16, help="titles a query drawn from all")
    parser.add_argument(
        "--title-queries", action="store_true", help="also ask about each title as a query"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draw")


def teach_command(
    data: Path,
    out: Path,
    embeddings: Sequence[str] | None = None,
    best: int = 16,
    random: int = 16,
    title_queries: bool = False,
    seed: int = 0,
    console: Console | None = None,
) -> None:
    """Writes what to embed, and the scores where there are vectors.

    Args:
        data: directory preprocess wrote.
        out: gets `queries.tsv` and `titles.tsv`, and `scores.tsv`, replaced when complete.
        embeddings: `[QUERIES.npy, TITLES.npy]`; None writes what to embed alone.
        best: titles a query that the teacher ranks first.
        random: titles a query drawn from all.
        title_queries: whether each title is a query too.
        seed: of the draw.
        console: where to print.

    Raises:
        UserError: see `dssm_tf.benchmark.teacher`; or `out` has other data's queries and titles.
    """
    from rich.console import Console

    console = console or Console()
    paths = None
    if embeddings is not None:
        (paths,) = named_vectors([embeddings], "--embeddings").values()
    load_tensorflow()
    from dssm_tf.benchmark.teacher import Lesson, teach
    from dssm_tf.data.preprocessed import Preprocessed
    from dssm_tf.tables.graded_lists import write_lists

    lesson = Lesson.of(Preprocessed(data), title_queries)
    _write_once(lesson, out)
    if paths is None:
        lines = [
            f"{out}: {len(lesson.queries):,} queries in {QUERIES}, {len(lesson.titles):,} titles "
            f"in {TITLES}; embed both, a row a line without the header",
            "next: the same command with --embeddings QUERIES.npy TITLES.npy",
        ]
    else:
        scored = teach(lesson, paths, best, random, seed, told=True)
        write_lists(out / SCORES, "score", scored)
        lines = [
            f"{out / SCORES}: scores of {len(lesson.queries):,} queries, for each the clicked "
            f"titles, the teacher's first {best} and {random} drawn at random",
            f"next: dssm train --config dssm --data {data} --teacher {out / SCORES} --out RUN",
        ]
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _write_once(lesson: Lesson, out: Path) -> None:
    """Writes what to embed; raises UserError where `out` has that of other data.

    Vectors that were made of other queries and titles would be taken for those of these.
    """
    with TemporaryDirectory() as folder:
        lesson.write(Path(folder))
        for name in (QUERIES, TITLES):
            wanted, path = (Path(folder) / name).read_bytes(), out / name
            if path.exists() and path.read_bytes() != wanted:
                raise UserError(
                    f"{path} is of other data, or of another --title-queries; choose another "
                    "--out, and embed what is written there."
                )
            out.mkdir(parents=True, exist_ok=True)
            with atomic_write(path, "wb") as file:
                file.write(wanted)
