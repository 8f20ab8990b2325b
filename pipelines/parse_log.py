"""Steps that parse logs and corpora into pairs and texts, and drop bots, spam and repeats.

Elements are frames, not rows. Each frame belongs to a *bucket*: a fraction of the queries (or
titles, words, sessions) by the first bits of their fingerprints. Grouping by bucket groups a few
elements instead of millions, and a worker has only one bucket in memory. Each decision is a plain
function of all rows of a query. Texts are numbered without a global sort: the number of a text is
its index among the sorted fingerprints of its bucket, plus the sizes of the buckets before. No
result depends on bundles, workers, or the order of rows.
"""

from __future__ import annotations

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
from pipelines.manifest import rejects_as_json
from pipelines.options import PreprocessOptions
from pipelines.shards import (
    Group,
    PipelineContext,
    Shard,
    as_ipc,
    cast_to_schema,
    count_output,
    shards_by_kind,
    sum_shards,
    write_output_file,
)
from pipelines.sources import Piece, open_piece

MAX_PENDING_ROWS = 500_000
"""Rows of a piece that are collected before they are summed."""
_MAX_CELLS = 200_000
"""If a log has more cells, the examination curve is estimated from a sample of the queries."""
CORPUS_TITLES = (clean_text("title"),)
"""The columns of a corpus."""
SIDES = {"query": "q", "title": "t"}
"""The columns of texts, and the column with the fingerprints of each."""


def read_piece(
    piece: Piece, context: PipelineContext, curve: ExaminationCurve | None = None
) -> Iterator[Any]:
    """Reads a piece of a log, checks each row and sums the good ones.

    Args:
        piece: of the log.
        context: settings of the pipeline.
        curve: examination probabilities by which clicks are weighted.

    Yields:
        main     (bucket of queries, pairs or texts), of rows without a session;
        titles   (bucket of titles, texts);
        sessions (bucket of sessions, visits);
        rejects  OutputFile, malformed rows of the piece;
        counts   dict[str, int].
    """
    options = context.options
    is_used = col.clicks > 0
    if options.negatives_from != "log":
        is_used |= col.impressions > 0
    counts: Counter[str] = Counter()
    pending: list[pl.DataFrame] = []
    rejects: list[Reject] = []
    most_clicks = 0

    def emit_pending() -> Iterator[Any]:
        if rejects:
            data = rejects_as_json(rejects)
            first_line = rejects[0].line
            file = write_output_file(context.directory, "rejects", piece.number, first_line, data)
            yield TaggedOutput("rejects", file)
        if pending:
            yield from sum_rows(pl.concat(pending), context)
        pending.clear()
        rejects.clear()

    with open_piece(piece, options.layout) as table:
        for rows, bad in scan_log(table):
            good = rows.filter(is_used)
            most_clicks = max(most_clicks, click_totals(rows)[1])
            counts.update(
                {
                    "rows: read": len(rows),
                    "clicks: read": rows["clicks"].sum(),
                    "clicks: with a position": rows.filter(col.position > 0)["clicks"].sum(),
                    "dropped: no click": len(rows) - len(good),
                }
            )
            max_weight = options.max_position_weight
            weight = (
                pl.lit(curve.weight(good["position"].to_numpy(), max_weight))
                if curve
                else CLICK_WEIGHT_SCALE
            )
            pending.append(
                good.select("query", "title", "session", "clicks", weighted=col.clicks * weight)
            )
            rejects += bad
            if sum(map(len, pending)) + len(rejects) >= MAX_PENDING_ROWS:
                yield from emit_pending()
        yield from emit_pending()
        counts[f"lines {piece.number}"] = table.lines
        counts[f"most clicks {piece.number}"] = most_clicks
        if context.shard_directory:  # the launcher, on this machine, counts these files
            for number in range(piece.number, piece.number + piece.pieces):
                Path(context.shard_directory, f"read-{number}").touch()
        yield count_output(counts)


def sum_rows(rows: pl.DataFrame, context: PipelineContext) -> Iterator[Any]:
    """Sums rows by query and title; drops rows whose texts have no words or are blocked.

    Args:
        rows: columns `query`, `title`, `session`, `clicks`, and `weighted`, the weighted clicks in
            thousandths.
        context: settings of the pipeline.

    Yields:
        main     (bucket of queries, pairs or texts), of rows without a session;
        titles   (bucket of titles, texts);
        sessions (bucket of sessions, visits), see `clean_sessions`;
        counts   dict[str, int].
    """
    queries, titles = (keyed(rows[side], context.options.rules) for side in SIDES)
    queries = queries.with_columns(blocked=context.block_list.blocks(queries["form"]))
    with_words = rows.join(queries.drop("form"), on="query").join(titles.drop("form"), on="title")
    allowed = with_words.filter(~col.blocked)
    yield count_output(
        {
            "dropped: no words": len(rows) - len(with_words),
            "dropped: blocked": len(with_words) - len(allowed),
        }
    )
    visits = allowed.filter(col.session != "")
    visits = visits.with_columns(s=fingerprints(visits["session"])).drop("session", "blocked")
    yield from context.emit("visits", visits.sort("s"), "sessions", by="s")
    yield from _emit_sums(allowed.filter(session="").with_columns(rows=1, robots=0), context)


