"""`dssm evaluate`: measures trained models, baselines and runs with judgments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, TableFlags
from dssm_tf.commands.named import check_unique_names, named_paths
from dssm_tf.common.checksums import sha256_of
from dssm_tf.common.errors import NoClicksError, UserError, check_name
from dssm_tf.common.files import atomic_directory, refuse_existing
from dssm_tf.common.paths import AnyPath, NamedPath, optional_path
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    from dssm_tf.baselines.base import Click
    from dssm_tf.evaluation.ranker import Ranker


def evaluate(
    *,
    judgments: AnyPath,
    out: AnyPath,
    model: tuple[NamedPath, ...] = (),
    baselines: str = "bm25",
    runs: tuple[NamedPath, ...] = (),
    corpus: AnyPath | None = None,
    data: AnyPath | None = None,
    judged_only: bool = False,
    tables: TableFlags = DEFAULT_TABLE_FLAGS,
) -> None:
    """Rank judged queries with models and baselines, measure, test, and write a report.

    Without --corpus, each query ranks its judged titles.

        dssm evaluate --model RUN --judgments judgments.tsv --corpus corpus.tsv --out EVALUATION

    Args:
        judgments: table (TSV, CSV, JSONL, Parquet) with query_id, query, doc_id, title, grade;
            `dssm data convert trec` makes one from TREC qrels.
        out: directory to write; it must not exist.
        model: [NAME=]DIR: directory that `dssm train` or `dssm export` wrote, or a saved baseline,
            e.g. skip_thought=DIR for skip-thought weights; may be repeated.
        baselines: comma-separated, or '' for none; they are fitted on the titles.
        runs: [NAME=]FILE: a TREC run file of another system; may be repeated.
        corpus: table with doc_id, title: rank all of it.
        data: directory that preprocess wrote; baselines then learn from its clicks too.
        judged_only: add a table of the same systems on judged titles only: NDCG of the rankings
            without other titles, and concordance, the fraction of pairs in the order of their
            grades.
        tables: layout of the tables.

    Raises:
        UserError: an input is missing or malformed, `out` exists, or names clash.
    """
    judgments, out = Path(judgments), Path(out)
    corpus, data = optional_path(corpus), optional_path(data)
    # Imported here so that --help is fast.
    from dssm_tf.baselines.base import Baseline
    from dssm_tf.common.versions import versions
    from dssm_tf.evaluation.evaluate import evaluate as measure
    from dssm_tf.evaluation.evaluation import about_vocabulary
    from dssm_tf.evaluation.ranking import tie_key
    from dssm_tf.export.load import load
    from dssm_tf.reports.files import WRITTEN, write
    from dssm_tf.reports.report import show
    from dssm_tf.systems import BASELINES
    from dssm_tf.tables.judgments import read_corpus, read_judgments
    from dssm_tf.tables.trec import read_run
    from dssm_tf.text.rules import FOLDED
    from dssm_tf.text.training_log import TrainingLog

    refuse_existing(out)
    models, run_files = named_paths(model, "--model"), named_paths(runs, "--runs")
    layout = tables.layout(*models.values())
    names = [name for name in baselines.split(",") if name]
    for name in names:
        check_name("baseline", name, BASELINES)
    check_unique_names([*names, *models, *run_files], "--model")
    titles = None if corpus is None else read_corpus(corpus, layout.corpus)
    grades = read_judgments(judgments, layout)
    if data is not None and not names:
        raise UserError(f"--data {data}: only baselines learn from it, but --baselines has none.")
    load_tensorflow()
    from dssm_tf.data.preprocessed import Preprocessed

    log = None if data is None else Preprocessed(data).log()
    ranked_titles = sorted({row.title for row in titles or grades}, key=tie_key)
    systems = {name: _fit_baseline(name, log, ranked_titles) for name in names}
    logs = dict.fromkeys(names, TrainingLog.of_clicks(log or [], FOLDED))
    about = {}
    for name, path in models.items():
        systems[name] = ranker = load(path, name)
        if not isinstance(ranker, Baseline):
            texts = list(dict.fromkeys(row.query for row in grades))
            about[name] = about_vocabulary(ranker.vocabulary.unknown_fraction(texts))
    converted_runs = {name: read_run(path, layout.encoding) for name, path in run_files.items()}
    evaluation = measure(
        systems,
        grades,
        titles,
        runs=converted_runs,
        about=about,
        logs=logs,
        judged_only=judged_only,
        progress=True,
    )
    inputs = {"judgments": judgments, "corpus": corpus, "data": data}
    evaluation = replace(
        evaluation,
        settings={
            "inputs": _file_hashes({**inputs, **run_files}),
            "models": _file_hashes(models),
            "versions": versions(),
        },
    )
    with atomic_directory(out) as folder:
        write(evaluation, folder)
    show(evaluation, f"Written: {out}/{WRITTEN}")


def _fit_baseline(name: str, log: Sequence[Click] | None, titles: Sequence[str]) -> Ranker:
    from dssm_tf.systems import BASELINES

    try:
        return BASELINES[name]().fit(log or [], titles, progress=True)
    except NoClicksError as error:
        if log:
            raise
        raise UserError(
            f"{error} Give --data, a directory that preprocess wrote from a click log."
        ) from error


def _file_hashes(paths: Mapping[Any, Path | str | None]) -> dict[Any, dict[str, str]]:
    """Paths of files and directories with their SHA-256."""
    return {
        name: {"given": str(path), "sha256": sha256_of(Path(path))}
        for name, path in paths.items()
        if path is not None
    }
