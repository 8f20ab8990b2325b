"""`dssm evaluate`: measures trained models, baselines and runs with judgments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, TableFlags
from dssm_tf.commands.named import check_unique_names, named_paths, split_name
from dssm_tf.common.checksums import sha256_of
from dssm_tf.common.errors import NoClicksError, UserError, check_name
from dssm_tf.common.files import atomic_directory, refuse_existing
from dssm_tf.common.paths import AnyPath, NamedPath, optional_path
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.common.terminal import RESULT, say

if TYPE_CHECKING:
    from dssm_tf.baselines.base import Click
    from dssm_tf.evaluation.evaluation import Evaluation
    from dssm_tf.evaluation.ranker import Ranker
    from dssm_tf.text.training_log import TrainingLog

_GATE_METRIC = "ndcg@10"
_Metric = Annotated[tuple[str, ...] | None, Parameter(consume_multiple=(0, 1))]
_Tolerance = Annotated[float, Parameter(validator=validators.Number(gte=0, lt=1))]
_Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]


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
    against: str = "",
    fail_if_worse: _Metric = None,
    tolerance: _Tolerance = 0.0,
    min_queries: _Count = 100,
    learned: tuple[Path, ...] = (),
    tables: TableFlags = DEFAULT_TABLE_FLAGS,
) -> None:
    """Rank judged queries with models and baselines, measure, test, and write a report.

    Without --corpus, each query ranks its judged titles.

    With --fail-if-worse, the command is a gate. It prints one line, writes gate.xml (JUnit) and
    gate.md as well, and exits with 3 if the new model is worse than that of --against: by a paired
    t-test (p < 0.05) and by more than --tolerance. Queries with a click that one of the two
    models was trained on are left out.

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
        against: [NAME=]PATH: the live system, which the tests compare with: a directory as for
            --model, a TREC run file, or the name of another row such as bm25.
        fail_if_worse: [METRIC]: exit with 3 if --model is worse by this metric, ndcg@10 by default.
        tolerance: loss of the metric that --fail-if-worse accepts, such as 0.005.
        min_queries: fail if fewer queries are left for --fail-if-worse.
        learned: DIR: a run, or a directory that preprocess wrote, whose clicks a model has learned;
            may be repeated. Compact models, indexes and saved baselines do not record their own.
        tables: layout of the tables.

    Raises:
        UserError: an input is missing or malformed, `out` exists, names clash, or the new model is
            worse.
    """
    judgments, out = Path(judgments), Path(out)
    corpus, data = optional_path(corpus), optional_path(data)
    # Imported here so that --help is fast.
    from dssm_tf.baselines.base import Baseline
    from dssm_tf.common.versions import versions
    from dssm_tf.evaluation.evaluate import evaluate as measure
    from dssm_tf.evaluation.evaluation import vocabulary_facts
    from dssm_tf.evaluation.metrics import METRICS
    from dssm_tf.evaluation.ranking import tie_key
    from dssm_tf.export.load import load
    from dssm_tf.reports.files import REPORT_FILES, write
    from dssm_tf.reports.report import show
    from dssm_tf.systems import BASELINES
    from dssm_tf.tables.judgments import read_corpus, read_judgments
    from dssm_tf.tables.trec import read_run
    from dssm_tf.text.rules import FOLDED
    from dssm_tf.text.training_log import TrainingLog

    refuse_existing(out)
    models, run_files = named_paths(model, "--model"), named_paths(runs, "--runs")
    names = [name for name in baselines.split(",") if name]
    live = _add_live(against, names, models, run_files)
    metric = _gate_metric(fail_if_worse, live, [*named_paths(model, "--model")])
    layout = tables.layout(*models.values())
    for name in names:
        check_name("baseline", name, BASELINES)
    check_unique_names([*names, *models, *run_files], "--model")
    titles = None if corpus is None else read_corpus(corpus, layout.corpus)
    graded_pairs = read_judgments(judgments, layout)
    if data is not None and not names:
        raise UserError(f"--data {data}: only baselines learn from it, but --baselines has none.")
    load_tensorflow()
    from dssm_tf.data.preprocessed import Preprocessed

    log = None if data is None else Preprocessed(data).log()
    ranked_titles = sorted({row.title for row in titles or graded_pairs}, key=tie_key)
    systems = {name: _fit_baseline(name, log, ranked_titles) for name in names}
    training_logs = dict.fromkeys(names, TrainingLog.from_clicks(log or [], FOLDED))
    facts = {}
    for name, path in models.items():
        systems[name] = ranker = load(path, name)
        if not isinstance(ranker, Baseline):
            texts = list(dict.fromkeys(row.query for row in graded_pairs))
            facts[name] = vocabulary_facts(ranker.vocabulary.unknown_fraction(texts))
    gate_logs = (
        _gate_logs({name: systems.get(name) for name in (*models, live)}, training_logs, learned)
        if metric
        else []
    )
    run_scores = {name: read_run(path, layout.encoding) for name, path in run_files.items()}
    evaluation = measure(
        systems,
        graded_pairs,
        titles,
        metrics=tuple(dict.fromkeys([*METRICS, *filter(None, [metric])])),
        runs=run_scores,
        facts=facts,
        training_logs=training_logs,
        judged_only=judged_only,
        progress=True,
    )
    inputs = {"judgments": judgments, "corpus": corpus, "data": data}
    evaluation = replace(
        evaluation,
        against=(live,) if live else evaluation.against,
        settings={
            "inputs": _file_hashes({**inputs, **run_files}),
            "models": _file_hashes(models),
            "versions": versions(),
        },
    )
    if metric:
        new = next(name for name in models if name != live)
        options = {"tolerance": tolerance, "min_queries": min_queries}
        _write_evaluation_and_gate(evaluation, (new, live, metric), gate_logs, options, out)
        return
    with atomic_directory(out) as folder:
        write(evaluation, folder)
    show(evaluation, f"Written: {out}/{REPORT_FILES}")


def _add_live(
    against: str, baselines: Sequence[str], models: dict[str, Path], runs: dict[str, Path]
) -> str:
    """Adds the live system to the models or to the runs; returns its name, empty if there is none.

    Raises:
        UserError: it is neither a row nor a path.
    """
    if not against:
        return ""
    if against in (*baselines, *models, *runs) and not Path(against).exists():
        return against
    name, path = split_name(against, "--against")
    if not Path(path).exists():
        raise UserError(
            f"--against {against}: there is no {path}; expected a directory as for --model, a TREC "
            f"run file, or one of the rows {', '.join([*baselines, *models, *runs]) or '(none)'}."
        )
    ((live, live_path),) = named_paths([f"{name}={path}" if name else path], "--against").items()
    if live in (*baselines, *models, *runs):
        raise UserError(f"--against: two entries have the name {live!r}; rename one: NAME=PATH.")
    (models if live_path.is_dir() else runs)[live] = live_path
    return live


def _gate_metric(fail_if_worse: Sequence[str] | None, live: str, models: Sequence[str]) -> str:
    """The metric of the gate; empty if there is none.

    Raises:
        UserError: flags are missing, or the metric cannot decide.
    """
    if fail_if_worse is None:
        return ""
    from dssm_tf.evaluation.metrics import is_judgment_rate, metric_names

    new = [name for name in models if name != live]
    if not live or len(new) != 1:
        raise UserError(
            "--fail-if-worse compares one --model with --against; received "
            f"{len(new)} --model and {'an' if live else 'no'} --against."
        )
    metric = next(iter(fail_if_worse), _GATE_METRIC)
    metric_names([metric])
    if is_judgment_rate(metric):
        raise UserError(f"--fail-if-worse {metric}: it does not measure quality; choose ndcg@10.")
    return metric


def _gate_logs(
    systems: Mapping[str, Ranker | None],
    training_logs: Mapping[str, TrainingLog],
    learned: Sequence[Path],
) -> list[TrainingLog]:
    """The training logs of the two systems that a gate compares.

    Args:
        systems: the systems by name; None for a run, which learns nothing from the log.
        training_logs: those of baselines, by name.
        learned: directories of `--learned`.

    Raises:
        UserError: the log of a system is unknown.
    """
    result = [_training_log_of(path) for path in learned]
    for name, ranker in systems.items():
        log = training_logs.get(name) or getattr(ranker, "training_log", None)
        if log is not None:
            result.append(log)
        elif ranker is not None and not learned:
            raise UserError(
                f"{name} does not record which clicks it has learned, so the judgments may contain "
                "them; give the run that it was made from, or the preprocessed data: --learned DIR."
            )
    return result


def _training_log_of(path: Path) -> TrainingLog:
    """The clicks of a run, or of a preprocessed directory."""
    from dssm_tf.data.format import SPEC
    from dssm_tf.data.preprocessed import Preprocessed
    from dssm_tf.export.load import find_model
    from dssm_tf.model.run_files import training_log
    from dssm_tf.text.training_log import TrainingLog

    location = find_model(path)
    if location is not None and (log := training_log(location.run_files)):
        return log
    if location is not None or not (path / SPEC).exists():
        raise UserError(
            f"--learned {path} records no clicks; expected a directory that `dssm train` or `dssm "
            "preprocess` wrote."
        )
    data = Preprocessed(path)
    return TrainingLog.from_clicks(data.log(), data.spec.rules)


def _write_evaluation_and_gate(
    evaluation: Evaluation,
    compared: tuple[str, str, str],
    training_logs: Sequence[TrainingLog],
    options: Mapping[str, Any],
    out: Path,
) -> None:
    """Writes the evaluation and the result of the gate, and prints its line.

    Args:
        evaluation: the measured systems.
        compared: the new model, the live one, and the metric.
        training_logs: those of both models.
        options: see `compare_with_live`.
        out: directory to write.

    Raises:
        UserError: the new model is worse, or too few queries are left.
    """
    from dssm_tf.evaluation.gate import WorseError, compare_with_live
    from dssm_tf.reports.files import write
    from dssm_tf.reports.gate_files import write_gate

    gate = compare_with_live(evaluation, *compared, training_logs, **options)
    with atomic_directory(out) as folder:
        write(evaluation, folder)
        write_gate(gate, folder)
    if gate.worse:
        raise WorseError(f"{gate.line()}; see {out}/gate.md.")
    say(f"{gate.line()}; see {out}/gate.md", level=RESULT)


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
        name: {"path": str(path), "sha256": sha256_of(Path(path))}
        for name, path in paths.items()
        if path is not None
    }
