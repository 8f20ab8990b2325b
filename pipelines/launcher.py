"""A run of preprocess: checks of the input, the pipeline, and the files written after it."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from dssm_tf.common.checksums import sha256_of
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.common.terminal import say
from dssm_tf.data.format import KINDS, VOCABULARY, Spec, file_name, load_vocabulary
from dssm_tf.positions.curve import write_curve
from dssm_tf.tables.click_log import POSITION, log_columns
from dssm_tf.tables.columns import unchanged
from dssm_tf.tables.layout import Layout, Reject
from dssm_tf.tables.lines import reading
from dssm_tf.tables.read import open_table
from dssm_tf.tables.tally import Tally
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import report
from pipelines.graph import BUCKET_BYTES, build, unpacked_size
from pipelines.manifest import OutputManifest, load_rejects
from pipelines.options import FLAGS, NONE, TRAIN, PreprocessOptions
from pipelines.output import (
    CURVE,
    PARTS,
    REJECTS,
    PendingOutput,
    open_bytes,
    output_directory,
)
from pipelines.parse_log import CORPUS_TITLES
from pipelines.previous import PreviousReport, load_previous
from pipelines.runners import LOCAL_RUNNERS, prepare, run
from pipelines.shards import BlockList, Counts, PipelineContext
from pipelines.sources import Piece, find_files, plan

_CORPUS_HINT = " To train on the titles of --corpus alone, leave out --input."


def preprocess(
    options: PreprocessOptions,
    beam_flags: Sequence[str] = (),
    *,
    runner: str = "DirectRunner",
) -> dict[str, Any]:
    """Turns click logs, a corpus of titles, or both into training records.

    Args:
        options: the settings.
        beam_flags: flags of Beam and of its runner.
        runner: name of any Beam runner.

    Returns:
        The content of `report.json`.

    Raises:
        UserError: bad input or settings; no output is left.
    """
    prepare(beam_flags, [*options.input, *options.corpus, options.output])
    ignore = options.ignore_other_files
    hint = _CORPUS_HINT if options.corpus else ""
    files, notes = find_files(options.input, ignore_others=ignore, hint=hint)
    corpus, more_notes = find_files(options.corpus, "--corpus", ignore_others=ignore)
    say(*notes, *more_notes, to=sys.stderr)
    size = unpacked_size([*files, *corpus])
    earlier_vocabulary = _earlier_vocabulary(options)
    # With --vocabulary-from, its kinds of letter n-grams are the default.
    options = replace(options, letter_ngrams=",".join(earlier_vocabulary.rules.letter_ngrams))
    block_list, previous = load_block_list(options), load_previous(options)
    required = () if options.position_weights == NONE else (POSITION,)
    pieces = plan(files, options.layout, log_columns(*required))
    titles = plan(corpus, options.layout.corpus, CORPUS_TITLES)
    bits = bucket_bits(size, options)
    with output_directory(options.output, overwrite=options.overwrite) as output:
        shard_directory = str(output.local / PARTS) if runner in LOCAL_RUNNERS else None
        context = PipelineContext(
            options, bits, output.workers, shard_directory, block_list,
            previous=previous and previous.tables,
        )  # fmt: skip
        with ExitStack() as stack:
            if shard_directory:
                folder = Path(shard_directory)

                def progress_state() -> str:
                    read, written = (len([*folder.glob(f"{name}-*")]) for name in ("read", TRAIN))
                    pieces_read = f"{read:,} of {len(pieces):,} pieces read, " if pieces else ""
                    return f"{pieces_read}{written:,} of {2**bits:,} buckets written"

                stack.enter_context(
                    progress_of("preprocess", None, True, unit="", state=progress_state)
                )
                # Beam's temporary files are inside our directory. If this process is killed,
                # the next run removes it.
                stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
                tempfile.tempdir = shard_directory
            run(
                lambda pipeline: build(pipeline, pieces, context, titles, earlier_vocabulary),
                runner, beam_flags, FLAGS, size=size,
            )  # fmt: skip
        manifest = OutputManifest.load(output.workers)
        tally = _write_rejects(manifest, pieces, output.local / REJECTS)
        _check(manifest, tally, options)
        return _finish(manifest, context, output, tally, previous)


def bucket_bits(size: int, options: PreprocessOptions) -> int:
    """The binary logarithm of the number of buckets.

    Args:
        size: bytes of the unpacked input.
        options: options of the command.
    """
    return ((options.shards or -(-size // BUCKET_BYTES)) - 1).bit_length()


def load_block_list(options: PreprocessOptions) -> BlockList:
    """Reads `--block-list`; an empty one without the flag."""
    if not options.block_list:
        return BlockList()
    where = f"--block-list {options.block_list}"
    with reading(where):
        file = open_bytes(options.block_list)
    with open_table(where, "txt", Layout(options.encoding), file) as table:
        lines = [line for frame, _ in table.scan([unchanged("text")]) for line in frame["text"]]
    return BlockList.parse("\n".join(lines), options.rules)


def _earlier_vocabulary(options: PreprocessOptions) -> Vocabulary:
    """The vocabulary of `--vocabulary-from`, whose n-grams keep their ids; empty without the flag.

    Raises:
        UserError: the directory has no vocabulary, or its text rules differ from the flags.
    """
    if not options.vocabulary_from:
        return Vocabulary((), options.rules)
    directory = Path(options.vocabulary_from)
    vocabulary = load_vocabulary(directory, Spec.load(directory))
    rules = options.rules
    if not options.letter_ngrams:
        rules = replace(rules, letter_ngrams=vocabulary.rules.letter_ngrams)
    vocabulary.rules.check_same(rules, f"--vocabulary-from {directory}")
    return vocabulary


def _write_rejects(manifest: OutputManifest, pieces: Sequence[Piece], path: Path) -> Tally:
    """Writes and counts the malformed rows, each with its file and line."""
    counts = manifest.counts
    max_clicks = (count for name, count in counts.items() if name.startswith("most clicks "))
    tally = Tally()
    tally.add(
        counts.get("rows: read", 0), counts.get("clicks: read", 0), max(max_clicks, default=0)
    )
    rejects = ((file.bucket, load_rejects(file)) for file in manifest.rejects)
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write("file\tline\treason\tclicks\ttext\n")
        for name, rows in with_file_lines(counts, pieces, rejects):
            tally.reject(name, rows)
            for row in rows:
                clicks = "unknown" if row.clicks is None else row.clicks
                file.write(f"{name}\t{row.line}\t{row.reason}\t{clicks}\t{row.text}\n")
    return tally


def with_file_lines(
    counts: Mapping[str, int],
    pieces: Sequence[Piece],
    rejects: Iterable[tuple[int, list[Reject]]],
) -> Iterator[tuple[str, list[Reject]]]:
    """Yields each file with its malformed rows, whose line numbers count from the file's start.

    Args:
        counts: counts of the steps, with the number of lines of each piece.
        pieces: all pieces of the log.
        rejects: pairs of a piece's number and its malformed rows, with line numbers in the piece.
    """
    first_lines, lines = [], Counter[str]()
    for piece in pieces:
        first_lines.append(lines[piece.path])
        lines[piece.path] += counts.get(f"lines {piece.number}", 0)
    for number, rows in rejects:
        if number >= len(pieces):
            raise UserError(
                f"The manifest names piece {number} of {len(pieces)}. Another program changed it: "
                "keep others from writing into the output, and rerun."
            )
        yield (
            pieces[number].path,
            [replace(row, line=row.line + first_lines[number]) for row in rows],
        )


def _check(manifest: OutputManifest, tally: Tally, options: PreprocessOptions) -> None:
    """Raises UserError if the log is empty, or too much of it is malformed or dropped.

    Without a log, at least one title of the corpus must have a word.
    """
    if not options.input:
        if not manifest.counts.get("titles: in all"):
            raise UserError(
                f"--corpus {' '.join(options.corpus)} has no title with a word; is it the right "
                f"file, and are {', '.join(options.fields)} the right columns?"
            )
        return
    where, hint = " ".join(options.input), _CORPUS_HINT if options.corpus else ""
    if not tally.rows:
        raise UserError(f"{where} holds no rows below the header; is it the right log?{hint}")
    tally.check_reject_fraction(options.max_reject_fraction)
    check_robot_fraction(manifest.counts, options)
    if f"{TRAIN}: pairs" not in manifest.counts:
        raise UserError(
            f"None of the {tally.rows:,} rows of {where} is left to learn from "
            f"({'; '.join(tally.lines() + report.count_lines(manifest.counts))}).{hint}"
        )


def check_robot_fraction(counts: Counts, options: PreprocessOptions) -> None:
    """Checks how much of a log is dropped as the sessions of robots.

    Args:
        counts: counts of the steps.
        options: options of the command.

    Raises:
        UserError: the fraction is above the limit; probably, one session_id is used for many users,
            or a limit is too low.
    """
    queries, clicks = "session with many queries", "session with many clicks"
    dropped_rows = sum(counts.get(f"dropped: {name}", 0) for name in (queries, clicks))
    dropped_clicks = counts.get("clicks of robots", 0)
    fractions = (
        dropped_rows / (counts.get("rows: read") or 1),
        dropped_clicks / (counts.get("clicks: read") or 1)
    )  # fmt: skip
    if max(fractions) > options.max_robot_fraction:
        raise UserError(
            f"{fractions[0]:.1%} of the rows and {fractions[1]:.1%} of the clicks are of sessions "
            "that look like robots; the limit is "
            f"{options.max_robot_fraction:.1%}: {counts.get(f'dropped: {queries}', 0):,} rows of "
            f"sessions with more than {options.max_queries_per_session:,} distinct queries, "
            f"{counts.get(f'dropped: {clicks}', 0):,} of sessions with more than "
            f"{options.max_clicks_per_session:,} clicks. If session_id is not the id of a session, "
            "such as a placeholder for unknown ones, leave it empty; if it is, raise "
            "--max-robot-fraction, or --max-queries-per-session and "
            "--max-clicks-per-session (0: keep all)."
        )


def _finish(
    manifest: OutputManifest,
    context: PipelineContext,
    output: PendingOutput,
    tally: Tally,
    previous: PreviousReport | None,
) -> dict[str, Any]:
    """Renames the files of workers and writes the spec, the vocabulary and the report."""
    options, vocabulary = context.options, manifest.vocabulary
    names = {
        file.path: file_name(file.kind, file.bucket, 1 << context.bits) for file in manifest.files
    }
    output.rename(names)
    vocabulary.save(output.local / VOCABULARY)
    result = report.build_report(manifest, options, tally, previous)
    if manifest.curve is not None and not manifest.curve.problem:
        write_curve(output.local / CURVE, manifest.curve)
    report.write_report(result, output.local)
    Spec(
        rules=options.rules,
        title_fields=options.fields,
        ngrams=len(vocabulary.ngrams),
        fingerprint=vocabulary.fingerprint,
        negatives=options.negatives,
        negative_alpha=options.negative_alpha,
        clicks=manifest.counts.get(f"{TRAIN}: clicks", 0),
        # Files are in the order of buckets.
        rows={kind: [file.rows for file in manifest.files if file.kind == kind] for kind in KINDS},
        files={names[file.path]: file.digest for file in manifest.files}
        | {VOCABULARY: sha256_of(output.local / VOCABULARY)},
    ).save(output.local)
    return result
