"""The examination curve of a log, from a pass over it before the pipeline's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from dssm_tf.common.errors import OptionError, UserError, did_you_mean
from dssm_tf.positions.curve import ExaminationCurve, read_curve
from dssm_tf.positions.estimation import HARVESTING, OPTION, estimate
from dssm_tf.positions.shown import Cell, Shown
from dssm_tf.tables.table import Reject
from dssm_tf.text.fingerprint import fingerprint64
from pipelines.aggregation import bucket_of
from pipelines.blocks import (
    FAILED,
    Block,
    Counts,
    fill_pool,
    keep,
    pack,
    step,
    sum_counts,
    unpack_all,
    until_error,
)
from pipelines.cleaning import normal_form
from pipelines.negatives import smallest
from pipelines.options import NONE, PreprocessOptions
from pipelines.sources import Piece, PieceReader
from pipelines.writing import PARTS, create, open_bytes

_CELLS = "cells"
_MOST_HELD = 200_000
_MOST_CELLS = 200_000
"""Of a larger log a sample of the queries says how often positions are looked at."""

_Sums = dict[tuple[str, str, int], tuple[int, int]]
"""Impressions and clicks by normalised query, normalised title and position."""


def curve_of(
    pieces: Sequence[Piece],
    options: PreprocessOptions,
    buckets: int,
    directory: str,
    store: str | None,
    run: Callable[[Callable[[beam.Pipeline], None]], None],
) -> ExaminationCurve | None:
    """The curve that clicks are to be weighted by; None if they are not.

    Args:
        pieces: of the log.
        options: the settings.
        buckets: that it is grouped in.
        directory: where workers write.
        store: see `blocks.keep`.
        run: makes a pipeline, gives it to a function that adds the steps, and runs it.

    Raises:
        UserError: the file does not exist or is not a curve, or the log has no positions.
    """
    asked = options.position_weights
    if asked == NONE:
        return None
    if asked != HARVESTING:
        if not Path(asked).is_file():
            raise OptionError(
                OPTION,
                f"is {asked!r}, and there is no such file; expected none, harvesting or a "
                f"file with position and propensity.{did_you_mean(asked, (NONE, HARVESTING))}",
            )
        return read_curve(asked)
    run(lambda pipeline: _add_steps(pipeline, pieces, options, buckets, directory, store))
    with open_bytes(FileSystems.join(directory, PARTS, _CELLS)) as file:
        ((counts, block),) = unpack_all([file.read()])
    if failed := sorted(counts):
        raise UserError(failed[0].removeprefix(FAILED))
    (cells,) = unpack_all([block])
    return estimate(Shown.of(sorted(cells)[:_MOST_CELLS]), options.seed)


def _add_steps(
    pipeline: beam.Pipeline,
    pieces: Sequence[Piece],
    options: PreprocessOptions,
    buckets: int,
    directory: str,
    store: str | None,
) -> None:
    read = (
        pipeline
        | "Pieces" >> beam.Create(list(pieces))
        | "Spread pieces" >> beam.Reshuffle()
        | "Count impressions" >> step(_read_piece, options, buckets, store, counts=Counts)
    )
    cells = (
        read.main
        | "Group queries" >> beam.GroupByKey()
        | "Sum cells" >> beam.Map(_sum_bucket).with_output_types(bytes)
        | "Sample queries" >> beam.CombineGlobally(fill_pool, _MOST_CELLS)
    )
    counts = read.counts | "Sum counts" >> beam.CombineGlobally(sum_counts)
    _ = (
        pipeline
        | "Once" >> beam.Create([directory])
        | "Write cells" >> beam.Map(_write, pvalue.AsSingleton(counts), pvalue.AsSingleton(cells))
    )


def _read_piece(
    piece: Piece, options: PreprocessOptions, buckets: int, store: str | None
) -> Iterator[Any]:
    failed: Counts = {}
    held: _Sums = {}
    for _, row in until_error(PieceReader(piece, options.layout, positions=True), failed):
        if isinstance(row, Reject) or not row.position:
            continue
        query, title = normal_form(row.query, options.rules), row.title
        key = query, normal_form(title, options.rules), row.position
        known = held.get(key, (0, 0))
        held[key] = known[0] + row.impressions, known[1] + row.clicks
        if len(held) == _MOST_HELD:
            yield from _by_bucket(held, buckets, store)
            held = {}
    yield from _by_bucket(held, buckets, store)
    yield TaggedOutput("counts", failed)


def _by_bucket(held: _Sums, buckets: int, store: str | None) -> Iterator[Block]:
    shares: dict[int, _Sums] = {}
    for key, sums in held.items():
        if key[0] and key[1]:
            shares.setdefault(bucket_of(key[0], buckets), {})[key] = sums
    yield from keep(shares.items(), store)


def _sum_bucket(element: tuple[int, Iterable[bytes]]) -> bytes:
    """A block of the cells of a bucket's queries, of all or of a sample."""
    total: _Sums = {}
    for block in unpack_all(element[1]):
        for key, (impressions, clicks) in block.items():
            known = total.get(key, (0, 0))
            total[key] = known[0] + impressions, known[1] + clicks
    cells: Iterator[Cell] = (
        (fingerprint64(query), fingerprint64(title), position, impressions, clicks)
        for (query, title, position), (impressions, clicks) in total.items()
        if impressions
    )
    return pack(smallest(cells, _MOST_CELLS))


def _write(directory: str, counts: Counts, cells: bytes) -> None:
    with create(FileSystems.join(directory, PARTS, _CELLS)) as file:
        file.write(pack((counts, cells)))
