"""`dssm benchmark`: flags to options; light, so that --help is quick."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.named import named_models, named_paths, named_vectors
from dssm_tf.commands.parser import Commands, add_log_flags, command
from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.evaluation.evaluation import Evaluation

DETAILS = (
    "Fits or trains every system for every seed, ranks, and writes one table with significance "
    "tests: report.html, table.md, table.tex, metrics.json, results.json, per_query.json, runs/. "
    "Goes on where it was when the same command is given again. Exit codes: 0 done, 1 failed, 2 "
    "wrong usage, 3 done but for rows that failed; the others are in the table."
)
FAILED_ROWS = 3
"""Exit code of a benchmark that is done but for some rows."""


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    summary = "measure many systems on the same judgments, with tests, in one table"

    def run(arguments: argparse.Namespace) -> int:
        rows = benchmark_command(arguments).rows
        failed = [row.name for row in rows if row.error]
        if failed:
            sys.stderr.write(
                f"dssm benchmark: {len(failed)} of {len(rows)} rows failed: {', '.join(failed)}; "
                "the reasons stand above the table. The same command tries them again.\n"
            )
        return FAILED_ROWS if failed else 0

    parser = command(commands, "benchmark", run, summary, DETAILS, "the same command goes on")
    data = parser.add_argument_group("what to measure on")
    add_log_flags(data)
    data.add_argument(
        "--judgments", type=Path, help="table with query_id, query, doc_id, title, grade; or qrels"
    )
    data.add_argument(
        "--queries", type=Path, help="texts of the queries (query_id, query) of TREC qrels"
    )
    data.add_argument("--corpus", type=Path, help="table with doc_id, title: rank all of it")
    data.add_argument(
        "--judge-later",
        type=float,
        metavar="SHARE",
        help="instead of judgments: learn from the earlier clicks, judge by the latest SHARE",
    )
    data.add_argument(
        "--hold-out-queries",
        type=float,
        metavar="SHARE",
        help="measure on SHARE of the judged queries, and take them out of the click log; "
        "without --judgments, judge them by their clicks",
    )
    data.add_argument(
        "--typos",
        action="store_true",
        help="rank each judged query also with a typing error in its longest word, if that has "
        "four letters: further tables, in OUT/typos",
    )
    data.add_argument(
        "--repeats",
        choices=("refuse", "mean"),
        default="refuse",
        help="what to do with a pair that is judged more than once",
    )

    rows = parser.add_argument_group("rows of the table")
    rows.add_argument(
        "--systems",
        default="all",
        help="comma-separated: baselines and configurations by name, configuration files, "
        "`popularity`, or the groups all, baselines, towers",
    )
    rows.add_argument("--seeds", type=int, default=3, help="seeds of each random system")
    rows.add_argument(
        "--configs",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="train the configuration FILE, or one that comes with the package such as "
        "paper/lstm-96, as the row NAME; may be repeated",
    )
    rows.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a setting of every configuration; may be repeated",
    )
    rows.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="SYSTEM.KEY=V1,V2",
        help="a row a value, e.g. lstm.tower.cells=32,64,96 or plsa.topics=100,500; may be "
        "repeated",
    )
    rows.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="a system as it is, not trained again: what `dssm train` or `dssm export` wrote, or "
        "the directory of a saved baseline; may be repeated",
    )
    rows.add_argument(
        "--runs",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a TREC run file of another system; may be repeated",
    )
    rows.add_argument(
        "--embeddings",
        action="append",
        default=[],
        nargs="+",
        metavar="[NAME=]QUERIES.npy TITLES.npy",
        help="vectors of another model, ranked by cosine: rows in the order of OUT/queries.tsv "
        "and OUT/titles.tsv, or with ids in STEM.ids.txt beside each; may be repeated",
    )
    rows.add_argument(
        "--encoder",
        action="append",
        default=[],
        metavar="[NAME=]MODEL",
        help="an encoder as it is, ranked by cosine: the name or the directory of a "
        "sentence-transformers model; may be repeated",
    )
    rows.add_argument(
        "--learning-curve",
        default="",
        metavar="NAMES",
        help="comma-separated rows that are also fitted on an eighth, a quarter and half of the "
        "clicks",
    )
    rows.add_argument(
        "--hybrid",
        action="append",
        default=[],
        metavar="A+B[+prior]",
        help="fuse rows, and the titles' log-prior, by weighted scores, or by reciprocal ranks "
        "with rrf:A+B; each row alone is there with the prior anyway; may be repeated",
    )

    tests = parser.add_argument_group("metrics and tests")
    tests.add_argument(
        "--metrics",
        default="ndcg@1,ndcg@3,ndcg@10",
        help="comma-separated: ndcg@k, mrr@k, recall@k, precision@k, map",
    )
    tests.add_argument(
        "--tune", default="ndcg@10", help="what cross validation chooses free parameters by"
    )
    tests.add_argument(
        "--against",
        default="",
        metavar="NAMES",
        help="comma-separated rows that superscripts and tests are about, or all; by default "
        "those of bm25, ptm, dssm that are there",
    )
    tests.add_argument(
        "--cross",
        metavar="A,B",
        help="the two rows of the cross table of first titles in table.md",
    )

    how = parser.add_argument_group("how to run")
    how.add_argument("--out", required=True, type=Path, help="directory to write, or to go on in")
    how.add_argument("--jobs", type=int, help="systems at a time; one a core if not given")


def benchmark_command(arguments: argparse.Namespace, console: Console | None = None) -> Evaluation:
    """Runs a benchmark and prints its table.

    Args:
        arguments: the parsed flags.
        console: where to print; a new one by default.

    Raises:
        UserError: an input or a flag is unusable, or no system could be measured.
    """
    # Only now: the command line must answer --help without these.
    from rich.console import Console

    load_tensorflow()
    from dssm_tf.benchmark.prepare import Sources
    from dssm_tf.benchmark.run_benchmark import TYPOS, Options, run_benchmark
    from dssm_tf.reports.files import WRITTEN
    from dssm_tf.reports.table import print_tables
    from dssm_tf.tables.layout import Layout

    console = console or Console()
    cross = _names(arguments.cross or "")
    if len(cross) not in (0, 2):
        raise UserError(f"--cross {arguments.cross}: expected two rows, A,B.")
    options = Options(
        sources=Sources(
            clicks=arguments.clicks,
            judgments=arguments.judgments,
            corpus=arguments.corpus,
            queries=arguments.queries,
            judge_later=arguments.judge_later,
            hold_out_queries=arguments.hold_out_queries,
            typos=arguments.typos,
            repeats=arguments.repeats,
            layout=Layout(
                arguments.encoding,
                thousands=arguments.thousands,
                title_fields=parse_fields(arguments.title_fields),
            ),
            time_format=arguments.time_format,
            max_reject_fraction=arguments.max_reject_fraction,
        ),
        out=arguments.out,
        systems=_names(arguments.systems),
        seeds=arguments.seeds,
        configs=arguments.configs,
        sweeps=arguments.sweep,
        overrides=arguments.set,
        models=named_paths(arguments.model, "--model"),
        runs=named_paths(arguments.runs, "--runs"),
        embeddings=named_vectors(arguments.embeddings, "--embeddings"),
        encoders=named_models(arguments.encoder, "--encoder"),
        curves=_names(arguments.learning_curve),
        hybrids=[name for text in arguments.hybrid for name in _names(text)],
        against=_names(arguments.against),
        metrics=_names(arguments.metrics),
        tune=arguments.tune,
        cross=(cross[0], cross[1]) if cross else None,
        jobs=arguments.jobs,
    )
    evaluation = run_benchmark(options, console)
    print_tables(evaluation, console, f"Written: {arguments.out}/{WRITTEN}")
    if evaluation.misspelt:
        console.print("\nThe same queries, each with a typing error:")
        print_tables(evaluation.misspelt, console, f"Written: {arguments.out}/{TYPOS}/{WRITTEN}")
    return evaluation


def _names(text: str) -> Sequence[str]:
    """Names between commas; those inside brackets belong to a name, as in `a.widths=[4,2]`."""
    return [name.strip() for name in re.split(r",(?![^\[]*\])", text) if name.strip()]
