"""`dssm evaluate`: trained models and baselines on a judgments file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dssm_tf.commands.named import named_paths
from dssm_tf.commands.parser import Commands, add_encoding, command
from dssm_tf.common.errors import NoClicks, UserError, did_you_mean
from dssm_tf.common.files import atomic_directory, refuse_existing
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.baselines.base import Baseline
    from dssm_tf.evaluation.evaluation import Evaluation
    from dssm_tf.evaluation.ranker import Ranker
    from dssm_tf.tables.judgments import CorpusTitle, Judgment


def add(commands: Commands) -> None:
    """Adds the command to the parser."""

    def run(arguments: argparse.Namespace) -> None:
        evaluate_command(
            arguments.model,
            arguments.judgments,
            arguments.corpus,
            arguments.out,
            [name for name in arguments.baselines.split(",") if name],
            data=arguments.data,
            runs=arguments.runs,
            repeats=arguments.repeats,
            encoding=arguments.encoding,
        )

    parser = command(
        commands,
        "evaluate",
        run,
        "rank judged queries and measure NDCG, MRR, recall",
        "Writes tables, metrics.json, TREC run files, qrels and report.html. Without --corpus each "
        "query ranks its judged titles; with it, the whole corpus, unjudged titles having grade 0.",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="[NAME=]RUN",
        help="directory `dssm train` wrote; may be repeated",
    )
    parser.add_argument(
        "--judgments",
        required=True,
        type=Path,
        help="table (TSV, CSV, JSONL, Parquet) with query_id, query, doc_id, title, grade",
    )
    parser.add_argument("--corpus", type=Path, help="table with doc_id, title: rank all of it")
    parser.add_argument(
        "--baselines",
        default="bm25",
        help="comma-separated baselines, or '' for none; NAME=DIR loads what was saved instead of "
        "fitting on the titles, e.g. skip_thought=DIR for skip-thought weights",
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="directory preprocess wrote: baselines learn from its clicks, not from titles alone",
    )
    parser.add_argument(
        "--runs",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a TREC run file of another system; may be repeated",
    )
    parser.add_argument(
        "--repeats",
        choices=("refuse", "mean"),
        default="refuse",
        help="what to do with a pair that is judged more than once",
    )
    add_encoding(parser)
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")


def evaluate_command(
    models: Sequence[str],
    judgments: Path | str,
    corpus: Path | str | None,
    out: Path | str,
    baselines: Sequence[str] = ("bm25",),
    *,
    data: Path | str | None = None,
    runs: Sequence[str] = (),
    repeats: Literal["refuse", "mean"] = "refuse",
    encoding: str = "utf-8",
    console: Console | None = None,
) -> Evaluation:
    """Evaluates, writes `out` and prints the table.

    Args:
        models: directories of trained models, `RUN` or `NAME=RUN`.
        judgments: a table, see `read_judgments`.
        corpus: a table, see `read_corpus`; None ranks each query's judged titles.
        out: directory to make.
        baselines: names in `BASELINES`, fitted on the titles to rank, or `NAME=DIR`: what
            its `save` wrote, e.g. skip-thought weights.
        data: directory that preprocess wrote, whose clicks the baselines learn from; None lets
            them know the titles only.
        runs: TREC run files of other systems, `FILE` or `NAME=FILE`.
        repeats: what pairs judged more than once are, see `read_judgments`.
        encoding: of the text of tables and runs.
        console: where to print; a new one by default.

    Raises:
        UserError: an input is missing or malformed, `out` exists, or names clash.
    """
    # Only now: the command line must answer --help without these.
    from rich.console import Console

    from dssm_tf.evaluation.evaluate import evaluate
    from dssm_tf.reports.files import WRITTEN, write
    from dssm_tf.reports.table import print_tables
    from dssm_tf.tables.judgments import read_corpus, read_judgments
    from dssm_tf.tables.trec import read_run

    console = console or Console()
    refuse_existing(Path(out))
    named_models = named_paths(models, "--model")
    named_runs = named_paths(runs, "--runs")
    _refuse_clashes(baselines, named_models, named_runs)
    grades = read_judgments(judgments, repeats=repeats, encoding=encoding)
    titles = None if corpus is None else read_corpus(corpus, encoding)
    load_tensorflow()
    systems: dict[str, Ranker] = {
        **_fitted(baselines, grades, titles, None if data is None else Path(data)),
        **_loaded(named_models),
    }
    evaluation = evaluate(
        systems,
        grades,
        titles,
        runs={name: read_run(path, encoding) for name, path in named_runs.items()},
        console=console,
    )
    with atomic_directory(out) as folder:
        write(evaluation, folder)
    print_tables(evaluation, console)
    written = f"Written: {out}/{WRITTEN}"
    console.print(written, highlight=False, markup=False, soft_wrap=True)
    return evaluation


def _refuse_clashes(
    baselines: Sequence[str], models: Mapping[str, Path], runs: Mapping[str, Path]
) -> None:
    from dssm_tf.systems import BASELINES

    baselines = [entry.partition("=")[0] for entry in dict.fromkeys(baselines)]
    unknown = [name for name in baselines if name not in BASELINES]
    if unknown:
        raise UserError(
            f"there is no baseline {unknown[0]!r}; choose from {', '.join(BASELINES)}."
            f"{did_you_mean(unknown[0], BASELINES)}"
        )
    names = [*baselines, *models, *runs]
    clash = next((name for name in names if names.count(name) > 1), None)
    if clash is not None:
        raise UserError(f"two systems are called {clash!r}; name one of them otherwise, NAME=PATH.")


def _fitted(
    names: Sequence[str],
    judgments: Sequence[Judgment],
    corpus: Sequence[CorpusTitle] | None,
    data: Path | None,
) -> dict[str, Ranker]:
    from dssm_tf.evaluation.ranking import tie_key
    from dssm_tf.systems import BASELINES

    clicks: list[tuple[str, str, float]] = []
    if data is not None:
        if all("=" in name for name in names):
            raise UserError(f"--data {data} is for baselines to learn from, and none is fitted.")
        from dssm_tf.data.preprocessed import Preprocessed

        clicks = Preprocessed(data).log()
    entries = judgments if corpus is None else corpus
    titles = sorted({entry.title for entry in entries}, key=tie_key)
    fitted: dict[str, Ranker] = {}
    for entry in dict.fromkeys(names):
        name, _, saved = entry.partition("=")
        baseline = BASELINES[name]
        try:
            fitted[name] = baseline.load(saved) if saved else _fit(baseline(), clicks, titles)
        except NoClicks as error:
            if data is not None:
                raise
            raise UserError(f"{error} Give --data, a directory that preprocess wrote.") from error
    return fitted


def _fit(baseline: Baseline, clicks: list[tuple[str, str, float]], titles: list[str]) -> Baseline:
    baseline.progress = True
    return baseline.fit(clicks, titles)


def _loaded(models: Mapping[str, Path]) -> dict[str, Ranker]:
    if not models:
        return {}
    from dssm_tf.model.semantic_ranker import SemanticRanker

    return {name: SemanticRanker.load(path) for name, path in models.items()}
