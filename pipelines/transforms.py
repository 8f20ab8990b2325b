"""The steps from pieces of logs and corpora to pairs and texts, without bots, spam and repeats.

Rows travel in frames, not one by one, and each frame belongs to a *bucket*, a share of the queries
(or titles, words, sessions) by the first bits of their fingerprints. Grouping by bucket costs a few
elements instead of millions, bounds what a worker holds to one bucket, and leaves every decision to
a plain function of all that is known of a query. Texts are numbered without a sort of all: a
number is a text's place among the sorted fingerprints of its bucket, behind those of the buckets
before. No result depends on bundles, workers, or the order of rows.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import polars as pl
from apache_beam.pvalue import TaggedOutput
from polars import col

from dssm_tf.positions.curve import CLICK_WEIGHT_SCALE, ExaminationCurve
from dssm_tf.positions.estimation import estimate
from dssm_tf.positions.impressions import ImpressionCounts
from dssm_tf.tables.click_log import click_totals, scan_log
from dssm_tf.tables.columns import clean_text
from dssm_tf.tables.layout import Reject
from dssm_tf.tables.text_columns import fingerprints, normal_forms
from dssm_tf.text.rules import Rules
from pipelines.frames import (
    Group,
    Part,
    Settings,
    as_ipc,
    counted,
    fold,
    parts_of,
    typed,
    write_part,
)
from pipelines.options import PreprocessOptions
from pipelines.sources import Piece, opened

MAX_ROWS_HELD = 500_000
_MOST_CELLS = 200_000
"""Of a larger log a sample of the queries says how often positions are looked at."""
CORPUS_TITLES = (clean_text("title"),)
"""What is read of a corpus."""
SIDES = {"query": "q", "title": "t"}
"""The columns of texts, and of their fingerprints."""


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
    used = col.clicks > 0
    if options.negatives_from != "log":
        used |= col.impressions > 0
    counts: Counter[str] = Counter()
    held: list[pl.DataFrame] = []
    rejects: list[Reject] = []
    most_clicks = 0

    def send() -> Iterator[Any]:
        if rejects:
            data = pickle.dumps(rejects)
            written = write_part(settings.directory, "rejects", piece.number, rejects[0].line, data)
            yield TaggedOutput("rejects", written)
        if held:
            yield from sum_rows(pl.concat(held), settings)
        held.clear()
        rejects.clear()

    with opened(piece, options.layout) as table:
        for rows, bad in scan_log(table):
            good = rows.filter(used)
            most_clicks = max(most_clicks, click_totals(rows)[1])
            counts.update(
                {
                    "rows: read": len(rows),
                    "clicks: read": rows["clicks"].sum(),
                    "clicks: with a position": rows.filter(col.position > 0)["clicks"].sum(),
                    "dropped: no click": len(rows) - len(good),
                }
            )
            most = options.max_position_weight
            of = (
                pl.lit(curve.weight(good["position"].to_numpy(), most))
                if curve
                else CLICK_WEIGHT_SCALE
            )
            held.append(
                good.select("query", "title", "session", "clicks", weighted=col.clicks * of)
            )
            rejects += bad
            if sum(map(len, held)) + len(rejects) >= MAX_ROWS_HELD:
                yield from send()
        yield from send()
        counts[f"lines {piece.number}"] = table.lines
        counts[f"most clicks {piece.number}"] = most_clicks
        if settings.store:  # a sign for the launcher, which is on this machine
            for number in range(piece.number, piece.number + piece.pieces):
                Path(settings.store, f"read-{number}").touch()
        yield counted(counts)


def sum_rows(rows: pl.DataFrame, settings: Settings) -> Iterator[Any]:
    """Sums rows by what they say, without those that have no words or are blocked.

    Args:
        rows: of a log: their texts, session, clicks, and weighted clicks in thousandths.
        settings: what every step is told.

    Yields:
        main     (bucket of queries, pairs or texts), of rows without a session;
        titles   (bucket of titles, texts);
        sessions (bucket of sessions, visits), see `clean_sessions`;
        counts   dict[str, int].
    """
    queries, titles = (keyed(rows[side], settings.options.rules) for side in SIDES)
    queries = queries.with_columns(blocked=settings.block_list.blocks(queries["form"]))
    read = rows.join(queries.drop("form"), on="query").join(titles.drop("form"), on="title")
    kept = read.filter(~col.blocked)
    yield counted(
        {
            "dropped: no words": len(rows) - len(read),
            "dropped: blocked": len(read) - len(kept),
        }
    )
    visits = kept.filter(col.session != "")
    visits = visits.with_columns(s=fingerprints(visits["session"])).drop("session", "blocked")
    yield from settings.send("visits", visits.sort("s"), "sessions", by="s")
    yield from _summed(kept.filter(session="").with_columns(rows=1, robots=0), settings)


def keyed(texts: pl.Series, rules: Rules) -> pl.DataFrame:
    """Distinct texts of a side with a word, their normal forms and fingerprints."""
    texts = texts.unique()
    forms = normal_forms(texts, rules)
    distinct = forms.unique()
    keys = pl.DataFrame({"form": distinct, SIDES[texts.name]: fingerprints(distinct)})
    return pl.DataFrame([texts, forms.alias("form")]).filter(col.form != "").join(keys, on="form")


def _summed(rows: pl.DataFrame, settings: Settings) -> Iterator[Any]:
    """Rows by texts as pairs and texts."""
    pairs = rows.group_by("q", "t").agg(col("clicks", "rows", "weighted", "robots").sum())
    yield from settings.send("pairs", pairs, by="q")
    for side, name in SIDES.items():
        texts = rows.filter(col.rows > 0).group_by(fp=name, text=side).agg(col.clicks.sum())
        tag = "titles" if side == "title" else ""
        yield from settings.send("texts", texts, tag)


def clean_sessions(group: Group, settings: Settings) -> Iterator[Any]:
    """Counts each pair of a session once; of a session like a machine's no more than clicks.

    A bot has more distinct queries than a person types, spam more clicks, repeats included.

    Yields:
        Main, titles and counts, as `sum_rows` does.
    """
    options, visits = settings.options, parts_of(group[1])["visits"]
    best = col.clicks == col.clicks.max()
    # Of texts that are one the clicks of the row with most count; the smallest text of equals.
    pairs = (
        pl.concat(part.frame for part in visits)
        .sort("query", "title")
        .group_by("s", "q", "t")
        .agg(
            col("query", "title").filter(best).first(),
            col.weighted.filter(best).max(),
            col.clicks.sum(),
            most=col.clicks.max(),
            rows=pl.len(),
            clicked=(col.clicks > 0).sum().cast(pl.Int64),
        )
    )
    many = col.q.n_unique() > (options.max_queries_per_session or np.inf)
    spam = col.clicks.sum() > (options.max_clicks_per_session or np.inf)
    pairs = pairs.with_columns(why=pl.when(many).then(1).when(spam).then(2).otherwise(0).over("s"))
    human, repeats = col.why == 0, (col.clicked - 1).clip(0)
    yield counted(
        {
            "dropped: session with many queries": pairs.filter(why=1)["rows"].sum(),
            "dropped: session with many clicks": pairs.filter(why=2)["rows"].sum(),
            "dropped: repeated in session": pairs.filter(human).select(repeats.sum()).item(),
            "clicks of robots": pairs.filter(~human)["clicks"].sum(),
            "sessions: in all": pairs["s"].n_unique(),
        }
    )
    pairs = pairs.with_columns(
        rows=human * (col.rows - repeats),
        clicks=human * col.most,
        weighted=human * col.weighted,
        robots=~human * col.most,
    )
    yield from _summed(pairs.filter(human | (col.robots > 0)), settings)


def read_corpus(piece: Piece, settings: Settings) -> Iterator[Any]:
    """Reads the titles that may be ranked, so that those nobody clicked are known, too.

    Yields:
        main   (bucket of titles, corpus);
        counts dict[str, int].
    """
    with opened(piece, settings.options.layout.corpus) as table:
        for titles, rejects in table.scan(CORPUS_TITLES, strict=False):
            yield counted({"corpus: rows without a title": len(rejects)})
            found = keyed(titles["title"], settings.options.rules)
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
        for rows, _ in scan_log(table):
            cells = rows.filter(col.position > 0)
            for side in SIDES:
                cells = cells.join(keyed(cells[side], options.rules).drop("form"), on=side)
            yield Part("cells", as_ipc(typed("cells", cells)))


def _sample(blocks: Iterable[Part]) -> Part:
    """The cells of some queries, those of the smallest fingerprints: of all, if they are few."""
    return Part("cells", as_ipc(fold(blocks, "cells").head(_MOST_CELLS)))


def _estimate(cells: Any, seed: int) -> ExaminationCurve:
    rows = cells.frame.with_columns(col("q", "t").reinterpret(signed=True))
    return estimate(ImpressionCounts.from_cells(rows.to_numpy()), seed)
