"""`dssm data`: published data sets, or one's own log, as clicks, corpus and judgments."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands import data_judged
from dssm_tf.commands.parser import Commands, add_encoding, add_log_flags, command, fields_flag
from dssm_tf.common.errors import UserError, did_you_mean
from dssm_tf.text.fields import parse_fields

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.datasets import Adapter
    from dssm_tf.datasets.output import Output
    from dssm_tf.tables.click_log import LogRow
    from dssm_tf.tables.splits import Split

_DETAILS = """Writes clicks.tsv, corpus.tsv and judgments.tsv from the files of a published data set
or of your own search application. The files are yours to obtain and their licences yours to keep;
`dssm data list` says for each source which files, where they are described and what is allowed.
"""
_SPLIT = """Divides your own click log into clicks.tsv, to learn from (`preprocess --input`), and
judgments.tsv, made of the clicks of the rest (`dssm evaluate --judgments`): per query grade 3 for
the most clicked title, 2 for at least half of its clicks, else 1. corpus.tsv has the titles to
rank. The same flags of `dssm benchmark` divide a log in the same way.
"""
NOTES = "NOTES.md"


def add(commands: Commands) -> None:
    """Adds `dssm data` to the parser."""
    parser = commands.add_parser(
        "data",
        help="make clicks, corpus and judgments of published data sets or of your own log",
        description=_DETAILS,
    )
    tasks = parser.add_subparsers(dest="task", metavar="TASK", required=True)
    listing = tasks.add_parser("list", help="the sources: files, licences, grades")
    listing.add_argument("name", nargs="?", metavar="NAME", help="one source only")
    listing.set_defaults(run=lambda arguments: list_command(arguments.name))
    convert = tasks.add_parser("convert", help="convert one", description=_DETAILS)
    convert.add_argument("name", metavar="NAME", help="a source of `dssm data list`")
    convert.add_argument("source", metavar="SRC", type=Path, help="directory with its files")
    convert.add_argument("out", metavar="OUT", type=Path, help="directory to write, new")
    convert.add_argument(
        "--held-out",
        type=float,
        metavar="SHARE",
        help="share of the queries, or of the latest clicks, that become judgments and not "
        "clicks, from 0 to 1; for sources whose publisher has made no split",
    )
    convert.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the source; may be repeated",
    )
    convert.set_defaults(
        run=lambda arguments: convert_command(
            arguments.name,
            arguments.source,
            arguments.out,
            arguments.held_out,
            arguments.set,
            encoding=arguments.encoding,
        ),
    )
    add_encoding(convert)
    _add_split(tasks)
    data_judged.add(tasks)


def _add_split(tasks: Commands) -> None:
    split = command(
        tasks, "split", split_command, "divide your own log into clicks and judgments", _SPLIT,
    )  # fmt: skip
    add_log_flags(split)
    split.add_argument(
        "--corpus", type=Path, help="table with doc_id, title; the titles of the log if not given"
    )
    how = split.add_mutually_exclusive_group(required=True)
    how.add_argument(
        "--judge-later", type=float, metavar="SHARE", help="the latest SHARE of the rows judges"
    )
    how.add_argument(
        "--hold-out-queries", type=float, metavar="SHARE", help="SHARE of the queries judges"
    )
    how.add_argument(
        "--judge-random", type=float, metavar="SHARE", help="SHARE of the rows judges, at random"
    )
    split.add_argument("--seed", type=int, default=0, help="of --judge-random")
    split.add_argument("--out", required=True, type=Path, help="directory to write, new")


def list_command(name: str | None = None, console: Console | None = None) -> None:
    """Prints what there is to convert.

    Args:
        name: one source only.
        console: where to print; a new one by default.

    Raises:
        UserError: there is no such source.
    """
    from rich.console import Console

    from dssm_tf.datasets import ADAPTERS

    console = console or Console()
    for each in ADAPTERS if name is None else [_known(name)]:
        text = "\n".join([each, *(f"  {line}" for line in _description(ADAPTERS[each]))])
        console.print(text + "\n", highlight=False, markup=False, soft_wrap=True)


def split_command(arguments: argparse.Namespace, console: Console | None = None) -> None:
    """Divides a click log; nothing is left at `--out` if it fails.

    Args:
        arguments: the parsed flags.
        console: where to print; a new one by default.

    Raises:
        UserError: a flag or the log is unusable, or the output exists.
    """
    from rich.console import Console

    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.datasets.output import CLICKS, CORPUS, JUDGMENTS
    from dssm_tf.tables.cells import BadRow
    from dssm_tf.tables.click_log import position, read_logs, write_log
    from dssm_tf.tables.judgments import read_corpus, write_corpus, write_judgments
    from dssm_tf.tables.layout import Layout
    from dssm_tf.tables.splits import in_words, judged_by_clicks
    from pipelines.sources import find_files

    console = console or Console()
    out, encoding = arguments.out, arguments.encoding
    divide = _division(arguments)
    refuse_existing(out)
    fields = parse_fields(arguments.title_fields)
    layout = Layout(encoding, thousands=arguments.thousands, title_fields=fields)
    corpus = read_corpus(arguments.corpus, encoding, fields) if arguments.corpus else None
    files = [Path(one.path) for one in find_files(arguments.clicks, "--clicks")]
    unread = 0

    def place(cell: object, name: str) -> int:
        nonlocal unread
        try:
            return position(cell, name)
        except BadRow:
            unread += 1
            return 0

    rows, tally = read_logs(files, layout, arguments.max_reject_fraction, place=place)
    split = divide(sorted(rows))  # no figure depends on the order of a log
    judgments, titles = judged_by_clicks(split, corpus)
    words = [
        *tally.lines(),
        *([f"{unread:,} rows have a position that is none; written without it"] * bool(unread)),
        in_words(split.described()),
        f"{len(judgments):,} judgments of {len({one.query_id for one in judgments}):,} queries, "
        f"{len(titles):,} titles",
    ]
    with atomic_directory(out) as aside:
        write_log(aside / CLICKS, split.learned, fields)
        write_judgments(aside / JUDGMENTS, judgments, fields)
        write_corpus(aside / CORPUS, titles, fields)
        notes = ["# A click log, divided by `dssm data split`", "", *(f"- {one}." for one in words)]
        (aside / NOTES).write_text("\n".join(notes) + "\n", "utf-8")
    same = fields_flag(fields)
    words += [
        f"written: {out}/{CLICKS}, {JUDGMENTS}, {CORPUS}, {NOTES}",
        f"next: dssm preprocess --input {out}/{CLICKS} --corpus {out}/{CORPUS}{same} --output DATA",
        f"      and, with what is trained on it, dssm evaluate --model RUN --judgments "
        f"{out}/{JUDGMENTS} --corpus {out}/{CORPUS}{same} --out EVALUATION",
    ]
    console.print("\n".join(words), highlight=False, markup=False, soft_wrap=True)


def _division(arguments: argparse.Namespace) -> Callable[[Sequence[LogRow]], Split]:
    """What the flags ask for."""
    from dssm_tf.tables.splits import split_at_random, split_by_query, split_by_time

    later, queries = arguments.judge_later, arguments.hold_out_queries
    for name in ("judge_later", "hold_out_queries", "judge_random"):
        share = getattr(arguments, name)
        if share is not None and not 0 < share < 1:
            raise UserError(
                f"--{name.replace('_', '-')} {share:g}: expected a share above 0 and below 1."
            )
    if later is not None:
        return lambda rows: split_by_time(rows, later, arguments.time_format)
    if queries is not None:
        return lambda rows: split_by_query(rows, queries)
    return lambda rows: split_at_random(rows, arguments.judge_random, arguments.seed)


def convert_command(
    name: str,
    source: Path,
    out: Path,
    held_out: float | None = None,
    settings: Sequence[str] = (),
    console: Console | None = None,
    *,
    encoding: str = "utf-8",
) -> None:
    """Converts a data set.

    Writes `clicks.tsv`, `corpus.tsv`, `judgments.tsv` and `NOTES.md` with the licence and the
    counts into a new directory; nothing is left there if it fails.

    Args:
        name: of `ADAPTERS`.
        source: directory with the publisher's files.
        out: directory to make.
        held_out: share that becomes judgments; the source's default if None.
        settings: `KEY=VALUE` options of the source.
        console: where to print; a new one by default.
        encoding: of files that their publisher's description does not say to be otherwise.

    Raises:
        UserError: an unknown name or option, a file or column is missing, too many rows are
            malformed, or `out` exists.
    """
    from rich.console import Console

    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.datasets import ADAPTERS
    from dssm_tf.datasets.output import CLICKS, CORPUS, JUDGMENTS, Output
    from dssm_tf.datasets.source import Source

    console = console or Console()
    adapter = ADAPTERS[_known(name)]
    options = _options(name, adapter, settings)
    share = _share(name, adapter, held_out)
    refuse_existing(out)
    files = Source(source, console, encoding)
    with atomic_directory(out) as aside:
        with Output(aside, adapter.columns, timed=0 < share < 1) as output:
            adapter.convert(files, output, options, share)
            output.dropped += files.rejected
            output.finish(str(source))
        counts = [
            f"{output.rows[table]:,} rows of {table}"
            for table in (CLICKS, CORPUS, JUDGMENTS)
            if output.rows[table]
        ]
        chosen = "" if adapter.held_out is None else f" with --held-out {share:g}"
        missing = [
            f"no {table}: nothing is {use}{chosen}"
            for table, use, meant in ((CLICKS, "left to learn from", 1), (JUDGMENTS, "judged", 0))
            if not output.rows[table] and not (chosen and share == meant)
        ]
        (aside / NOTES).write_text(
            _notes(name, adapter, share, options, output, [*counts, *missing]), "utf-8"
        )
    lines = [f"{out}: {', '.join(counts)}", *missing, f"licence: {adapter.licence}"]
    lines += [f"left out: {count:,} x {reason}" for reason, count in output.dropped.most_common()]
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _known(name: str) -> str:
    from dssm_tf.datasets import ADAPTERS

    if name not in ADAPTERS:
        raise UserError(
            f"there is no source {name!r}; choose from {', '.join(ADAPTERS)}."
            f"{did_you_mean(name, ADAPTERS)}"
        )
    return name


def _options(name: str, adapter: Adapter, settings: Sequence[str]) -> dict[str, str]:
    """The source's options, defaults first."""
    options = {key: text.split(" ", 1)[0] for key, text in adapter.options.items()}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key not in options:
            raise UserError(
                f"--set {setting}: expected KEY=VALUE; {name} has the keys "
                f"{', '.join(options) or 'none'}.{did_you_mean(key, options)}"
            )
        options[key] = value
    return options


