"""The examination curve of a log, from a pass over it before the pipeline's own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import polars as pl
from apache_beam import pvalue
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from dssm_tf.common.errors import OptionError, UserError, did_you_mean
from dssm_tf.positions.curve import ExaminationCurve, read_curve
from dssm_tf.positions.estimation import HARVESTING, OPTION, estimate
from dssm_tf.positions.shown import Shown
from pipelines.frames import (
    FAILED,
    Counts,
    Part,
    as_ipc,
    fold,
    parts_of,
    step,
    sum_counts,
    until_error,
)
from pipelines.options import NONE
from pipelines.output import PARTS, create, open_bytes
from pipelines.settings import Settings
from pipelines.sources import Piece, PieceReader
from pipelines.texts import fingerprints, normal_forms
from pipelines.transforms import MAX_ROWS_HELD

_CELLS = "cells"
_MOST_CELLS = 200_000
"""Of a larger log a sample of the queries says how often positions are looked at."""
_KEYS = ("q", "t", "position")
_SCHEMA = {
    "q": pl.UInt64, "t": pl.UInt64, "position": pl.Int64, "impressions": pl.Int64,
    "clicks": pl.Int64,
}  # fmt: skip


def curve_of(
    pieces: Sequence[Piece],
    settings: Settings,
    run: Callable[[Callable[[beam.Pipeline], None]], None],
) -> ExaminationCurve | None:
    """The curve that clicks are to be weighted by; None if they are not.

    Args:
        pieces: of the log.
        settings: what all steps are told.
        run: makes a pipeline, gives it to a function that adds the steps, and runs it.

    Raises:
        UserError: the file does not exist or is not a curve, or the log has no positions.
    """
    options = settings.options
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
    run(lambda pipeline: _add_steps(pipeline, pieces, settings))
    with open_bytes(FileSystems.join(settings.directory, PARTS, _CELLS)) as file:
        counts, cells = pickle.loads(file.read())
    if failed := sorted(counts):
        raise UserError(failed[0].removeprefix(FAILED))
    (part,) = parts_of([cells])[_CELLS]
    rows = part.frame.with_columns(pl.col("q", "t").reinterpret(signed=True))
    return estimate(Shown.of(rows.to_numpy()), options.seed)


def _add_steps(pipeline: beam.Pipeline, pieces: Sequence[Piece], settings: Settings) -> None:
    read = (
        pipeline
        | "Pieces" >> beam.Create(list(pieces))
        | "Spread pieces" >> beam.Reshuffle()
        | "Count impressions" >> step(_read_piece, settings, counts=Counts)
    )
    cells = (
        read.main
        | "Group queries" >> beam.GroupByKey()
        | "Sum cells" >> beam.Map(lambda element: _sample(element[1])).with_output_types(bytes)
        | "Sample queries" >> beam.CombineGlobally(_sample)
    )
    counts = read.counts | "Sum counts" >> beam.CombineGlobally(sum_counts)
    _ = (
        pipeline
        | "Once" >> beam.Create([settings.directory])
        | "Write cells" >> beam.Map(_write, pvalue.AsSingleton(counts), pvalue.AsSingleton(cells))
    )


def _read_piece(piece: Piece, settings: Settings) -> Iterator[Any]:
    failed: Counts = {}
    held: list[pl.DataFrame] = []
    for rows, _ in until_error(PieceReader(piece, settings.options.layout, positions=True), failed):
        held.append(rows.filter(pl.col("position") > 0))
        if sum(map(len, held)) > MAX_ROWS_HELD:
            yield from _summed(pl.concat(held), settings)
            held = []
    if held:
        yield from _summed(pl.concat(held), settings)
    yield TaggedOutput("counts", failed)


def _summed(rows: pl.DataFrame, settings: Settings) -> Iterator[Any]:
    cells = rows.group_by("query", "title", "position").agg(pl.col("impressions", "clicks").sum())
    for side, name in (("query", "q"), ("title", "t")):
        texts = cells.select(pl.col(side).unique())
        forms = normal_forms(texts[side], settings.options.rules)
        texts = texts.with_columns(fingerprints(forms).alias(name))
        cells = cells.join(texts.filter(forms != ""), on=side)
    cells = cells.group_by(_KEYS).agg(pl.col("impressions", "clicks").sum())
    yield from settings.send(_CELLS, cells.select(*_SCHEMA).sort(_KEYS), by="q")


def _sample(blocks: Iterable[bytes]) -> bytes:
    """The cells of some queries, those of the smallest fingerprints: of all, if they are few."""
    cells = fold(parts_of(blocks)[_CELLS], _KEYS, _SCHEMA)
    kept = cells.filter(pl.col("impressions") > 0).head(_MOST_CELLS)
    return pickle.dumps(Part(_CELLS, 0, as_ipc(kept)))


def _write(directory: str, counts: Counts, cells: bytes) -> None:
    with create(FileSystems.join(directory, PARTS, _CELLS)) as file:
        file.write(pickle.dumps((counts, cells)))
