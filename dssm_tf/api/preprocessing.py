"""`dssm_tf.preprocess`: turns click logs, as files or data frames, into training records."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from typing_extensions import Unpack

from dssm_tf.common.errors import UserError
from dssm_tf.common.paths import AnyPath
from dssm_tf.common.siblings import import_siblings
from dssm_tf.common.terminal import quiet_output, say
from dssm_tf.tables.frames import TableSource, parquet_of
from dssm_tf.tables.layout import TITLE, Layout, parse_columns

if TYPE_CHECKING:
    from pipelines.options import PreprocessOptions

import_siblings()

Tables = TableSource | Sequence[TableSource]
"""One table or several: paths, globs or directories, or data frames."""


class PreprocessSettings(TypedDict, total=False):
    """The settings of `dssm preprocess`; `dssm preprocess --help` describes them."""

    overwrite: bool
    shards: int
    max_reject_fraction: float
    ignore_other_files: bool
    encoding: str
    columns: str | Mapping[str, str]
    corpus_columns: str | Mapping[str, str]
    title_fields: str | Sequence[str]
    min_clicks: int
    block_list: AnyPath
    max_queries_per_session: int
    max_clicks_per_session: int
    max_robot_fraction: float
    letter_ngrams: str | Sequence[str]
    vocabulary_size: int
    vocabulary_from: AnyPath
    min_ngram_count: int
    hash_buckets: int
    keep_accents: bool
    max_words: int
    max_letters: int
    field_rows: str
    validation_fraction: float
    negatives: int
    negative_alpha: float
    negatives_from: str
    previous_report: AnyPath
    report_min_sessions: int
    position_weights: str
    max_position_weight: float
    seed: int


def preprocess(
    *beam_flags: str,
    output: AnyPath,
    input: Tables = (),
    corpus: Tables = (),
    runner: str = "DirectRunner",
    quiet: bool = False,
    **settings: Unpack[PreprocessSettings],
) -> None:
    """Turns click logs, titles, or both into training records, as `dssm preprocess` does.

    Args:
        *beam_flags: flags of Beam and of its runner, such as `--direct_num_workers=2`.
        output: directory to write.
        input: click logs: files, globs, directories or data frames with query, title and optionally
            clicks and the other columns of `dssm preprocess`.
        corpus: titles to rank: files, globs, directories or data frames with title.
        runner: any Beam runner.
        quiet: whether to write nothing to standard error.
        **settings: the other flags of `dssm preprocess`, such as `min_clicks=2`. `columns` may be a
            mapping, such as `{"query": "search_term"}`, and `title_fields` a list.

    Raises:
        UserError: an input or a setting cannot be used; no output is left.
        TypeError: a setting does not exist.
    """
    from pydantic import ValidationError

    from pipelines.options import PreprocessOptions

    unknown = sorted({*settings} - {*PreprocessSettings.__annotations__})
    if unknown:
        raise TypeError(f"preprocess has no setting {unknown[0]!r}.")
    with _files(input, "input") as logs, _files(corpus, "corpus") as corpora:
        try:
            options = PreprocessOptions(
                output=os.fspath(output), input=logs, corpus=corpora,
                **{name: _flag_value(value) for name, value in settings.items()},
            )  # fmt: skip
        except ValidationError as error:
            problem = error.errors()[0]
            raise UserError(
                f"{problem['loc'][-1]} is {problem['input']!r:.80}; {problem['msg'].lower()}."
            ) from None
        _run(options, beam_flags, runner, quiet)


def table_list(tables: Any) -> list[TableSource]:
    """One table or several as a list."""
    return list(tables) if isinstance(tables, (list, tuple)) else [tables]


def layout_of_settings(settings: PreprocessSettings) -> Layout:
    """The layout of the tables that `preprocess` reads with these settings."""
    from dssm_tf.text.fields import parse_fields

    flags = {name: _flag_value(value) for name, value in settings.items()}
    return Layout(
        flags.get("encoding", "utf-8"),
        parse_fields(flags.get("title_fields", TITLE)),
        parse_columns(flags.get("columns", "")),
        parse_columns(flags.get("corpus_columns", ""), "--corpus-columns"),
    )


def _flag_value(value: Any) -> Any:
    """A setting as the command line writes it."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={column}" for name, column in value.items())
    if isinstance(value, Path):
        return str(value)
    return ",".join(value) if isinstance(value, (list, tuple)) else value


@contextmanager
def _files(tables: Tables, name: str) -> Iterator[tuple[str, ...]]:
    """The paths of tables; data frames are written to temporary Parquet files.

    Args:
        tables: see `Tables`.
        name: start of the names of the temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="dssm-") as folder:
        paths = []
        for index, table in enumerate(table_list(tables)):
            if isinstance(table, (str, Path)):
                paths.append(os.fspath(table))
                continue
            path = Path(folder) / f"{name}{index or ''}.parquet"
            path.write_bytes(parquet_of(table).getvalue())
            paths.append(str(path))
        yield tuple(paths)


def _run(options: PreprocessOptions, flags: Sequence[str], runner: str, quiet: bool) -> None:
    """Runs the pipeline; under IPython, in a separate process.

    Under IPython, Beam imports parts of its extra `interactive`, which this package does not
    install.
    """
    if "IPython" not in sys.modules or sys.modules["IPython"].get_ipython() is None:
        from pipelines.preprocess import preprocess as run

        with quiet_output(quiet):
            run(*flags, options=options, runner=runner)
        return
    command = [sys.executable, "-m", "pipelines.preprocess", *flags, f"--runner={runner}"]
    for field in fields(options):
        value = getattr(options, field.name)
        if value == field.default:
            continue
        flag = f"--{field.name.replace('_', '-')}"
        values = value if isinstance(value, tuple) else [value]
        command += [flag] if value is True else [flag, *map(str, values)]
    root = str(Path(sys.modules["pipelines"].__file__ or "").resolve().parents[1])
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    }
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["preprocess failed"]
        raise UserError(lines[-1].removeprefix("dssm preprocess: "))
    with quiet_output(quiet):
        say(*process.stderr.splitlines(), to=sys.stderr)
