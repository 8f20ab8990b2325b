"""`dssm data judgments`: writes judgments from clicks in the formats of other tools."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, TableFlags
from dssm_tf.common.errors import UserError
from dssm_tf.common.notes import NOTES, write_notes
from dssm_tf.common.terminal import say

if TYPE_CHECKING:
    import polars as pl

    from dssm_tf.positions.curve import ExaminationCurve

NONE = "none"
_Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]
_MaxWeight = Annotated[float, Parameter(validator=validators.Number(gte=1, lte=1000))]


def judgments(
    *,
    clicks: Annotated[tuple[str, ...], Parameter(consume_multiple=True)],
    format: Literal["trec", "quepid", "search-relevance"],
    out: Path,
    corpus: Path | None = None,
    min_clicks: _Count = 1,
    min_impressions: _Count = 10,
    position_weights: str = NONE,
    max_position_weight: _MaxWeight = 10.0,
    max_reject_fraction: float = 0.1,
    ignore_other_files: bool = False,
    tables: TableFlags = DEFAULT_TABLE_FLAGS,
) -> None:
    """Grade titles by the clicks of a log, for trec_eval, Quepid or OpenSearch.

    For each query: grade 3 for the most clicked title, 2 for titles with at least half of its
    clicks, 1 for other clicked titles, and 0 for titles that were displayed --min-impressions times
    without a click. Writes the file of the other tool, judgments.tsv with the texts of queries and
    titles, and NOTES.md.

        dssm data judgments --clicks clicks.tsv --corpus corpus.tsv --format quepid --out JUDGMENTS

    Args:
        clicks: click logs: TSV, CSV, JSONL or Parquet files, globs or directories
        format: trec: qrels.trec for trec_eval; quepid: quepid.csv, ratings of a case;
            search-relevance: search_relevance.json, for OpenSearch's Search Relevance Workbench
        out: directory to write, new
        corpus: table with doc_id, title; clicks are matched to it by the doc_id of the log, else by
            title. By default the titles of the log with its doc_id
        min_clicks: leave out queries with fewer clicks
        min_impressions: titles without a click have grade 0 if they were displayed this often
        position_weights: correct for position bias: divide clicks by the probability that users
            examine the position, and multiply impressions by it. none; harvesting: estimate the
            probabilities from titles displayed at several positions for one query (the log has the
            columns position and impressions); or a table with the columns position and propensity
        max_position_weight: maximum weight of a click
        max_reject_fraction: fail if a larger fraction of the rows, or of the clicks, is malformed
        ignore_other_files: ignore files of other formats and subdirectories in directories
        tables: encoding and columns of the files

    Raises:
        UserError: a flag or the log is unusable, or the output exists.
    """
    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.tables.click_judgments import RULE, judge_log
    from dssm_tf.tables.click_log import POSITION, SCHEMA, read_logs
    from dssm_tf.tables.exchange_formats import FORMATS
    from dssm_tf.tables.judgments import read_corpus, write_judgments
    from pipelines.beam_log import load_beam

    load_beam()
    from pipelines.sources import find_files

    refuse_existing(out)
    layout = tables.layout()
    files = find_files(clicks, "--clicks", ignore_others=ignore_other_files)
    titles = None if corpus is None else read_corpus(corpus, layout.corpus)
    required = () if position_weights == NONE else (POSITION,)
    rows, tally = read_logs(files.paths, layout.of_log(corpus), max_reject_fraction, required)
    rows = rows.sort(*SCHEMA)  # no result depends on the order of the log
    notes, weights = [], None
    if position_weights != NONE:
        from dssm_tf.positions.curve import CLICK_WEIGHT_SCALE

        curve = _curve(position_weights, rows)
        if curve.problem:
            raise UserError(f"--position-weights {position_weights}: {curve.problem}.")
        positions = rows["position"].to_numpy()
        weights = curve.click_weights(positions, max_position_weight) / CLICK_WEIGHT_SCALE
        notes.append(curve.summary(max_position_weight))
    result = judge_log(
        rows, titles, weights=weights, min_clicks=min_clicks, min_impressions=min_impressions
    )
    exchange_format = FORMATS[format]
    grades = [judgment.grade for judgment in result.judgments]
    counts = ", ".join(f"{grades.count(grade):,} of grade {grade}" for grade in range(3, -1, -1))
    queries = len({judgment.query_id for judgment in result.judgments})
    with atomic_directory(out) as directory:
        left_out = exchange_format.write(directory / exchange_format.file, result.judgments)
        write_judgments(directory / "judgments.tsv", result.judgments)
        lines = [
            *files.notes,
            *tally.lines(),
            f"{len(grades):,} judgments of {queries:,} queries: {counts}",
            *notes,
            *result.notes,
            *left_out,
        ]
        title = f"Judgments from clicks, by `dssm data judgments --format {format}`"
        write_notes(directory, title, [*lines, RULE])
    path = out / exchange_format.file
    say(
        *lines,
        f"written: {out}/{exchange_format.file}, judgments.tsv, {NOTES}",
        f"next: {exchange_format.use.format(file=shlex.quote(str(path)))}",
    )


def _curve(source: str, rows: pl.DataFrame) -> ExaminationCurve:
    """The examination curve of a file, or that of the log."""
    import polars as pl

    from dssm_tf.positions.curve import read_curve
    from dssm_tf.positions.estimation import HARVESTING, estimate
    from dssm_tf.positions.impressions import ImpressionCounts
    from dssm_tf.tables.text_columns import normal_forms
    from dssm_tf.text.rules import FOLDED

    if source != HARVESTING:
        return read_curve(source)
    impressions = rows.filter(rows["position"] > 0)
    keys = [normal_forms(impressions[name], FOLDED).alias(name) for name in ("query", "title")]
    cells = (
        impressions.with_columns(*keys)
        .group_by("query", "title", "position")
        .agg(pl.col("impressions", "clicks").sum())
        .with_columns(pl.col("query", "title").rank("dense").cast(pl.Int64))
    )
    return estimate(ImpressionCounts.from_cells(cells.to_numpy()))
