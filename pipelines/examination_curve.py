"""Estimates from a log how often users look at each position of a result list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from polars import col

from dssm_tf.positions.curve import ExaminationCurve
from dssm_tf.positions.estimation import estimate
from dssm_tf.positions.impressions import ImpressionCounts
from dssm_tf.tables.click_log import scan_log
from pipelines.options import PreprocessOptions
from pipelines.parse_log import SIDES, fingerprinted
from pipelines.shards import Shard, as_ipc, cast_to_schema, sum_shards
from pipelines.sources import Piece, open_piece

_MAX_CELLS = 200_000
"""If a log has more `cells` than this, the curve is estimated from some of its queries."""


@beam.ptransform_fn
def estimate_curve(pieces: Any, options: PreprocessOptions) -> Any:
    """Estimates the examination probability of each position.

    Input:  PCollection[Piece], of a log.
    Output: PCollection[ExaminationCurve], with one element.
    """
    return (
        pieces
        | "Count impressions" >> beam.FlatMap(_read_cells, options)
        | "Sample queries" >> beam.CombineGlobally(_sample)
        | "Estimate" >> beam.Map(_estimate, options.seed)
    )


def _read_cells(piece: Piece, options: PreprocessOptions) -> Iterator[Any]:
    with open_piece(piece, options.layout) as table:
        for rows, _ in scan_log(table):
            cells = rows.filter(col.position > 0)
            for side in SIDES:
                cells = cells.join(fingerprinted(cells[side], options.rules).drop("form"), on=side)
            yield Shard("cells", as_ipc(cast_to_schema("cells", cells)))


def _sample(shards: Iterable[Shard]) -> Shard:
    """The first cells by query fingerprint, which is a hash: a random sample of queries."""
    return Shard("cells", as_ipc(sum_shards(shards, "cells").head(_MAX_CELLS)))


def _estimate(cells: Shard, seed: int) -> ExaminationCurve:
    rows = cells.frame.with_columns(
        col("query_fingerprint", "title_fingerprint").reinterpret(signed=True)
    )
    return estimate(ImpressionCounts.from_cells(rows.to_numpy()), seed)
