"""`dssm data`: published data sets as clicks, corpus and judgments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.commands.parser import Commands
from dssm_tf.common.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from dssm_tf.adapters import Adapter
    from dssm_tf.adapters.output import Output

_DETAILS = """Writes clicks.tsv, corpus.tsv and judgments.tsv from the files of a published data set
or of your own search application. The files are yours to obtain and their licences yours to keep;
`dssm data list` says for each source which files, where they are described and what is allowed.
"""
NOTES = "NOTES.md"


def add(commands: Commands) -> None:
    """Adds `dssm data` to the parser."""
    parser = commands.add_parser(
        "data",
        help="convert published data sets into clicks, corpus and judgments",
        description=_DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
            arguments.name, arguments.source, arguments.out, arguments.held_out, arguments.set
        )
    )


def list_command(name: str | None = None, console: Console | None = None) -> None:
    """Prints what there is to convert.

    Args:
        name: one source only.
        console: where to print; a new one by default.

    Raises:
        UserError: there is no such source.
    """
    from rich.console import Console

    from dssm_tf.adapters import ADAPTERS

    console = console or Console()
    for each in ADAPTERS if name is None else [_known(name)]:
        text = "\n".join([each, *(f"  {line}" for line in _description(ADAPTERS[each]))])
        console.print(text + "\n", highlight=False, markup=False, soft_wrap=True)


def convert_command(
    name: str,
    source: Path,
    out: Path,
    held_out: float | None = None,
    settings: Sequence[str] = (),
    console: Console | None = None,
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

    Raises:
        UserError: an unknown name or option, a file or column is missing, a row is malformed,
            or `out` exists.
    """
    from rich.console import Console

    from dssm_tf.adapters import ADAPTERS
    from dssm_tf.adapters.output import CLICKS, CORPUS, JUDGMENTS, Output
    from dssm_tf.adapters.source import Source
    from dssm_tf.common.files import atomic_directory, refuse_existing

    console = console or Console()
    adapter = ADAPTERS[_known(name)]
    options = _options(name, adapter, settings)
    share = _share(name, adapter, held_out)
    refuse_existing(out)
    files = Source(source, console)
    with atomic_directory(out) as aside:
        output = Output(aside, adapter.columns)
        try:
            adapter.convert(files, output, options, share)
            output.close(str(source))
        finally:
            output.abandon()
        counts = [
            f"{output.rows(table):,} rows of {table}"
            for table in (CLICKS, CORPUS, JUDGMENTS)
            if output.rows(table)
        ]
        (aside / NOTES).write_text(_notes(name, adapter, share, options, output, counts), "utf-8")
    lines = [f"{out}: {', '.join(counts)}", f"licence: {adapter.licence}"]
    lines += [f"left out: {count:,} x {reason}" for reason, count in output.dropped.most_common()]
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _known(name: str) -> str:
    from dssm_tf.adapters import ADAPTERS

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