def keyed(texts: pl.Series, rules: Rules) -> pl.DataFrame:
    """The distinct texts that have a word, with their normal form and its fingerprint.

    Args:
        texts: a series named `query` or `title`.
        rules: of the normal forms.
    """
    texts = texts.unique()
    forms = normal_forms(texts, rules)
    distinct = forms.unique()
    keys = pl.DataFrame({"form": distinct, SIDES[texts.name]: fingerprints(distinct)})
    return pl.DataFrame([texts, forms.alias("form")]).filter(col.form != "").join(keys, on="form")


def _emit_sums(rows: pl.DataFrame, context: PipelineContext) -> Iterator[Any]:
    """Sums rows to pairs and to texts, and yields both as shards."""
    pairs = rows.group_by("q", "t").agg(col("clicks", "rows", "weighted", "robots").sum())
    yield from context.emit("pairs", pairs, by="q")
    for side, name in SIDES.items():
        texts = rows.filter(col.rows > 0).group_by(fp=name, text=side).agg(col.clicks.sum())
        tag = "titles" if side == "title" else ""
        yield from context.emit("texts", texts, tag)


def clean_sessions(group: Group, context: PipelineContext) -> Iterator[Any]:
    """Counts each pair of a session once, and drops sessions of robots.

    A session with too many distinct queries is a bot; one with too many clicks, including repeats,
    is spam. Of such sessions only the clicks per pair stay, as `robots`, see `SUMMED`.

    Yields:
        Main, titles and counts, as `sum_rows` does.
    """
    options, visits = context.options, shards_by_kind(group[1])["visits"]
    is_best = col.clicks == col.clicks.max()
    # Rows of one pair may differ in spelling. The row with most clicks counts; on ties, the
    # smallest text.
    pairs = (
        pl.concat(shard.frame for shard in visits)
        .sort("query", "title")
        .group_by("s", "q", "t")
        .agg(
            col("query", "title").filter(is_best).first(),
            col.weighted.filter(is_best).max(),
            col.clicks.sum(),
            max_clicks=col.clicks.max(),
            rows=pl.len(),
            clicked_rows=(col.clicks > 0).sum().cast(pl.Int64),
        )
    )
    is_bot = col.q.n_unique() > (options.max_queries_per_session or np.inf)
    is_spam = col.clicks.sum() > (options.max_clicks_per_session or np.inf)
    robot = pl.when(is_bot).then(1).when(is_spam).then(2).otherwise(0)
    pairs = pairs.with_columns(robot=robot.over("s"))
    human, repeats = col.robot == 0, (col.clicked_rows - 1).clip(0)
    yield count_output(
        {
            "dropped: session with many queries": pairs.filter(robot=1)["rows"].sum(),
            "dropped: session with many clicks": pairs.filter(robot=2)["rows"].sum(),
            "dropped: repeated in session": pairs.filter(human).select(repeats.sum()).item(),
            "clicks of robots": pairs.filter(~human)["clicks"].sum(),
            "sessions: in all": pairs["s"].n_unique(),
        }
    )
    pairs = pairs.with_columns(
        rows=human * (col.rows - repeats),
        clicks=human * col.max_clicks,
        weighted=human * col.weighted,
        robots=~human * col.max_clicks,
    )
    yield from _emit_sums(pairs.filter(human | (col.robots > 0)), context)


def read_corpus(piece: Piece, context: PipelineContext) -> Iterator[Any]:
    """Reads the titles to rank, including those without clicks.

    Yields:
        main   (bucket of titles, corpus);
        counts dict[str, int].
    """
    with open_piece(piece, context.options.layout.corpus) as table:
        for titles, rejects in table.scan(CORPUS_TITLES, strict=False):
            yield count_output({"corpus: rows without a title": len(rejects)})
            texts = keyed(titles["title"], context.options.rules)
            yield from context.emit("corpus", texts.select(fp="t", text="title", clicks=0))


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
                cells = cells.join(keyed(cells[side], options.rules).drop("form"), on=side)
            yield Shard("cells", as_ipc(cast_to_schema("cells", cells)))


def _sample(shards: Iterable[Shard]) -> Shard:
    """The first cells by fingerprint of the query, a random sample of the queries."""
    return Shard("cells", as_ipc(sum_shards(shards, "cells").head(_MAX_CELLS)))


def _estimate(cells: Shard, seed: int) -> ExaminationCurve:
    rows = cells.frame.with_columns(col("q", "t").reinterpret(signed=True))
    return estimate(ImpressionCounts.from_cells(rows.to_numpy()), seed)
