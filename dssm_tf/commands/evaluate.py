"""`dssm evaluate`: trained models and baselines on a judgments file."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dssm_tf.commands.fields import warn_of_other_fields
from dssm_tf.commands.named import named_paths
from dssm_tf.commands.parser import Commands, add_encoding, add_thousands, add_title_fields, command
from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import NoClicks, UserError, did_you_mean
from dssm_tf.common.files import atomic_directory, refuse_existing
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from dssm_tf.baselines.base import Baseline, Click
    from dssm_tf.evaluation.evaluation import Evaluation
    from dssm_tf.evaluation.ranker import Ranker
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.tables.judgments import CorpusTitle, Judgment
    from dssm_tf.tables.layout import Layout


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
            queries=arguments.queries,
            traffic=arguments.traffic,
            runs=arguments.runs,
            repeats=arguments.repeats,
            encoding=arguments.encoding,
            title_fields=parse_fields(arguments.title_fields),
            thousands=arguments.thousands,
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
        help="table (TSV, CSV, JSONL, Parquet) with query_id, query, doc_id, title, grade; or TREC "
        "qrels, with --queries and --corpus",
    )
    parser.add_argument(
        "--queries", type=Path, help="texts of a TREC qrels file's queries: query_id, query"
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
        "--traffic",
        nargs="+",
        default=[],
        metavar="LOG",
        help="click logs: beside the plain means, such as weigh a query by its clicks there (with "
        "--data, by those it learns from)",
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
    add_title_fields(parser)
    add_thousands(parser)
    parser.add_argument("--out", required=True, type=Path, help="directory to write, new")


def evaluate_command(
    models: Sequence[str],
    judgments: Path | str,
    corpus: Path | str | None,
    out: Path | str,
    baselines: Sequence[str] = ("bm25",),
    *,
    data: Path | str | None = None,
    queries: Path | str | None = None,
    traffic: Sequence[str] = (),
    runs: Sequence[str] = (),
    repeats: Literal["refuse", "mean"] = "refuse",
    encoding: str = "utf-8",
    title_fields: tuple[str, ...] = ("title",),
    thousands: str = "",
    console: Console | None = None,
) -> Evaluation:
    """Evaluates, writes `out` and prints the table.

    Args:
        models: directories of trained models, `RUN` or `NAME=RUN`.
        judgments: a table, see `read_judgments`, or TREC qrels where `queries` is given.
        corpus: a table, see `read_corpus`; None ranks each query's judged titles.
        out: directory to make.
        baselines: names in `BASELINES`, fitted on the titles to rank, or `NAME=DIR`: what
            its `save` wrote, e.g. skip-thought weights.
        data: directory that preprocess wrote, whose clicks the baselines learn from; None lets
            them know the titles only.
        queries: the texts of a qrels file's queries.
        traffic: click logs, globs or directories: what queries weigh in further means; the
            clicks of `data` if empty.
        runs: TREC run files of other systems, `FILE` or `NAME=FILE`.
        repeats: what pairs judged more than once are, see `read_judgments`.
        encoding: of the text of tables and runs.
        title_fields: columns that a title is made of; with a corpus, its columns.
        thousands: the sign between thousands in the logs of `traffic`.
        console: where to print; a new one by default.

    Raises:
        UserError: an input is missing or malformed, `out` exists, names clash, or no judged
            query has traffic.
    """
    # Only now: the command line must answer --help without these.
    from rich.console import Console

    from dssm_tf.common.versions import versions
    from dssm_tf.evaluation.evaluate import evaluate
    from dssm_tf.evaluation.evaluation import about_vocabulary
    from dssm_tf.reports.files import WRITTEN, write
    from dssm_tf.reports.table import print_tables
    from dssm_tf.tables.judgments import read_corpus
    from dssm_tf.tables.layout import Layout
    from dssm_tf.tables.trec import read_run

    console = console or Console()
    refuse_existing(Path(out))
    named_models = named_paths(models, "--model")
    named_runs = named_paths(runs, "--runs")
    _refuse_clashes(baselines, named_models, named_runs)
    titles = None if corpus is None else read_corpus(corpus, encoding, title_fields)
    grades = _read_judgments(Path(judgments), queries, titles, repeats, encoding, title_fields)
    logs, layout = _log_files(traffic), Layout(encoding, thousands=thousands)
    load_tensorflow()
    log = None if data is None else _log(baselines, Path(data))
    rankers = _loaded(named_models)
    for run in named_models.values():
        warn_of_other_fields(run, title_fields, console)
    asked = list(dict.fromkeys(one.query for one in grades))
    evaluation = evaluate(
        {**_fitted(baselines, grades, titles, log), **rankers},
        grades,
        titles,
        runs={name: read_run(path, encoding) for name, path in named_runs.items()},
        about={
            name: about_vocabulary(ranker.vocabulary.unknown_share(asked))
            for name, ranker in rankers.items()
        },
        console=console,
    )
    inputs = {"judgments": judgments, "queries": queries, "corpus": corpus, "data": data}
    saved = dict(entry.split("=", 1) for entry in baselines if "=" in entry)
    evaluation = replace(
        evaluation,
        seen=_seen(evaluation.task.queries, log, named_models),
        traffic=_clicks(evaluation.task.queries, log, logs, layout),
        settings={
            "inputs": _fingerprints(inputs)
            | {"runs": _fingerprints(named_runs)}
            | {"traffic": [*_fingerprints(dict(enumerate(logs))).values()]},
            "models": _fingerprints({**saved, **named_models}),
            "versions": versions(),
        },
    )
    with atomic_directory(out) as folder:
        write(evaluation, folder)
    print_tables(evaluation, console, f"Written: {out}/{WRITTEN}")
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


def _read_judgments(
    path: Path,
    queries: Path | str | None,
    corpus: Sequence[CorpusTitle] | None,
    repeats: Literal["refuse", "mean"],
    encoding: str,
    title_fields: tuple[str, ...],
) -> list[Judgment]:
    from dssm_tf.benchmark.foreign import judgments_of_qrels
    from dssm_tf.tables.judgments import read_judgments

    if queries is None:
        return read_judgments(
            path, repeats=repeats, encoding=encoding, title_fields=title_fields, corpus=corpus
        )
    if corpus is None:
        raise UserError(
            "--queries gives a TREC qrels file its texts: give --corpus, too, for its titles."
        )
    return judgments_of_qrels(path, Path(queries), corpus, encoding)


def _log_files(entries: Sequence[str]) -> list[Path]:
    from pipelines.sources import find_files

    return [Path(one.path) for one in find_files(entries, "--traffic")] if entries else []


def _log(baselines: Sequence[str], data: Path) -> list[Click]:
    """The clicks to learn from."""
    from dssm_tf.data.preprocessed import Preprocessed

    if all("=" in name for name in baselines):
        raise UserError(f"--data {data} is for baselines to learn from, and none is fitted.")
    return Preprocessed(data).log()


def _seen(
    queries: Sequence[str], log: Sequence[Click] | None, models: Mapping[str, Path]
) -> NDArray[np.bool_] | None:
    """Whether a log that something learned from holds a query; None where no log is known."""
    import numpy as np

    from dssm_tf.model.run_files import were_learned
    from dssm_tf.text.rules import FOLDED

    seen = [were_learned(queries, path) for path in models.values()]
    if log is not None:
        logged = FOLDED.column(query for query, _, _ in log)
        seen.append(np.isin(FOLDED.column(queries), logged))
    return np.any(seen, axis=0) if seen else None


def _clicks(
    queries: Sequence[str], log: Sequence[Click] | None, files: Sequence[Path], layout: Layout
) -> NDArray[np.float64] | None:
    """How often each query was clicked for; None where nobody knows."""
    import numpy as np

    from dssm_tf.tables.click_log import read_logs, traffic
    from dssm_tf.text.rules import FOLDED

    clicks: dict[str, float] = defaultdict(float)
    if files:
        clicks.update(traffic(read_logs(files, layout, flag="")[0]))
    for query, _, count in () if files or log is None else log:
        clicks[FOLDED.key(query)] += count
    found = np.array([clicks[FOLDED.key(query)] for query in queries], np.float64)
    if files and not found.any():
        raise UserError(
            f"--traffic: none of the {len(queries):,} judged queries was clicked for in the "
            f"{len(files):,} logs; they would all weigh nothing."
        )
    return found if clicks else None


def _fingerprints(paths: Mapping[Any, Path | str | None]) -> dict[Any, dict[str, str]]:
    """Files and directories as given, with their SHA-256."""
    return {
        name: {"given": str(path), "sha256": fingerprint(Path(path))}
        for name, path in paths.items()
        if path is not None
    }


def _fitted(
    names: Sequence[str],
    judgments: Sequence[Judgment],
    corpus: Sequence[CorpusTitle] | None,
    log: list[Click] | None,
) -> dict[str, Ranker]:
    from dssm_tf.evaluation.ranking import tie_key
    from dssm_tf.systems import BASELINES

    entries = judgments if corpus is None else corpus
    titles = sorted({entry.title for entry in entries}, key=tie_key)
    fitted: dict[str, Ranker] = {}
    for entry in dict.fromkeys(names):
        name, _, saved = entry.partition("=")
        baseline = BASELINES[name]
        try:
            fitted[name] = baseline.load(saved) if saved else _fit(baseline(), log or [], titles)
        except NoClicks as error:
            if log is not None:
                raise
            raise UserError(f"{error} Give --data, a directory that preprocess wrote.") from error
    return fitted


def _fit(baseline: Baseline, clicks: list[Click], titles: list[str]) -> Baseline:
    baseline.progress = True
    return baseline.fit(clicks, titles)


def _loaded(models: Mapping[str, Path]) -> dict[str, SemanticRanker]:
    if not models:
        return {}
    from dssm_tf.model.semantic_ranker import SemanticRanker

    return {name: SemanticRanker.load(path) for name, path in models.items()}
