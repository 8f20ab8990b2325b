"""Click logs to training records: `dssm preprocess --input LOG --output DATA`."""

from __future__ import annotations

import json
import logging
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystem import BeamIOError, FileMetadata
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState
from pyarrow import parquet

from dssm_tf import __version__
from dssm_tf.common.boundary import run_command
from dssm_tf.common.errors import OptionError, UserError
from dssm_tf.data.format import KINDS, VOCABULARY, Spec, describe, file_name, load_vocabulary
from dssm_tf.positions.curve import ExaminationCurve, write_curve
from dssm_tf.positions.estimation import OPTION
from dssm_tf.tables.click_log import POSITION, REQUIRED
from dssm_tf.tables.layout import Reject
from dssm_tf.tables.tally import Placed, Tally
from dssm_tf.text.rules import Rules
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import report
from pipelines.cleaning import BlockList
from pipelines.frames import FAILED
from pipelines.graph import Manifest, bits_of, build
from pipelines.options import NONE, SPLITS, TRAIN, Job, PreprocessOptions, flag, parse, parser
from pipelines.output import (
    CURVE,
    REJECTS,
    REQUEST,
    Output,
    create,
    is_local,
    open_bytes,
    output_directory,
    refuse,
)
from pipelines.positions import curve_of
from pipelines.progress import Progress, quiet_console, showing
from pipelines.runners import LOCAL_RUNNERS, BadFlag, choose_runner, with_workers
from pipelines.settings import Settings
from pipelines.sources import Piece, find_corpus, find_files, plan

# An error of the system at the end of the traceback that Beam makes of it.
_FROM_WORKER = re.compile(
    r"^(?:\w+: )*\w*(?:Error|Exception): (\[Errno \d+\] .*?)(?: \[while|$)", re.M
)
_REJECTS_HEADER = b"file\tline\treason\tclicks\ttext\n"


def run(argv: Sequence[str] | None = None) -> int:
    """Runs preprocess as the command line does.

    Args:
        argv: the arguments; those of the process when None.

    Returns:
        0 when the output is complete, 1 when the job failed with a one-line reason.

    Raises:
        SystemExit: with code 2, on wrong usage.
    """

    def work() -> None:
        try:
            job = parse(argv)
            text = _once(job)
        except BadFlag as error:
            parser().error(str(error))
        quiet_console().print(text, highlight=False, markup=False)

    return run_command("dssm preprocess", work)


def _once(job: Job) -> str:
    """Runs a job, unless its output is there already; returns what to say of it."""
    options = job.options
    if not is_local(options.output):
        return report.summary(preprocess(job), options.output)
    path = Path(options.output) / REQUEST
    if not options.overwrite and path.is_file() and path.read_bytes() == _request(options):
        return f"{options.output}: written before by the same command, nothing left to do"
    text = report.summary(preprocess(job), options.output)
    path.write_bytes(_request(options))
    return text


def _request(options: PreprocessOptions) -> bytes:
    """All settings, and size and time of the files that they name, as JSON."""
    tables = *find_files(options.input), *find_files(options.corpus, "--corpus")
    others = options.block_list, options.position_weights, f"{options.vocabulary_from}/{VOCABULARY}"
    paths = [path for path in map(Path, (*(one.path for one in tables), *others)) if path.is_file()]
    files = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    given = asdict(options) | {"output": "", "overwrite": False}
    return json.dumps({"version": __version__, **given, "files": files}, indent=2).encode()


def preprocess(job: Job) -> dict[str, Any]:
    """Runs a job.

    Returns:
        What `report.json` holds, and `seconds`.

    Raises:
        UserError: bad input or settings; nothing is left at the output.
    """
    started = time.monotonic()
    options = job.options
    choose_runner(job.runner, job.beam_flags)
    block_list = _block_list(options.block_list, options.rules)
    files = find_files(options.input)
    corpus = find_corpus(options.corpus, options.layout)
    size = sum(one.size_in_bytes for one in (*files, *corpus))
    flags = with_workers(job.runner, job.beam_flags, size)
    runner = choose_runner(job.runner, flags, verbose=job.verbose)
    known = _known_vocabulary(options)
    inputs = [*(one.path for one in (*files, *corpus)), *filter(None, [options.block_list])]
    if known is not None:
        inputs.append(str(Path(options.vocabulary_from) / VOCABULARY))
    refuse(options.output, inputs, overwrite=options.overwrite)
    _refuse_rejects_of_others(_rejects_aside(options.output))
    columns = REQUIRED if options.position_weights == NONE else (*REQUIRED, POSITION)
    pieces = plan(files, options.layout, columns)
    bits = bits_of([*files, *corpus], options.shards)
    with output_directory(options.output, overwrite=options.overwrite) as output:
        settings = Settings(options, bits, output.workers)
        curve = _run_pipelines(job, runner, pieces, corpus, block_list, known, output, settings)
        manifest = Manifest.load(output.workers)
        tally = _check(manifest, pieces, options)
        result = _finish(manifest, pieces, settings, output, tally, known, curve)
    if is_local(aside := _rejects_aside(options.output)):
        Path(aside).unlink(missing_ok=True)
    return result | {"seconds": time.monotonic() - started}


