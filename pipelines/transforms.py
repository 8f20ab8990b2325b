"""The steps from pieces of logs and corpora to pairs and texts.

Rows travel in frames, not one by one, and each frame belongs to a *bucket*, a share of the queries
(or titles, words, sessions) by the first bits of their fingerprints. Grouping by bucket costs a few
elements instead of millions, bounds what a worker holds to one bucket, and leaves every decision to
a plain function of all that is known of a query. Texts are numbered without a sort of all: a
number is a text's place in its bucket and the sum of the buckets before. No result depends on
bundles, workers, or the order of rows.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

import apache_beam as beam
import polars as pl
from apache_beam.pvalue import TaggedOutput
from polars import col

from dssm_tf.positions.curve import ExaminationCurve
from dssm_tf.positions.estimation import estimate
from dssm_tf.positions.shown import Shown
from dssm_tf.tables.cells import clean_text
from dssm_tf.tables.click_log import log_blocks
from dssm_tf.tables.layout import Reject
from pipelines.cleaning import SIDES, keyed, sum_rows, weighted
from pipelines.frames import Part, Settings, as_ipc, counted, fold, typed
from pipelines.options import PreprocessOptions
from pipelines.sources import Piece, opened

MAX_ROWS_HELD = 500_000
_MOST_CELLS = 200_000
"""Of a larger log a sample of the queries says how often positions are looked at."""


def read_piece(
    piece: Piece, settings: Settings, curve: ExaminationCurve | None = None
) -> Iterator[Any]:
    """Reads a piece of a log, checks each row and sums the good ones.

    Args:
        piece: of the log.
        settings: what every step is told.
        curve: that clicks are weighted by.

    Yields:
        main     (bucket of queries, pairs or texts), of rows without a session;
        titles   (bucket of titles, texts);
        sessions (bucket of sessions, visits);
        rejects  Written, of the piece;
        counts   dict[str, int].
    """
    options = settings.options
    weights = curve.weights(options.max_position_weight) if curve else ()
    used = col.clicks > 0
    if options.negatives_from != "log":
        used |= col.impressions > 0
    counts: Counter[str] = Counter()
    held: list[pl.DataFrame] = []
    rejects: list[Reject] = []

    def send() -> Iterator[Any]:
        if rejects:
            data = pickle.dumps(rejects)
            written = settings.write("rejects", piece.number, rejects[0].line, data)
            yield TaggedOutput("rejects", written)
        if held:
            yield from sum_rows(pl.concat(held), settings)
        held.clear()
        rejects.clear()

    with opened(piece, options.layout) as table:
        for block, bad in log_blocks(table):
            rows = cast(pl.DataFrame, pl.from_arrow(block))
            good = rows.filter(used)
            counts.update(
                {
                    "rows: read": len(rows),
                    "clicks: read": rows["clicks"].sum(),
                    "clicks: with a position": rows.filter(col.position > 0)["clicks"].sum(),
                    "dropped: no click": len(rows) - len(good),
                }
            )
            held.append(weighted(good, weights))
            rejects += bad
            if sum(map(len, held)) + len(rejects) >= MAX_ROWS_HELD:
                yield from send()
        yield from send()
        counts[f"lines {piece.number}"] = table.lines
        yield counted(counts)


def read_corpus(piece: Piece, settings: Settings) -> Iterator[Any]:
    """Reads the titles that may be ranked, so that those nobody clicked are known, too.

    Yields:
        main   (bucket of titles, corpus);
        counts dict[str, int].
    """
    with opened(piece, settings.options.layout) as table:
        for (titles,), rejects in table.blocks({"title": clean_text}):
            yield counted({"corpus: rows without a title": len(rejects)})
            found = keyed(pl.Series("title", titles.to_pylist(), pl.String), settings.options.rules)
            yield from settings.send("corpus", found.select(fp="t", text="title", clicks=0))


@beam.ptransform_fn
def estimate_curve(pieces: Any, options: PreprocessOptions) -> Any:
    """Estimates how often positions are looked at.

    Input:  PCollection[Piece], of a log.
    Output: PCollection[ExaminationCurve], one.
    """
    return (
        pieces
        | "Count impressions" >> beam.FlatMap(_read_cells, options)
        | "Sample queries" >> beam.CombineGlobally(_sample)
        | "Estimate" >> beam.Map(_estimate, options.seed)
    )


def _read_cells(piece: Piece, options: PreprocessOptions) -> Iterator[Any]:
    with opened(piece, options.layout) as table:
        for block, _ in log_blocks(table):
            cells = cast(pl.DataFrame, pl.from_arrow(block)).filter(col.position > 0)
            for side in SIDES:
                cells = cells.join(keyed(cells[side], options.rules).drop("form"), on=side)
            yield Part("cells", as_ipc(typed("cells", cells)))


def _sample(blocks: Iterable[Part]) -> Part:
    """The cells of some queries, those of the smallest fingerprints: of all, if they are few."""
    return Part("cells", as_ipc(fold(blocks, "cells").head(_MOST_CELLS)))


def _estimate(cells: Any, seed: int) -> ExaminationCurve:
    rows = cells.frame.filter(col.impressions > 0)
    rows = rows.with_columns(col("q", "t").reinterpret(signed=True))
    return estimate(Shown.of(rows.to_numpy()), seed)
