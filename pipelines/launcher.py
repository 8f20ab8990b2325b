"""A run of preprocess: what is checked before, the pipeline, and what is written after it."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.data.format import KINDS, VOCABULARY, Spec, describe, file_name, load_vocabulary
from dssm_tf.positions.curve import write_curve
from dssm_tf.positions.estimation import OPTION
from dssm_tf.tables.click_log import POSITION, REQUIRED
from dssm_tf.tables.layout import Reject
from dssm_tf.tables.lines import reading
from dssm_tf.tables.tally import Tally
from dssm_tf.text.rules import Rules
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import report
from pipelines.frames import Settings, told
from pipelines.graph import Manifest, bits_of, build
from pipelines.options import FLAGS, NONE, SPLITS, TRAIN, PreprocessOptions
from pipelines.output import (
    CURVE,
    REJECTS,
    Output,
    open_bytes,
    output_directory,
    refuse,
)
from pipelines.runners import choose_runner
from pipelines.sources import Piece, find_files, plan
from pipelines.texts import BlockList


def preprocess(
    options: PreprocessOptions,
    beam_flags: Sequence[str] = (),
    *,
    runner: str = "DirectRunner",
    verbose: bool = False,
) -> dict[str, Any]:
    """Turns click logs into training records.

    Args:
        options: the settings.
        beam_flags: flags of Beam and of its runner.
        runner: any of Beam's.
        verbose: whether Beam's log is shown.

    Returns:
        What `report.json` holds.

    Raises:
        UserError: bad input or settings; nothing is left at the output.
    """
    FileSystems.set_options(PipelineOptions([*beam_flags]))
    files, corpus = find_files(options.input), find_files(options.corpus, "--corpus")
    size = sum(one.size_in_bytes for one in (*files, *corpus))
    chosen = choose_runner(runner, beam_flags, FLAGS, size=size, verbose=verbose)
    block_list, known = _block_list(options.block_list, options.rules), _known(options)
    inputs = [*(one.path for one in (*files, *corpus)), *filter(None, [options.block_list])]
    if known is not None:
        inputs.append(str(Path(options.vocabulary_from, VOCABULARY)))
    refuse(options.output, inputs, overwrite=options.overwrite)
    columns = REQUIRED if options.position_weights == NONE else (*REQUIRED, POSITION)
    pieces = plan(files, options.layout, columns)
    titles = plan(corpus, options.layout, ("title",), ())
    bits = bits_of([*files, *corpus], options.shards)
    with output_directory(options.output, overwrite=options.overwrite) as output:
        settings = Settings(options, bits, output.workers, None, block_list)
        with ExitStack() as stack:
            if chosen.local:
                store = output.scratch / "blocks"
                store.mkdir()
                settings = settings._replace(store=str(store))
                state = partial(told, store)
                stack.enter_context(progress_of("preprocess", None, True, unit="", state=state))
                # Beam's temporary directory goes with ours, even if this process is killed.
                stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
                tempfile.tempdir = str(output.scratch)
            chosen.run(lambda pipeline: build(pipeline, pieces, settings, titles, known))
        manifest = Manifest.load(output.workers)
        tally = _write_rejects(manifest, pieces, output.local / REJECTS)
        _check(manifest, tally, options, output.local / REJECTS)
        return _finish(manifest, settings, output, tally, known)


def _block_list(path: str, rules: Rules) -> BlockList:
    if not path:
        return BlockList()
    with reading(f"--block-list {path}"), open_bytes(path) as file:
        return BlockList.parse(file.read().decode(), rules)


def _known(options: PreprocessOptions) -> Vocabulary | None:
    """The vocabulary that this one goes on from.

    Raises:
        UserError: there is none, or it was made with other text rules.
    """
    if not options.vocabulary_from:
        return None
    directory = Path(options.vocabulary_from)
    known = load_vocabulary(directory, Spec.load(directory))
    known.rules.check_same(options.rules, f"--vocabulary-from {directory}")
    return known


def _write_rejects(manifest: Manifest, pieces: Sequence[Piece], path: Path) -> Tally:
    """Lists the malformed rows, each with its file and its line in that file."""
    counts = manifest.counts
    tally = Tally(counts.get("rows", 0), counts.get("clicks read", 0))
    before, lines = [], Counter[int]()
    for piece in pieces:
        before.append(lines[piece.file])
        lines[piece.file] += counts.get(f"lines {piece.number}", 0)
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write("file\tline\treason\tclicks\ttext\n")
        for part in manifest.rejects:
            with open_bytes(part.path) as raw:
                rejects: list[Reject] = pickle.loads(raw.read())
            for one in rejects:
                row = one._replace(line=one.line + before[part.bucket])
                name = pieces[part.bucket].path
                tally.reject(name, row)
                file.write(f"{name}\t{row.line}\t{row.reason}\t{row.clicks}\t{row.text}\n")
    return tally


def _check(manifest: Manifest, tally: Tally, options: PreprocessOptions, rejects: Path) -> None:
    """Refuses logs that are empty, or of which too much is malformed or dropped."""
    counts = Counter(manifest.counts)
    where = " ".join(options.input)
    if not tally.rows:
        raise UserError(f"{where} holds no rows below the header; is it the right log?")
    if max(tally.shares) > options.max_reject_fraction:
        kept = shutil.move(rejects, Path(tempfile.mkdtemp(prefix="preprocess-"), REJECTS))
        tally.refuse(options.max_reject_fraction, "--max-reject-fraction", str(kept))
    if options.position_weights != NONE and not counts["clicks placed"]:
        raise UserError(f"{OPTION} needs positions, and no clicked row of {where} has one.")
    if options.corpus and not counts["titles corpus"]:
        raise UserError(f"--corpus {' '.join(options.corpus)} holds no title with a word.")
    for at, name in enumerate(options.fields):
        if counts["titles"] and not counts[f"field {at}"]:
            raise UserError(
                f"--title-fields: no title of {where} has a {name!r}; leave that name out, or "
                "look at the column."
            )
    pairs = sum(counts[f"pairs {split}"] for split in SPLITS)
    if not pairs:
        dropped = report.listed(report.named(counts, "dropped "))
        raise UserError(
            f"None of the {tally.rows:,} rows of {where} is left to learn from "
            f"(rejected: {tally.rejected:,}; dropped: {dropped or 'none'})."
        )
    learned = counts[f"pairs {TRAIN}"]
    if not learned:
        raise UserError(
            f"All {pairs:,} pairs are in the validation part; the log is too small for "
            f"--validation-fraction {options.validation_fraction:g}."
        )
    shown = options.negatives_from == "impressions" and options.negatives
    if shown and counts[f"without negatives {TRAIN}"] == learned:
        raise UserError(
            "--negatives-from impressions finds no negative: no query of the training part has a "
            "title that was shown and not clicked (a row with clicks 0 and impressions above 0). "
            "Use --negatives-from log."
        )


def _finish(
    manifest: Manifest,
    settings: Settings,
    output: Output,
    tally: Tally,
    known: Vocabulary | None,
) -> dict[str, Any]:
    """Names the workers' files and writes what describes them."""
    options, vocabulary = settings.options, manifest.vocabulary
    names = {
        one.path: file_name(one.kind, one.bucket, 1 << settings.bits) for one in manifest.files
    }
    output.take(names)
    vocabulary.save(output.local / VOCABULARY)
    result = report.make(manifest, options, tally, len(known.ngrams) if known else 0)
    if manifest.curve is not None and not manifest.curve.problem:
        write_curve(output.local / CURVE, manifest.curve)
    report.write(result, output.local)
    written = {
        **{path.name: describe(path) for path in output.local.iterdir() if path.is_file()},
        **{names[one.path]: (one.size, one.digest) for one in manifest.files},
    }
    Spec(
        rules=options.rules,
        title_fields=options.fields,
        trigrams=len(vocabulary.ngrams),
        fingerprint=vocabulary.fingerprint,
        negatives=options.negatives,
        negative_alpha=options.negative_alpha,
        seed=options.seed,
        clicks=manifest.counts[f"clicks {TRAIN}"],
        # in order of buckets
        rows={kind: [one.rows for one in manifest.files if one.kind == kind] for kind in KINDS},
        files=dict(sorted(written.items())),
    ).save(output.local)
    return result