def _block_list(path: str, rules: Rules) -> BlockList:
    if not path:
        return BlockList()
    try:
        with open_bytes(path) as file:
            return BlockList.parse(file.read().decode(), rules)
    except (OSError, BeamIOError) as error:
        raise UserError(f"--block-list {path} cannot be read: {error}.") from error
    except UnicodeDecodeError:
        raise UserError(f"--block-list {path} is not UTF-8.") from None


def _known_vocabulary(options: PreprocessOptions) -> Vocabulary | None:
    """The vocabulary that this one goes on from.

    Raises:
        UserError: there is none, or it was made with other text rules.
    """
    if not options.vocabulary_from:
        return None
    directory = Path(options.vocabulary_from)
    known = load_vocabulary(directory, Spec.load(directory))
    known.rules.check_same(options.rules, f"{flag('vocabulary_from')} {directory}")
    return known


def _run_pipelines(
    job: Job,
    runner: tuple[Any, PipelineOptions],
    pieces: Sequence[Piece],
    corpus: Sequence[FileMetadata],
    block_list: BlockList,
    known: Vocabulary | None,
    output: Output,
    settings: Settings,
) -> ExaminationCurve | None:
    """Runs the pipeline, and before it that of the examination curve, if one is asked for."""

    def run(add_steps: Callable[[beam.Pipeline], None]) -> None:
        pipeline = beam.Pipeline(runner=runner[0], options=runner[1])
        add_steps(pipeline)
        try:
            state = pipeline.run().wait_until_finish()
        except RuntimeError as error:  # Beam's word for whatever a worker raised
            if found := _FROM_WORKER.search(str(error)):
                raise UserError(f"{found[1]}; nothing was written.") from error
            raise
        # A local run is over when it returns.
        if state not in (PipelineState.DONE, None):
            raise UserError(f"The pipeline ended as {state}; see the runner's log.")

    with ExitStack() as stack:
        if job.runner in LOCAL_RUNNERS:
            reports, blocks = output.scratch / "progress", output.scratch / "blocks"
            reports.mkdir()
            blocks.mkdir()
            settings = settings._replace(progress=Progress(str(reports)), store=str(blocks))
            stack.enter_context(showing(str(reports), quiet_console()))
            # Beam's temporary directory goes with ours, even if this process is killed.
            stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
            tempfile.tempdir = str(output.scratch)
        if not job.verbose:
            stack.callback(logging.disable, logging.root.manager.disable)
            logging.disable(logging.ERROR)
        curve = curve_of(pieces, settings, run)
        weights = () if curve is None else curve.weights(job.options.max_position_weight)
        run(lambda all_steps: build(
            all_steps, pieces, settings, block_list, corpus, known, weights
        ))  # fmt: skip
    return curve


def _check(manifest: Manifest, pieces: Sequence[Piece], options: PreprocessOptions) -> Tally:
    """Refuses logs that are unreadable or empty, or of which too much is malformed or dropped.

    Returns:
        How much was malformed.
    """
    counts = manifest.counts
    if failed := sorted(name for name in counts if name.startswith(FAILED)):
        raise UserError(failed[0].removeprefix(FAILED))
    rows = counts.get("rows", 0)
    where = " ".join(options.input)
    if not rows:
        raise UserError(f"{where} holds no rows below the header; is it the right log?")
    tally = report.tally(manifest, _rejects(manifest, pieces))
    if tally.share > options.max_reject_fraction:
        aside = _rejects_aside(options.output)
        with Path(aside).open("wb") if is_local(aside) else create(aside) as file:
            _write_rejects(manifest, pieces, file)
        tally.refuse(options.max_reject_fraction, flag("max_reject_fraction"), aside)
    if options.position_weights != NONE and not counts.get("clicks placed"):
        raise OptionError(OPTION, f"needs positions, and no clicked row of {where} has one.")
    if options.corpus and not counts.get("titles corpus"):
        raise UserError(f"--corpus {' '.join(options.corpus)} holds no title with a word.")
    if absent := [
        name
        for at, name in enumerate(options.fields)
        if len(options.fields) > 1 and counts.get("titles") and not counts.get(f"field {at}")
    ]:
        raise UserError(
            f"--title-fields: no title of {where} has a {absent[0]!r}; leave that name out, or "
            "look at the column."
        )
    pairs = sum(counts.get(f"pairs {split}", 0) for split in SPLITS)
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in report.named(counts, "dropped ").items())
    if not pairs:
        raise UserError(
            f"None of the {rows:,} rows of {where} is left to learn from "
            f"(rejected: {tally.rejected:,}; dropped: {dropped or 'none'})."
        )
    records = counts.get(f"records {TRAIN}", 0)
    if (
        options.negatives_from == "impressions"
        and options.negatives
        and records
        and counts.get(f"without negatives {TRAIN}", 0) == records
    ):
        raise UserError(
            "--negatives-from impressions finds no negative: no query of the training part has a "
            "title that was shown and not clicked (a row with clicks 0 and impressions above 0). "
            "Use --negatives-from log."
        )
    if not counts.get(f"pairs {TRAIN}"):
        raise UserError(
            f"All {pairs:,} pairs fell into the held-out part; the log is too small for "
            f"--validation-fraction {options.validation_fraction:g}."
        )
    return tally


