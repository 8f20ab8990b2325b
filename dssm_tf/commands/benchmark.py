"""`dssm benchmark`: compares systems on a click log."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, OptionalFraction, TableFlags
from dssm_tf.commands.named import named_models
from dssm_tf.common.errors import UserError
from dssm_tf.common.paths import AnyPath, NamedPath, optional_path, text_list
from dssm_tf.common.quiet import load_tensorflow


def run_benchmark(
    *,
    clicks: Annotated[tuple[NamedPath, ...], Parameter(consume_multiple=True)],
    out: AnyPath,
    judgments: AnyPath | None = None,
    corpus: AnyPath | None = None,
    judge_later: OptionalFraction = None,
    hold_out_queries: OptionalFraction = None,
    tables: TableFlags = DEFAULT_TABLE_FLAGS,
    max_reject_fraction: float = 0.1,
    max_robot_fraction: float = 0.5,
    ignore_other_files: bool = False,
    typos: bool = False,
    systems: str = "all",
    seeds: int = 3,
    overrides: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
    sweep: tuple[str, ...] = (),
    model: tuple[NamedPath, ...] = (),
    runs: tuple[NamedPath, ...] = (),
    encoder: tuple[str, ...] = (),
    metrics: str = "ndcg@1,ndcg@3,ndcg@10",
    tune: str = "ndcg@10",
    against: str = "",
    judged_only: bool = False,
    jobs: int = os.cpu_count() or 1,
) -> None:
    """Measure many systems on the same judgments and test their differences.

    Fits or trains every system with every seed, ranks, and writes report.html, report.md,
    metrics.json, per_query.tsv, qrels.trec and runs/. Run the same command again to resume, or to
    retry failed systems. It needs the folder work/, which keeps the log, the training data, and the
    model and rankings of each system and seed. Remove work/ when you need neither the models nor
    another run.

        dssm benchmark --clicks clicks.tsv --corpus corpus.tsv --judge-later 0.2 --out BENCH

    Args:
        clicks: click logs (TSV, CSV, JSONL, Parquet), globs or directories.
        out: directory to write, or to resume in.
        judgments: table with query_id, query, doc_id, title, grade; `dssm data convert trec`
            makes one from TREC qrels.
        corpus: table with doc_id, title: rank all of it.
        judge_later: FRACTION: instead of --judgments, use the latest FRACTION of the log's rows as
            judgments, and learn from the earlier rows. Rows count, not their clicks.
        hold_out_queries: FRACTION: remove FRACTION of the queries from the click log and measure
            on them; without --judgments, their clicks are the judgments.
        tables: layout of the tables.
        max_reject_fraction: fraction of the log's rows, and of its clicks, that may be malformed.
        max_robot_fraction: fraction of the training rows, and of their clicks, that may be dropped
            because their sessions have too many queries or clicks for a person.
        ignore_other_files: skip other files and subdirectories in the directories of --clicks.
        typos: add one typing error to each judged query, the same in every run.
        systems: comma-separated baselines and configurations by name, configuration files,
            `popularity`, or the groups all, baselines, towers. NAME=FILE or NAME=CONFIGURATION,
            such as small=paper/lstm-32, sets the name of the row.
        seeds: number of seeds of each random system.
        overrides: KEY=VALUE: a setting of every configuration; may be repeated.
        sweep: SYSTEM.KEY=V1,V2: one row per value, such as lstm.tower.cells=32,64 or
            plsa.topics=100,500; may be repeated.
        model: [NAME=]DIR: an existing model that `dssm train` or `dssm export` wrote, or the
            directory of a saved baseline; may be repeated.
        runs: [NAME=]FILE: a TREC run file of another system; may be repeated.
        encoder: [NAME=]MODEL: rank by the cosine of an encoder: the name or directory of a
            sentence-transformers model; may be repeated.
        metrics: comma-separated: ndcg@k, mrr@k, recall@k, precision@k, err@k, map, judged@k. With
            NDCG on a corpus, judged@10 is added: the fraction of the first ten titles that have a
            judgment.
        tune: metric by which cross-validation chooses parameters.
        against: comma-separated rows that tests and superscripts compare with, or all; by default
            bm25, ptm and dssm, if present.
        judged_only: add a table of the same systems on judged titles only: NDCG of the rankings
            without other titles, and concordance, the fraction of pairs in the order of their
            grades.
        jobs: number of systems to fit in parallel, by default one per core.

    Raises:
        UserError: an input or a flag is unusable, or a system failed; the others are in the table.
    """
    clicks, out = text_list(clicks), Path(out)
    judgments, corpus = optional_path(judgments), optional_path(corpus)
    # Imported here so that --help is fast.
    load_tensorflow()
    from dssm_tf.benchmark.benchmark import Options, measure_systems
    from dssm_tf.benchmark.prepare import Sources
    from dssm_tf.reports.files import REPORT_FILES
    from dssm_tf.reports.report import show

    evaluation = measure_systems(
        Options(
            sources=Sources(
                clicks, judgments, corpus, judge_later, hold_out_queries,
                tables.layout(), max_reject_fraction, typos, ignore_other_files, max_robot_fraction,
            ),
            out=out,
            systems=_names(systems),
            seeds=seeds,
            sweeps=sweep,
            overrides=overrides,
            existing={
                "encoder": named_models(encoder, "--encoder"),
                "model": named_models(model, "--model"),
                "run": named_models(runs, "--runs"),
            },
            against=_names(against),
            metrics=_names(metrics),
            tune=tune,
            judged_only=judged_only,
            jobs=jobs,
        )
    )  # fmt: skip
    show(evaluation, f"Written: {out}/{REPORT_FILES}")
    if failed := [row.name for row in evaluation.rows if row.error]:
        raise UserError(
            f"{len(failed)} of {len(evaluation.rows)} rows failed: {', '.join(failed)}. The "
            "reasons are above the table. Run the same command again to retry them."
        )


def _names(text: str) -> list[str]:
    """Splits names at commas, except inside brackets as in `a.widths=[4,2]`."""
    return [name.strip() for name in re.split(r",(?![^\[]*\])", text) if name.strip()]