def _share(name: str, adapter: Adapter, held_out: float | None) -> float:
    if held_out is None:
        return adapter.held_out or 0.0
    if adapter.held_out is None:
        raise UserError(f"--held-out: {name} is split by its publisher: {adapter.split}.")
    if not 0.0 <= held_out <= 1.0:
        raise UserError(f"--held-out is {held_out}; expected a share from 0 to 1.")
    return held_out


def _description(adapter: Adapter) -> list[str]:
    lines = [adapter.title, f"described: {adapter.described}", f"licence: {adapter.licence}"]
    lines += [f"file: {file}" for file in adapter.files]
    lines += [f"grades: {adapter.grades}", f"split: {adapter.split}"]
    if adapter.held_out is not None:
        lines.append(f"--held-out: {adapter.held_out:g}")
    for key, text in adapter.options.items():
        default, _, meaning = text.partition(" ")
        lines.append(f"--set {key}={default}: {meaning}")
    return lines


def _notes(
    name: str,
    adapter: Adapter,
    share: float,
    options: dict[str, str],
    output: Output,
    counts: Sequence[str],
) -> str:
    """What the directory holds and what may be done with it."""
    lines = [
        f"# {adapter.title}",
        "",
        f"Converted by `dssm data convert {name}`.",
        "",
        f"- Described in: {adapter.described}.",
        f"- Licence: {adapter.licence}.",
        f"- Grades: {adapter.grades}.",
        f"- Split: {adapter.split}" + (f" = {share:g}." if adapter.held_out is not None else "."),
        *(f"- Option {key}: {value}." for key, value in options.items()),
        *(f"- {count}." for count in counts),
        *(f"- Left out: {n:,} x {reason}." for reason, n in output.dropped.most_common()),
    ]
    return "\n".join(lines) + "\n"
