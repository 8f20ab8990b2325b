"""`dssm data check`: describes a click log as preprocess would, and writes nothing."""

from __future__ import annotations

import os
import sys
from shutil import get_terminal_size

from dssm_tf.common.errors import UserError
from dssm_tf.common.terminal import say
from pipelines.beam_log import load_beam, quiet_log
from pipelines.options import PreprocessOptions, Several


def check(
    *file: str,
    corpus: Several = (),
    previous_report: str = "",
    report_min_sessions: int = PreprocessOptions.report_min_sessions,
    min_clicks: int = PreprocessOptions.min_clicks,
    block_list: str = "",
    max_queries_per_session: int = PreprocessOptions.max_queries_per_session,
    max_clicks_per_session: int = PreprocessOptions.max_clicks_per_session,
    max_robot_fraction: float = PreprocessOptions.max_robot_fraction,
    max_reject_fraction: float = PreprocessOptions.max_reject_fraction,
    ignore_other_files: bool = False,
    keep_accents: bool = False,
    encoding: str = PreprocessOptions.encoding,
    columns: str = "",
    corpus_columns: str = "",
    title_fields: str = PreprocessOptions.title_fields,
) -> None:
    """Describe a click log as the report of preprocess does, without writing files.

    Shows dates, clicks by date, head and tail, the most clicked queries, queries without a click,
    merged titles, titles that the catalog lacks, dropped rows and sessions with the reasons, and
    changes since an earlier output of preprocess. The flags are the same as those of preprocess.

        dssm data check clicks.csv --corpus products.csv --columns query=search_term
        dssm data check clicks.tsv --previous-report DATA

    The exit code is 0 even if there are warnings.

    Args:
        file: click logs: TSV, CSV, JSONL or Parquet files (also .gz), globs or directories
        corpus: titles to rank: files of the same formats
        previous_report: an earlier output of preprocess to compare with
        report_min_sessions: show a query only if it was clicked in at least as many distinct
            sessions; a click without a session_id counts as a session
        min_clicks: drop (query, title) pairs with fewer clicks
        block_list: file of words and queries to drop
        max_queries_per_session: drop sessions with more distinct queries (robots); 0: keep all
        max_clicks_per_session: drop sessions with more clicks (robots); 0: keep all
        max_robot_fraction: warn if these two limits drop a larger fraction of the rows or clicks
        max_reject_fraction: warn if a larger fraction of the rows or clicks is malformed
        ignore_other_files: ignore files of other formats and subdirectories in directories
        keep_accents: distinguish words that differ only in accents
        encoding: encoding of the files, such as cp1252
        columns: names of the columns in the files, such as query=search_term
        corpus_columns: names of the columns in --corpus; by default those of --columns
        title_fields: columns that make up a title, separated by commas

    Raises:
        UserError: a file cannot be read, lacks a column or has no rows, or a flag is unusable.
    """
    if not (file or corpus):
        raise UserError("there is nothing to check; give a click log, or --corpus, or both.")
    options = PreprocessOptions(
        output="",
        input=tuple(map(os.fspath, file)),
        corpus=tuple(map(os.fspath, corpus)),
        previous_report=os.fspath(previous_report),
        report_min_sessions=report_min_sessions,
        min_clicks=min_clicks,
        block_list=block_list,
        max_queries_per_session=max_queries_per_session,
        max_clicks_per_session=max_clicks_per_session,
        max_robot_fraction=max_robot_fraction,
        max_reject_fraction=max_reject_fraction,
        ignore_other_files=ignore_other_files,
        keep_accents=keep_accents,
        encoding=encoding,
        columns=columns,
        corpus_columns=corpus_columns,
        title_fields=title_fields,
    )
    load_beam()
    from pipelines.check_log import check_log
    from pipelines.log_sections import log_sections, to_text

    with quiet_log():
        log, warnings = check_log(options)
    sections = log_sections(log)
    sections[0].lines += [f"Warning: {warning}" for warning in warnings]
    on_terminal = sys.stdout.isatty()
    width = get_terminal_size().columns if on_terminal else None
    lines = [*to_text(sections, width)][1:]
    if on_terminal:
        lines = [f"\033[1m{line[2:]}\033[0m" if line.startswith("# ") else line for line in lines]
    say(*lines)
