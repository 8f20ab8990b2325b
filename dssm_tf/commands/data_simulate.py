"""`dssm data simulate`: click logs with a known position bias, made of judged lists."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.parser import Commands, add_encoding, command
from dssm_tf.common.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.positions.simulation import JudgedList
    from dssm_tf.tables.graded_lists import GradedList

_DETAILS = """To try what position bias does to a training, and whether `dssm preprocess
--position-weights` finds it. Rankers order each query's judged titles by BM25, each with noise of
its own; simulated users look at position k with probability k^-ETA and click what is relevant. The
log has query, title, position, impressions, clicks"""
_LISTS_AT_ONCE = 50  # scored in one matrix


def add(tasks: Commands) -> None:
    """Adds the task to `dssm data`."""
    parser = command(
        tasks, "simulate", simulate_command, "make a click log of judged lists", _DETAILS
    )
    parser.add_argument(
        "--judgments", required=True, type=Path, metavar="FILE",
        help="table with query, title, grade",
    )  # fmt: skip
    parser.add_argument(
        "--corpus", type=Path, metavar="FILE",
        help="table with doc_id, title: titles that the rankers' BM25 counts words in; those of "
        "the judgments if not given",
    )  # fmt: skip
    parser.add_argument(
        "--model", default="position", choices=("position", "cascade", "trust"),
        help="how users click: position: by position and relevance; cascade: from the top to the "
        "first click; trust: also what stands high because it does",
    )  # fmt: skip
    parser.add_argument("--eta", type=float, default=1.0, help="position bias, 0 to 2; 0: none")
    parser.add_argument("--sessions", type=int, default=100_000, help="lists shown")
    parser.add_argument(
        "--lists", type=int, default=0, help="queries, drawn from the judged; 0: all"
    )
    parser.add_argument("--length", type=int, default=10, help="titles that a list shows at most")
    parser.add_argument(
        "--rankers",
        type=int,
        default=3,
        help="one of which answers each session; 1: no title moves",
    )
    parser.add_argument(
        "--ranker-noise", type=float, default=1.0,
        help="of the rankers' scores, in standard deviations of a list's BM25",
    )  # fmt: skip
    parser.add_argument(
        "--click-noise", type=float, default=0.1, help="clicks on a title of grade 0, 0 to 1"
    )
    parser.add_argument(
        "--trust", type=float, default=0.3, help="share of other titles clicked at the top, 0 to 1"
    )
    parser.add_argument("--seed", type=int, default=0, help="same flags and seed: same log")
    add_encoding(parser)
    parser.add_argument("--out", required=True, type=Path, metavar="LOG.tsv", help="log to write")


def simulate_command(arguments: argparse.Namespace, console: Console | None = None) -> None:
    """Writes a simulated log.

    Args:
        arguments: the parsed flags.
        console: where to print; a new one by default.

    Raises:
        UserError: a flag or a table is unusable, or the output exists.
    """
    from rich.console import Console

    from dssm_tf.common.files import refuse_existing
    from dssm_tf.positions.simulation import COLUMNS, Users, simulate
    from dssm_tf.tables.cells import LARGEST_GRADE
    from dssm_tf.tables.graded_lists import read_grades
    from dssm_tf.tables.judgments import read_corpus
    from dssm_tf.tables.writer import write_table

    console = console or Console()
    out = arguments.out
    users = Users(arguments.model, arguments.eta, arguments.click_noise, arguments.trust)
    refuse_existing(out)
    judged = read_grades(arguments.judgments, LARGEST_GRADE, arguments.encoding)
    corpus = read_corpus(arguments.corpus, arguments.encoding) if arguments.corpus else None
    lists = judged_lists(
        judged, None if corpus is None else [one.title for one in corpus],
        arguments.lists, arguments.seed,
    )  # fmt: skip
    rows = list(
        simulate(
            lists,
            users,
            arguments.sessions,
            rankers=arguments.rankers,
            ranker_noise=arguments.ranker_noise,
            length=arguments.length,
            seed=arguments.seed,
        )
    )
    write_table(out, COLUMNS, (map(str, row) for row in rows))
    truth = ", ".join(f"{one:.3g}" for one in users.examination(arguments.length))
    lines = [
        f"{out}: {arguments.sessions:,} sessions of {len(lists):,} queries, "
        f"{sum(row.clicks for row in rows):,} clicks",
        f"positions 1, 2, ... are looked at with probability {truth}"
        + (" if nothing above is clicked" if users.model == "cascade" else ""),
        f"next: dssm preprocess --input {out} --position-weights auto --output DATA",
    ]
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def judged_lists(
    judged: Sequence[GradedList],
    corpus: Sequence[str] | None = None,
    number: int = 0,
    seed: int = 0,
) -> list[JudgedList]:
    """The judged titles of each query with their BM25 scores.

    Args:
        judged: of all queries.
        corpus: titles that BM25 counts words in; the judged ones by default.
        number: of queries, drawn; 0 for all.
        seed: of the draw.

    Raises:
        UserError: there are fewer queries.
    """
    import numpy as np

    from dssm_tf.baselines.bm25 import BM25
    from dssm_tf.positions.simulation import JudgedList

    if not 0 <= number <= len(judged):
        raise UserError(f"--lists {number}: expected 0 to {len(judged):,}, the judged queries.")
    places = np.random.default_rng(seed).permutation(len(judged))[: number or None]
    chosen = [judged[place] for place in sorted(places)]
    ranker = BM25().fit(
        [], corpus or dict.fromkeys(title for one in judged for title in one.titles)
    )
    lists = []
    for start in range(0, len(chosen), _LISTS_AT_ONCE):
        some = chosen[start : start + _LISTS_AT_ONCE]
        titles = list(dict.fromkeys(title for one in some for title in one.titles))
        place = {title: at for at, title in enumerate(titles)}
        scores = ranker.score_matrix([one.query for one in some], titles)
        lists += [
            JudgedList(
                one.query, one.titles, np.array(one.values), row[[place[t] for t in one.titles]]
            )
            for one, row in zip(some, scores, strict=True)
        ]
    return lists
