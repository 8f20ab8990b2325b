"""`dssm_tf.evaluate`: measures models on judgments, as tables and data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dssm_tf.api.inputs import Corpus, pyterrier_frame, read_titles
from dssm_tf.api.model import Model, load
from dssm_tf.common.errors import UserError
from dssm_tf.common.paths import AnyPath
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.evaluation.evaluate import evaluate as measure
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.metrics import METRICS, Metric, metric_names
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.tables.frames import DataFrame, TableSource, is_data_frame
from dssm_tf.tables.judgments import CorpusTitle, Judgment, read_judgments
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.trec import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dssm_tf.text.training_log import TrainingLog

System = Ranker | AnyPath
"""An object that scores titles; the directory of a model; or the name of a baseline."""


@dataclass(frozen=True, repr=False)
class EvaluationResult(Evaluation):
    """The result of `dssm_tf.evaluate`.

    Attributes:
        systems: the names of the systems, in order.
        metrics: the names of the metrics, in order.
        values: `values[system][metric]` is float64 `(queries,)`, in the order of `task.query_ids`;
            NaN for queries that are not in the means.
        comparisons: a `Comparison` for each metric and each pair of systems, see
            `comparison_frame`.
        judged_only: the result for the same systems on judged titles only; None if not requested.
        task: the queries, titles and grades.
    """

    def to_frame(self) -> pl.DataFrame:
        """The means, one row per system.

        Returns:
            `system`; `queries`, the number of queries in the means; and for each metric `METRIC`,
            its mean, with `METRIC_low` and `METRIC_high`, the 95 % interval over queries.
        """
        rows = []
        for system, cells in self.summary().rows_by_key("system", named=True).items():
            row: dict[str, Any] = {"system": system, "queries": self.measured_queries}
            for cell in cells:
                interval = {f"{cell['metric']}_{end}": cell[end] for end in ("low", "high")}
                row |= {cell["metric"]: cell["mean"], **interval}
            rows.append(row)
        return pl.DataFrame(rows)

    def per_query(self) -> pl.DataFrame:
        """The values of each query, one row per system and query.

        Returns:
            `query_id`, `query`, `system`, and a column for each metric; null for queries that are
            not in the means.
        """
        queries = {"query_id": self.task.query_ids, "query": self.task.queries}
        frames = [
            pl.DataFrame({**queries, "system": [system] * len(self.task.queries), **values})
            for system, values in self.values.items()
        ]
        return pl.concat(frames).with_columns(pl.col(*self.metrics).fill_nan(None))

    def comparison_frame(self) -> pl.DataFrame:
        """The paired t-tests over queries, one row per metric and pair of systems.

        Returns:
            `metric`; the systems `a` and `b`; `difference`, the mean of `a - b`; `low` and `high`,
            the 95 % interval of the difference; `p`, the p-value; and `p_adjusted`, the p-value
            after Holm's adjustment over all tests of the evaluation.
        """
        schema = {
            "metric": pl.String, "a": pl.String, "b": pl.String, "difference": pl.Float64,
            "low": pl.Float64, "high": pl.Float64, "p": pl.Float64, "p_adjusted": pl.Float64,
        }  # fmt: skip
        rows = [
            (test.metric, test.a, test.b, test.difference, *test.ci95, test.p, test.p_adjusted)
            for test in self.comparisons
        ]
        return pl.DataFrame(rows, schema, orient="row")

    def plot(self, metrics: Sequence[str] | None = None) -> Figure:
        """Draws the means with their 95 % intervals, one panel per metric.

        Args:
            metrics: names of the metrics; by default all.

        Returns:
            A matplotlib figure. Notebooks display it, and its method `savefig` writes it.

        Raises:
            UserError: a metric does not exist.
        """
        from dssm_tf.common.errors import check_name
        from dssm_tf.reports.figures import draw_mean_intervals

        names = list(metrics or self.metrics)
        for name in names:
            check_name("metric", name, self.metrics)
        frame = self.to_frame()
        return draw_mean_intervals(
            self.systems,
            {
                name: frame.select(name, f"{name}_low", f"{name}_high").to_numpy().T
                for name in names
            },
        )

    def to_ranx(self) -> tuple[Any, dict[str, Any]]:
        """The judgments as `ranx.Qrels`, and the run of each system as `ranx.Run`, by name.

        Queries without a relevant title are left out, as in the means.

        Raises:
            UserError: ranx is not installed, or a grade is not a whole number.
        """
        try:
            import ranx
        except ImportError as error:
            raise UserError(f"ranx cannot be imported ({error}); pip install ranx.") from None

        grades: dict[str, dict[str, int]] = {}
        for judgment in self._qrels():
            grades.setdefault(judgment.query_id, {})[judgment.doc_id] = int(judgment.grade)
        runs = {name: ranx.Run(dict(run), name=name) for name, run in self._measured_runs().items()}
        return ranx.Qrels(grades), runs

    def to_ir_measures(self) -> tuple[list[Any], dict[str, list[Any]]]:
        """The judgments as `ir_measures.Qrel`, and each system's run as `ir_measures.ScoredDoc`.

        Queries without a relevant title are left out, as in the means.

        Raises:
            UserError: ir_measures is not installed, or a grade is not a whole number.
        """
        try:
            import ir_measures
        except ImportError as error:
            raise UserError(
                f"ir_measures cannot be imported ({error}); pip install ir_measures."
            ) from None
        qrels = [
            ir_measures.Qrel(judgment.query_id, judgment.doc_id, int(judgment.grade))
            for judgment in self._qrels()
        ]
        runs = {
            name: [
                ir_measures.ScoredDoc(query_id, doc_id, score)
                for query_id, scores in run.items()
                for doc_id, score in scores.items()
            ]
            for name, run in self._measured_runs().items()
        }
        return qrels, runs

    def _qrels(self) -> list[Judgment]:
        from dssm_tf.reports.files import qrels

        judgments = qrels(self.task)
        for judgment in judgments:
            if judgment.grade != int(judgment.grade):
                raise UserError(
                    f"the grade of {judgment.doc_id!r} for query {judgment.query_id!r} is "
                    f"{judgment.grade}; other tools read whole numbers."
                )
        return judgments

    def _measured_runs(self) -> dict[str, Run]:
        from dssm_tf.reports.files import run

        measured = pl.col("query").is_in(np.flatnonzero(self.task.has_relevant))
        return {name: run(self.task, frame.filter(measured)) for name, frame in self.runs.items()}

    def __repr__(self) -> str:
        rows = self.to_frame()
        with pl.Config(
            tbl_cols=-1, tbl_rows=-1, tbl_hide_column_data_types=True, float_precision=3,
            tbl_hide_dataframe_shape=True,
        ):  # fmt: skip
            return f"{self._title()}\n{rows.select('system', *self.metrics)}"

    def _repr_html_(self) -> str:
        """The means with their intervals as HTML, for notebooks."""
        from dssm_tf.reports.formatting import query_warnings
        from dssm_tf.reports.markdown import bullets, html
        from dssm_tf.reports.report import means

        notes = [
            "The best means are bold. Numbers in parentheses are 95 % intervals. Letters name the "
            "systems that are significantly worse (p < 0.05, t-test with Holm's adjustment).",
            *query_warnings(self),
        ]
        return html("\n\n".join([f"{self._title()}.", means(self), bullets(notes)]))

    def _title(self) -> str:
        count = self.measured_queries
        ranked = f"{len(self.task.titles):,} titles" if self.task.ranks_corpus else "judged titles"
        return f"Evaluation on {count:,} {'query' if count == 1 else 'queries'}, ranking {ranked}"


def evaluate(
    models: System | Sequence[System] | Mapping[str, System],
    judgments: TableSource | Sequence[Judgment],
    corpus: Corpus | None = None,
    *,
    metrics: Sequence[str | Metric] = METRICS,
    title_fields: Sequence[str] | None = None,
    runs: Mapping[str, Run | DataFrame] | None = None,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    training_logs: Mapping[str, TrainingLog] | None = None,
    judged_only: bool = False,
    progress: bool = False,
) -> EvaluationResult:
    """Measures models with graded judgments, as `dssm evaluate` does, but writes no files.

    Ties are broken by a hash of the title's text. Queries without a relevant title are left out of
    every mean; their values are NaN.

    Args:
        models: a model or a fitted baseline, or any other object with `name`, `score` and
            `score_matrix`; the directory of a model; or the name of a baseline, such as `bm25`,
            which is fitted to the titles. To compare several, give a list, or a dictionary by name.
        judgments: a table (file or data frame) with query_id, query, doc_id, title, grade; or a
            list of `dssm_tf.Judgment`.
        corpus: a table with doc_id, title; or a list of `dssm_tf.CorpusTitle`. Every query then
            ranks the whole corpus, and titles without a judgment have grade 0. With None, each
            query ranks its judged titles.
        metrics: names such as `ndcg@10`, `mrr@10` and `map`, and custom metrics as
            `dssm_tf.evaluation.metrics.Metric`. If they include NDCG, and the corpus has titles
            without a judgment, `judged@10` is added: the fraction of the first ten titles that
            have a judgment of any grade.
        title_fields: columns of the tables that are joined to a title, see `--title-fields`; by
            default those that the first model was trained on.
        runs: rankings of other systems to measure too, by name. Each is a mapping from query id and
            doc id to score, or a data frame with PyTerrier's columns `qid`, `docno`, `score`.
            Titles that a run does not list are not ranked.
        facts: costs and notes of each system, by name; see `SeedResult`.
        training_logs: the training log of each system, by name; by default the attribute
            `training_log` of the model. The result counts the judged queries and pairs that the log
            contains.
        judged_only: whether to measure the systems a second time, on judged titles only. The
            attribute `judged_only` of the result has this measurement.
        progress: whether to show progress on standard error.

    Returns:
        The result: `to_frame()` has one row per system, `per_query()` the values of each query, and
        `comparison_frame()` the significance tests; `plot()` draws the means.

    Raises:
        UserError: a table is missing or malformed, nothing can be measured, two systems have the
            same name, a relevant title is not in the corpus, a metric does not exist, or a system's
            scores cannot be used.
    """
    metric_names(metrics)  # checks the names before tables are read
    named_systems = _systems_by_name(models)
    if title_fields is None:
        title_fields = _title_fields(named_systems.values())
    layout = Layout(title_fields=tuple(title_fields))
    if isinstance(judgments, (str, Path)) or is_data_frame(judgments):
        judgments = read_judgments(judgments, layout)
    titles = None if corpus is None else read_titles(corpus, layout.corpus)
    scored_runs = {name: _run_of(run) for name, run in (runs or {}).items()}
    systems = {name: _ranker(system, titles or judgments) for name, system in named_systems.items()}
    load_tensorflow()  # NDCG imports TensorFlow; this import prints no messages
    evaluation = measure(
        systems, judgments, titles, metrics=metrics, runs=scored_runs, facts=facts,
        training_logs=training_logs,
        judged_only=judged_only, progress=progress,
    )  # fmt: skip
    return _result(evaluation)


def _result(evaluation: Evaluation) -> EvaluationResult:
    values = {field.name: getattr(evaluation, field.name) for field in fields(evaluation)}
    if evaluation.judged_only is not None:
        values["judged_only"] = _result(evaluation.judged_only)
    return EvaluationResult(**values)


def _systems_by_name(models: System | Sequence[System] | Mapping[str, System]) -> dict[str, System]:
    """The systems by name; raises UserError if two have the same name."""
    if isinstance(models, Mapping):
        return dict(models)
    systems: Sequence[Any] = models if isinstance(models, (list, tuple)) else [models]
    by_name: dict[str, System] = {}
    for system in systems:
        name = Path(system).name if isinstance(system, (str, Path)) else system.name
        if name in by_name:
            raise UserError(
                f"two systems are called {name!r}; give a dictionary of systems by name."
            )
        by_name[name] = system
    return by_name


def _title_fields(systems: Iterable[System]) -> tuple[str, ...]:
    """The title fields of the first system that is a trained model; `title` if none is."""
    from dssm_tf.export.load import model_title_fields

    paths = (system.path if isinstance(system, Model) else system for system in systems)
    return model_title_fields(*(Path(path) for path in paths if isinstance(path, (str, Path))))


def _ranker(system: System, titles: Sequence[CorpusTitle | Judgment]) -> Ranker:
    """Returns an object, loads a directory, or fits a baseline of this name to the titles."""
    from dssm_tf.systems import BASELINES

    if not isinstance(system, (str, Path)):
        return system
    if isinstance(system, str) and system in BASELINES and not Path(system).exists():
        return BASELINES[system]().fit([], sorted({row.title for row in titles}, key=tie_key))
    return load(system)


def _run_of(run: Run | DataFrame) -> Run:
    """The scores of a run, by query id and doc id."""
    if not is_data_frame(run):
        return run
    table = pyterrier_frame(run, "qid", "docno")
    scores: Run = {}
    for query_id, doc_id, score in table.select(
        "qid", "docno", pl.col("score").cast(pl.Float64)
    ).iter_rows():
        scores.setdefault(query_id, {})[doc_id] = score
    return scores
