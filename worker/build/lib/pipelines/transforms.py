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
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

import apache_beam as beam
import polars as pl
from apache_beam.pvalue import TaggedOutput

from dssm_tf.common.errors import OptionError, did_you_mean
from dssm_tf.positions.curve import ExaminationCurve, read_curve
from dssm_tf.positions.estimation import HARVESTING, OPTION, estimate
from dssm_tf.positions.shown import Shown
from dssm_tf.tables.cells import clean_text, text
from dssm_tf.tables.click_log import log_blocks, position
from dssm_tf.tables.layout import Reject
from pipelines.cleaning import NO_CLICK, TEXTS, sum_rows, weighted
from pipelines.frames import Part, Settings, as_ipc, counted, fold, parts_of
from pipelines.options import NONE, PreprocessOptions
from pipelines.sources import Piece, opened, rows_of
from pipelines.texts import fingerprints, normal_forms

MAX_ROWS_HELD = 500_000
_MOST_CELLS = 200_000
"""Of a larger log a sample of the queries says how often positions are looked at."""
_KEYS = ("q", "t", "position")
_SCHEMA = {
    "q": pl.UInt64, "t": pl.UInt64, "position": pl.Int64, "impressions": pl.Int64,
    "clicks": pl.Int64,
}  # fmt: skip


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
    used = pl.col("clicks") > 0
    if options.negatives_from != "log":
        used |= pl.col("impressions") > 0
    counts: Counter[str] = Counter()
    held: list[pl.DataFrame] = []
    rejects: list[Reject] = []
    with opened(piece, options.layout) as table:
        for block, bad in log_blocks(table, position if weights else None):
            rows = cast(pl.DataFrame, pl.from_arrow(block))
            settings.tell("rows read", len(rows) + len(bad))
            counts["rows"] += len(rows)
            counts["clicks read"] += int(rows["clicks"].sum())
            counts["clicks placed"] += int(rows.filter(pl.col("position") > 0)["clicks"].sum())
            good = rows.filter(used)
            counts[f"dropped {NO_CLICK}"] += len(rows) - len(good)
            held.append(weighted(good, weights))
            rejects += bad
            if sum(map(len, held)) + len(rejects) >= MAX_ROWS_HELD:
                yield from _summed(held, piece, rejects, settings)
                held, rejects = [], []
        yield from _summed(held, piece, rejects, settings)
        counts[f"lines {piece.number}"] = table.lines
    yield counted(counts)


def _summed(
    held: Sequence[pl.DataFrame], piece: Piece, rejects: Sequence[Reject], settings: Settings
) -> Iterator[Any]:
    if rejects:
        data = pickle.dumps(rejects)
        written = settings.write("rejects", piece.number, rejects[0].line, data)
        yield TaggedOutput("rejects", written)
    if held:
        yield from sum_rows(pl.concat(held), settings)


def read_corpus(piece: Piece, settings: Settings) -> Iterator[Any]:
    """Reads the titles that may be ranked, so that those nobody clicked are known, too.

    Yields:
        main   (bucket of titles, corpus).
    """
    rows = rows_of(piece, settings.options.layout, {"title": _title})
    while texts := [title for (title,) in islice(rows, MAX_ROWS_HELD)]:
        frame = pl.DataFrame({"text": pl.Series(texts).unique()})
        forms = normal_forms(frame["text"], settings.options.rules)
        frame = frame.with_columns(fp=fingerprints(forms), clicks=pl.lit(0, pl.Int64))
        frame = frame.filter(forms != "").select(*TEXTS).sort("fp", "text")
        yield from settings.send("corpus", frame)


def _title(cell: object, name: str) -> str:
    """A title on one line; nothing if there is none."""
    return clean_text(cell, name) if cell is not None and text(cell, name).strip() else ""


def given_curve(options: PreprocessOptions) -> ExaminationCurve | None:
    """The curve of a file; None if there is none, or if the log is asked.

    Raises:
        UserError: the file does not exist or is not a curve.
    """
    asked = options.position_weights
    if asked in (NONE, HARVESTING):
        return None
    if not Path(asked).is_file():
        raise OptionError(
            OPTION,
            f"is {asked!r}, and there is no such file; expected none, harvesting or a "
            f"file with position and propensity.{did_you_mean(asked, (NONE, HARVESTING))}",
        )
    return read_curve(asked)


@beam.ptransform_fn
def estimate_curve(pieces: Any, options: PreprocessOptions) -> Any:
    """Estimates how often positions are looked at.

    Input:  PCollection[Piece], of a log.
    Output: PCollection[ExaminationCurve], one.
    """
    return (
        pieces
        | "Count impressions" >> beam.FlatMap(_read_cells, options).with_output_types(bytes)
        | "Sample queries" >> beam.CombineGlobally(_sample)
        | "Estimate" >> beam.Map(_estimate, options.seed)
    )


def _read_cells(piece: Piece, options: PreprocessOptions) -> Iterator[bytes]:
    with opened(piece, options.layout) as table:
        for block, _ in log_blocks(table, position):
            cells = cast(pl.DataFrame, pl.from_arrow(block)).filter(pl.col("position") > 0)
            for side, name in (("query", "q"), ("title", "t")):
                texts = cells.select(pl.col(side).unique())
                forms = normal_forms(texts[side], options.rules)
                texts = texts.with_columns(fingerprints(forms).alias(name))
                cells = cells.join(texts.filter(forms != ""), on=side)
            yield pickle.dumps(Part("", 0, as_ipc(cells.select(*_SCHEMA))))


def _sample(blocks: Iterable[bytes]) -> bytes:
    """The cells of some queries, those of the smallest fingerprints: of all, if they are few."""
    cells = fold(parts_of(blocks)[""], _KEYS, _SCHEMA).head(_MOST_CELLS)
    return pickle.dumps(Part("", 0, as_ipc(cells)))


def _estimate(cells: bytes, seed: int) -> ExaminationCurve:
    rows = parts_of([cells])[""][0].frame.filter(pl.col("impressions") > 0)
    rows = rows.with_columns(pl.col("q", "t").reinterpret(signed=True))
    return estimate(Shown.of(rows.to_numpy()), seed)
