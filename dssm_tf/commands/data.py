"""`dssm data`: converts published data sets or your own log to clicks, corpus and judgments."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dssm_tf.commands.data_judgments import judgments
from dssm_tf.commands.data_run import run
from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS, OptionalFraction, TableFlags
from dssm_tf.common.errors import UserError, check_name, similar_name_hint
from dssm_tf.common.notes import NOTES, write_notes
from dssm_tf.common.paths import AnyPath, NamedPath, optional_path, text_list
from dssm_tf.common.terminal import RESULT, say
from pipelines.check import check

if TYPE_CHECKING:
    from dssm_tf.datasets import Adapter


def list_(name: str | None = None, /) -> None:
    """List the data sets: files, licenses, grades.

    For each data set, shows the required files, their description and their license.

        dssm data list wands

    Args:
        name: name of a data set; by default all are listed

    Raises:
        UserError: there is no such data set.
    """
    from dssm_tf.datasets import ADAPTERS

    if name is not None:
        check_name("source", name, ADAPTERS)
    for source in ADAPTERS if name is None else [name]:
        say(source, *(f"  {line}" for line in _description(ADAPTERS[source])), "", level=RESULT)


def convert(
    name: str,
    source: AnyPath,
    out: AnyPath,
    /,
    *,
    held_out: float | None = None,
    settings: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
    encoding: str = "utf-8",
) -> None:
    """Convert the files of a published data set, or of your own search application.

    Writes clicks.tsv, corpus.tsv, judgments.tsv and NOTES.md, with the license and the counts. You
    must obtain the files yourself and comply with their licenses; see `dssm data list`. A failed
    conversion leaves no output.

        dssm data convert wands DOWNLOADED wands

    Args:
        name: a data set of `dssm data list`
        source: directory with its files
        out: directory to write, new
        held_out: fraction of the queries, or of the latest clicks, that become judgments instead of
            clicks, from 0 to 1; only if the publisher has not split the data
        settings: KEY=VALUE, an option of the data set; may be repeated
        encoding: encoding of the files, unless the data set has a fixed one

    Raises:
        UserError: an unknown name or option, a file or column is missing, too many rows are
            malformed, or `out` exists.
    """
    source, out = Path(source), Path(out)
    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.datasets import ADAPTERS
    from dssm_tf.datasets.output import CLICKS, CORPUS, JUDGMENTS, DatasetWriter
    from dssm_tf.datasets.source import Source

    check_name("source", name, ADAPTERS)
    adapter = ADAPTERS[name]
    options = _options(name, adapter, settings)
    fraction = _held_out_fraction(name, adapter, held_out)
    refuse_existing(out)
    files = Source(source, True, encoding)
    with atomic_directory(out) as directory:
        with DatasetWriter(directory, adapter.columns, fraction) as output:
            adapter.convert(files, output, options)
            output.dropped += files.rejected
            output.finish(str(source))
        flag = "" if adapter.held_out is None else f" with --held-out {fraction:g}"
        tables = (CLICKS, CORPUS, JUDGMENTS)
        counts = [f"{output.rows[table]:,} rows of {table}" for table in tables]
        dropped = [
            f"left out: {count:,} x {reason}" for reason, count in output.dropped.most_common()
        ]
        lines = [*_description(adapter), *(f"option {key}: {options[key]}" for key in options)]
        write_notes(directory, f"{adapter.title}, converted by `dssm data convert {name}`{flag}",
                     [*lines, *counts, *dropped])  # fmt: skip
    say(f"{out}: {', '.join(counts)}", f"license: {adapter.license}", *dropped)


def split(
    *,
    clicks: Annotated[tuple[NamedPath, ...], Parameter(consume_multiple=True)],
    out: AnyPath,
    corpus: AnyPath | None = None,
    judge_later: OptionalFraction = None,
    hold_out_queries: OptionalFraction = None,
    max_reject_fraction: float = 0.1,
    ignore_other_files: bool = False,
    tables: TableFlags = DEFAULT_TABLE_FLAGS,
) -> None:
    """Split your own click log into clicks and judgments.

    Writes clicks.tsv for training (`preprocess --input`), and judgments.tsv, derived from the
    other clicks (`dssm evaluate --judgments`): for each query, grade 3 for the most clicked title,
    2 for titles with at least half of its clicks, else 1. corpus.tsv has the titles to rank.
    `dssm benchmark` splits a log the same way with the same flags. A failed split leaves no
    output.

        dssm data split --clicks clicks.csv --judge-later 0.2 --out SPLIT

    Args:
        clicks: click logs: TSV, CSV, JSONL or Parquet files, globs or directories
        out: directory to write, new
        corpus: table with doc_id, title; clicks are matched to it by the doc_id of the log, else by
            title. By default the titles of the log with its doc_id
        judge_later: fraction of the rows, the latest ones, that become judgments
        hold_out_queries: fraction of the queries whose clicks become judgments
        max_reject_fraction: fail if a larger fraction of the rows, or of the clicks, is malformed
        ignore_other_files: ignore files of other formats and subdirectories in directories
        tables: encoding and columns of the files

    Raises:
        UserError: a flag or the log is unusable, or the output exists.
    """
    clicks, out, corpus = text_list(clicks), Path(out), optional_path(corpus)
    from dssm_tf.common.files import (
        DATA_FILE_HINT,
        atomic_directory,
        refuse_existing,
        refuse_special_file,
    )
    from dssm_tf.datasets.output import CLICKS, CORPUS, JUDGMENTS
    from dssm_tf.tables import splits
    from dssm_tf.tables.click_log import SCHEMA, read_logs, write_log
    from dssm_tf.tables.judgments import read_corpus, write_corpus, write_judgments
    from pipelines.beam_log import load_beam

    load_beam()
    from pipelines.sources import find_files

    splits.check_fractions(judge_later, hold_out_queries)
    if judge_later is None and hold_out_queries is None:
        raise UserError("expected one of --judge-later, --hold-out-queries, each with a fraction.")
    refuse_existing(out)
    layout = tables.layout()
    files = find_files(clicks, "--clicks", ignore_others=ignore_other_files)
    if corpus is not None:
        refuse_special_file(corpus, DATA_FILE_HINT)
    if corpus is not None and not corpus.is_file():
        raise UserError(f"--corpus {corpus} cannot be read: there is no such file.")
    if judge_later is not None:
        splits.check_has_times(files.paths, layout)
    corpus_titles = read_corpus(corpus, layout.corpus) if corpus else None

    rows, tally = read_logs(files.paths, layout.of_log(corpus), max_reject_fraction)
    # Sorted, so that no result depends on the order of the log.
    log_split = splits.split_log(rows.sort(*SCHEMA), judge_later, hold_out_queries)
    judgments, titles, notes = splits.derive_judgments(log_split, corpus_titles)
    summary_lines = [
        *files.notes,
        *tally.lines(),
        log_split.summary(),
        f"{len(judgments):,} judgments of {len({row.query_id for row in judgments}):,} queries, "
        f"{len(titles):,} titles",
        *notes,
    ]
    with atomic_directory(out) as directory:
        write_log(directory / CLICKS, log_split.train)
        write_judgments(directory / JUDGMENTS, judgments)
        write_corpus(directory / CORPUS, titles)
        write_notes(directory, "A click log, split by `dssm data split`", summary_lines)
    clicks_path, judgments_path, corpus_path = (
        shlex.quote(str(out / name)) for name in (CLICKS, JUDGMENTS, CORPUS)
    )
    say(
        *summary_lines,
        f"written: {out}/{CLICKS}, {JUDGMENTS}, {CORPUS}, {NOTES}",
        f"next: dssm preprocess --input {clicks_path} --corpus {corpus_path} --output DATA",
        f"      and, after training, dssm evaluate --model RUN --judgments "
        f"{judgments_path} --corpus {corpus_path} --out EVALUATION",
    )


SUBCOMMANDS = {
    "list": list_,
    "convert": convert,
    "split": split,
    "check": check,
    "run": run,
    "judgments": judgments,
}


def _options(name: str, adapter: Adapter, settings: Sequence[str]) -> dict[str, str]:
    """The options of the data set: its defaults, overridden by `--set`."""
    options = {key: option.default for key, option in adapter.options.items()}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key not in options:
            raise UserError(
                f"--set {setting}: expected KEY=VALUE; {name} has the keys "
                f"{', '.join(options) or 'none'}.{similar_name_hint(key, options)}"
            )
        options[key] = value
    return options


def _held_out_fraction(name: str, adapter: Adapter, held_out: float | None) -> float:
    if held_out is None:
        return adapter.held_out or 0.0
    if adapter.held_out is None:
        raise UserError(f"--held-out cannot change the split of {name}, which is {adapter.split}.")
    if not 0.0 <= held_out <= 1.0:
        raise UserError(f"--held-out is {held_out}; expected a fraction from 0 to 1.")
    return held_out


def _description(adapter: Adapter) -> list[str]:
    lines = [adapter.title, f"origin: {adapter.origin}", f"license: {adapter.license}"]
    lines += [f"file: {file}" for file in adapter.files]
    lines += [f"grades: {adapter.grades}", f"split: {adapter.split}"]
    if adapter.held_out is not None:
        lines.append(f"--held-out: {adapter.held_out:g}")
    for key, option in adapter.options.items():
        lines.append(f"--set {key}={option.default}: {option.description}")
    return lines