def _finish(
    manifest: Manifest,
    pieces: Sequence[Piece],
    settings: Settings,
    output: Output,
    tally: Tally,
    known: Vocabulary | None,
    curve: ExaminationCurve | None,
) -> dict[str, Any]:
    """Names the workers' files and writes what describes them."""
    options, count = settings.options, settings.buckets
    names = {one.path: file_name(one.kind, one.bucket, count) for one in manifest.files}
    output.take(names)
    rows = {
        kind: [one.rows for one in manifest.files if one.kind == kind]  # in order of buckets
        for kind in KINDS
    }
    samples = _samples(manifest, rows["titles"], output.workers)
    with (output.local / REJECTS).open("wb") as file:
        _write_rejects(manifest, pieces, file)
    vocabulary = Vocabulary(manifest.ngrams, options.rules)
    vocabulary.save(output.local / VOCABULARY)
    before = 0 if known is None else len(known.ngrams)
    result = report.make(manifest, options, vocabulary.fingerprint, tally, samples, before, curve)
    if curve is not None and not curve.problem:
        write_curve(output.local / CURVE, curve)
    report.write(result, output.local)
    written = {names[one.path]: (one.size, one.digest) for one in manifest.files}
    # Of a run on this machine, the workers' files lie there too.
    own = [path for path in sorted(output.local.iterdir()) if path.is_file()]
    written |= {path.name: describe(path) for path in own if path.name not in written}
    Spec(
        rules=options.rules,
        title_fields=options.fields,
        trigrams=len(vocabulary.ngrams),
        fingerprint=vocabulary.fingerprint,
        negatives=options.negatives,
        negative_alpha=options.negative_alpha,
        seed=options.seed,
        clicks=manifest.counts.get(f"clicks {TRAIN}", 0),
        rows=rows,
        files=dict(sorted(written.items())),
    ).save(output.local)
    return result


def _samples(manifest: Manifest, rows: Sequence[int], directory: str) -> list[dict[str, Any]]:
    """Some records with their texts, and what the training part has of their titles."""
    first = np.append(0, np.cumsum(rows))
    numbers = np.array(sorted({one for *_, titles in manifest.samples for one in titles}), int)
    found: dict[int, dict[str, Any]] = {}
    for bucket in np.unique(np.searchsorted(first, numbers, side="right") - 1).tolist():
        name = file_name("titles", bucket, len(rows))
        with open_bytes(FileSystems.join(directory, name)) as file:
            table = parquet.read_table(BytesIO(file.read()), columns=["text", "clicks", "queries"])
        inside = numbers[(numbers >= first[bucket]) & (numbers < first[bucket + 1])]
        some = table.take(inside - first[bucket]).to_pylist()
        found |= dict(zip(inside.tolist(), some, strict=True))
    return [
        {"query": query, "clicks": clicks, "titles": [[*found[one].values()] for one in titles]}
        for _, query, clicks, titles in manifest.samples
    ]


def _rejects(manifest: Manifest, pieces: Sequence[Piece]) -> Iterator[Placed]:
    """The workers' rejects, each with its file and its line in that file."""
    lines_before: dict[int, int] = {}
    offset = 0
    for piece in pieces:
        if piece.number and pieces[piece.number - 1].file != piece.file:
            offset = 0
        lines_before[piece.number] = offset
        offset += manifest.counts.get(f"lines {piece.number}", 0)
    for number, part in manifest.rejects:
        path, before = pieces[number].path, lines_before[number]
        with open_bytes(part) as rows:
            for row in rows:
                line, reason, clicks, text = row.decode().rstrip("\n").split("\t", 3)
                yield Placed(path, Reject(int(line) + before, reason, text, int(clicks)))


def _write_rejects(manifest: Manifest, pieces: Sequence[Piece], file: Any) -> None:
    file.write(_REJECTS_HEADER)
    for path, (line, reason, text, clicks) in _rejects(manifest, pieces):
        row = f"{path}\t{line}\t{reason}\t{clicks}\t{text}\n"
        file.write(row.encode("utf-8", "backslashreplace"))


def _refuse_rejects_of_others(aside: str) -> None:
    """Raises UserError where the rejects of a failed job would replace a file of another kind."""
    if not is_local(aside) or not Path(aside).exists():
        return
    with Path(aside).open("rb") as file:
        if file.read(len(_REJECTS_HEADER)) != _REJECTS_HEADER:
            raise UserError(
                f"{aside} is where the rows that a failed run rejects are listed, and it holds "
                "something else; rename it, or choose another --output."
            )


def _rejects_aside(output: str) -> str:
    """Where the rejects of a failed job are kept."""
    return f"{output.rstrip('/')}.{REJECTS}"


if __name__ == "__main__":
    sys.exit(run())
