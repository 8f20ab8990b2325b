"""Steps that parse logs and corpora into pairs and texts, and drop robots and repeats.

Elements are frames, not rows. Each frame belongs to a *bucket*: the queries (or titles, words,
sessions) whose fingerprints have the same first bits. Grouping by bucket groups a few elements
instead of millions, and a worker has only one bucket in memory. Each decision is a plain function
of all rows of a query or of a session. Texts are numbered without a global sort: the number of a
text is its index among the sorted fingerprints of its bucket, plus the sizes of all earlier
buckets. No result depends on bundles, workers, or the order of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from apache_beam.pvalue import TaggedOutput
from polars import col

from dssm_tf.positions.curve import CLICK_WEIGHT_SCALE, ExaminationCurve
from dssm_tf.tables.click_log import click_counts, scan_log
from dssm_tf.tables.columns import clean_text
from dssm_tf.tables.layout import Reject
from dssm_tf.tables.text_columns import fingerprints, normal_forms
from dssm_tf.tables.times import to_days
from dssm_tf.text.rules import TextRules
from pipelines.log_statistics import LogStatistics, statistics_output
from pipelines.manifest import rejects_as_json
from pipelines.shards import (
    Group,
    PipelineContext,
    count_output,
    shards_by_kind,
    sum_shards,
    write_output_file,
)
from pipelines.sources import Piece, open_piece

MAX_PENDING_ROWS = 500_000
MAX_PENDING_BYTES = 1 << 26
"""The rows of a piece are summed each time that so many rows, or bytes of texts, are collected."""
CORPUS_TITLES = (clean_text("title"),)
"""The columns that are read from a corpus."""
SIDES = {"query": "query_fingerprint", "title": "title_fingerprint"}
"""The columns of texts, each with the name of the column of its fingerprints."""


def read_piece(
    piece: Piece, context: PipelineContext, curve: ExaminationCurve | None = None
) -> Iterator[Any]:
    """Parses a piece as `parse_piece` does, with the same arguments; writes the malformed rows.

    Yields:
        rejects  OutputFile, malformed rows of the piece;
        the other outputs of `parse_piece`.
    """
    for output in parse_piece(piece, context, curve):
        if isinstance(output, TaggedOutput) and output.tag == "rejects":
            rejects, first_line = rejects_as_json(output.value), output.value[0].line
            file = write_output_file(
                context.directory, "rejects", piece.number, first_line, rejects
            )
            yield TaggedOutput("rejects", file)
        else:
            yield output
    if context.shard_directory:  # the launcher counts these files to show progress
        for number in range(piece.number, piece.number + piece.pieces):
            Path(context.shard_directory, f"read-{number}").touch()


def parse_piece(
    piece: Piece, context: PipelineContext, curve: ExaminationCurve | None = None
) -> Iterator[Any]:
    """Reads a piece of a log, checks each row and sums the good ones; writes nothing.

    Args:
        piece: a piece of the log.
        context: settings of the pipeline.
        curve: examination probabilities by which clicks are weighted; None for no weights.

    Yields:
        main       (bucket of queries, shard of kind pairs, texts or unclicked), without sessions;
        titles     (bucket of titles, texts);
        sessions   (bucket of sessions, session_rows or session_unclicked);
        rejects    list[Reject], malformed rows, at least one;
        counts     dict[str, int];
        statistics LogStatistics.
    """
    options = context.options
    is_used = col.clicks > 0
    if options.draws_from_impressions:
        is_used |= col.impressions > 0
    counts: Counter[str] = Counter()
    statistics = LogStatistics()
    pending: list[pl.DataFrame] = []
    unclicked: list[pl.DataFrame] = []
    rejects: list[Reject] = []
    most_clicks = pending_bytes = 0

    def emit_pending() -> Iterator[Any]:
        if rejects:
            yield TaggedOutput("rejects", [*rejects])
        if pending:
            yield from sum_rows(pl.concat(pending), context)
        if unclicked:
            yield from sum_unclicked(pl.concat(unclicked), context)
        pending.clear()
        unclicked.clear()
        rejects.clear()

    with open_piece(piece, options.layout) as table:
        for rows, bad in scan_log(table):
            good = rows.filter(is_used)
            most_clicks = max(most_clicks, click_counts(rows).maximum)
            _count_days(rows, statistics)
            without_click = rows.filter(clicks=0).group_by("query", "session")
            unclicked.append(without_click.agg(impressions=col.impressions.clip(1).sum()))
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
                pl.lit(curve.click_weights(good["position"].to_numpy(), max_weight))
                if curve
                else CLICK_WEIGHT_SCALE
            )
            pending.append(
                good.select("query", "title", "session", "clicks", weighted=col.clicks * weight)
            )
            rejects += bad
            pending_rows = sum(map(len, [*pending, *unclicked])) + len(rejects)
            pending_bytes += sum(int(rows[side].str.len_bytes().sum()) for side in SIDES)
            if pending_rows >= MAX_PENDING_ROWS or pending_bytes >= MAX_PENDING_BYTES:
                yield from emit_pending()
                pending_bytes = 0
        yield from emit_pending()
        counts[f"lines {piece.number}"] = table.lines
        counts[f"most clicks {piece.number}"] = most_clicks
        yield count_output(counts)
        yield statistics_output(statistics)


def _count_days(rows: pl.DataFrame, statistics: LogStatistics) -> None:
    """Counts clicks per day, rows without a readable time, and clicks without a session."""
    timed = rows.filter(col.timestamp != "")
    timed = timed.with_columns(day=to_days(timed["timestamp"]))
    days = timed.filter(col.day.is_not_null()).group_by("day").agg(col.clicks.sum())
    statistics.days.update(dict(days.select(col.day.cast(pl.String), "clicks").iter_rows()))
    statistics.count(
        {
            "rows without a time": len(rows) - len(timed),
            "rows with an unreadable time": timed["day"].null_count(),
            "clicks without a session": rows.filter(session="")["clicks"].sum(),
        }
    )


def sum_unclicked(rows: pl.DataFrame, context: PipelineContext) -> Iterator[Any]:
    """Sums impressions without a click by query and session.

    Args:
        rows: columns `query`, `session` and `impressions`.
        context: settings of the pipeline.

    Yields:
        main     (bucket of queries, unclicked), of rows without a session;
        sessions (bucket of sessions, session_unclicked).
    """
    queries = fingerprinted(rows["query"], context.options.rules)
    queries = queries.filter(~context.block_list.blocks(queries["form"]))
    rows = rows.join(queries.select("query", "query_fingerprint"), on="query").rename(
        {"query": "text", "query_fingerprint": "fingerprint"}
    )
    in_sessions = rows.filter(col.session != "")
    in_sessions = in_sessions.with_columns(session_fingerprint=fingerprints(in_sessions["session"]))
    in_sessions = in_sessions.group_by("session_fingerprint", "fingerprint", "text").agg(
        col.impressions.sum()
    )
    yield from context.emit(
        "session_unclicked", in_sessions, "sessions", bucket_column="session_fingerprint"
    )
    without_session = (
        rows.filter(session="").group_by("fingerprint", "text").agg(col.impressions.sum())
    )
    yield from context.emit("unclicked", without_session.with_columns(sessions=0))


def sum_rows(rows: pl.DataFrame, context: PipelineContext) -> Iterator[Any]:
    """Sums rows by query and title.

    Rows are dropped whose query or title has no word, or whose query is blocked.

    Args:
        rows: columns `query`, `title`, `session`, `clicks`, and `weighted`, the weighted clicks in
            thousandths.
        context: settings of the pipeline.

    Yields:
        main     (bucket of queries, pairs or texts), of rows without a session;
        titles   (bucket of titles, texts);
        sessions (bucket of sessions, session_rows), see `clean_sessions`;
        counts   dict[str, int];
        statistics LogStatistics.
    """
    queries, titles = (fingerprinted(rows[side], context.options.rules) for side in SIDES)
    queries = queries.with_columns(blocked=context.block_list.blocks(queries["form"]))
    with_words = rows.join(queries.drop("form"), on="query").join(titles.drop("form"), on="title")
    allowed = with_words.filter(~col.blocked)
    yield count_output(
        {
            "dropped: no words": len(rows) - len(with_words),
            "dropped: blocked": len(with_words) - len(allowed),
        }
    )
    if len(with_words) < len(rows):
        statistics = LogStatistics()
        for side, texts in (("query", queries), ("title", titles)):
            wordless = (
                rows.join(texts, on=side, how="anti").group_by(text=side).agg(number=pl.len())
            )
            statistics.add_example_rows(f"{side} without words", wordless)
        yield statistics_output(statistics)
    in_sessions = allowed.filter(col.session != "")
    in_sessions = in_sessions.with_columns(
        session_fingerprint=fingerprints(in_sessions["session"])
    ).drop("session", "blocked")
    yield from context.emit(
        "session_rows",
        in_sessions.sort("session_fingerprint"),
        "sessions",
        bucket_column="session_fingerprint",
    )
    without_session = allowed.filter(session="")
    without_session = without_session.with_columns(rows=1, robot_clicks=0, sessions=col.clicks)
    yield from _emit_sums(without_session, context)


def fingerprinted(texts: pl.Series, text_rules: TextRules) -> pl.DataFrame:
    """The distinct texts that have a word, with their normal form and its fingerprint.

    Args:
        texts: a series named `query` or `title`.
        text_rules: the rules by which texts are normalized.
    """
    texts = texts.unique()
    forms = normal_forms(texts, text_rules)
    distinct = forms.unique()
    keys = pl.DataFrame({"form": distinct, SIDES[texts.name]: fingerprints(distinct)})
    return pl.DataFrame([texts, forms.alias("form")]).filter(col.form != "").join(keys, on="form")


def _emit_sums(rows: pl.DataFrame, context: PipelineContext) -> Iterator[Any]:
    """Sums rows to pairs and to texts, and yields both as shards."""
    pairs = rows.group_by("query_fingerprint", "title_fingerprint").agg(
        col("clicks", "rows", "weighted", "robot_clicks").sum()
    )
    yield from context.emit("pairs", pairs, bucket_column="query_fingerprint")
    for side, name in SIDES.items():
        sums = col("clicks", "sessions").sum()
        texts = rows.filter(col.rows > 0).group_by(fingerprint=name, text=side).agg(sums)
        tag = "titles" if side == "title" else ""
        yield from context.emit("texts", texts, tag)


def clean_sessions(group: Group, context: PipelineContext) -> Iterator[Any]:
    """Keeps the row with the most clicks of each pair of a session; drops sessions of robots.

    A session is that of a robot if it has too many distinct queries, or too many clicks, including
    repeats. Of such a session, only the clicks of each pair are kept, in the column `robot_clicks`;
    see `pipelines.shards.SUMMED`.

    Yields:
        The outputs main, titles, counts and statistics of `sum_rows`; main also has the kind
        `unclicked`.
    """
    options, shards = context.options, shards_by_kind(group[1])
    unclicked = sum_shards(shards["session_unclicked"], "session_unclicked")
    if not (session_rows := shards["session_rows"]):
        yield from _emit_unclicked(unclicked, context)
        return
    is_best = col.clicks == col.clicks.max()
    # Rows of one pair may differ in spelling. The texts of the row with the most clicks are kept;
    # on ties, those that sort first.
    pairs = (
        pl.concat(shard.frame for shard in session_rows)
        .sort("query", "title")
        .group_by("session_fingerprint", "query_fingerprint", "title_fingerprint")
        .agg(
            col("query", "title").filter(is_best).first(),
            col.weighted.filter(is_best).max(),
            col.clicks.sum(),
            max_clicks=col.clicks.max(),
            rows=pl.len(),
            clicked_rows=(col.clicks > 0).sum().cast(pl.Int64),
        )
    )
    many_queries = col.query_fingerprint.n_unique() > (options.max_queries_per_session or np.inf)
    many_clicks = col.clicks.sum() > (options.max_clicks_per_session or np.inf)
    # The limit that the session exceeds, so that it is a robot's; null if there is none.
    exceeded = (
        pl.when(many_queries).then(pl.lit("queries")).when(many_clicks).then(pl.lit("clicks"))
    )
    pairs = pairs.with_columns(exceeded=exceeded.over("session_fingerprint"))
    yield statistics_output(_describe_sessions(pairs))
    robot_sessions = pairs.filter(col.exceeded.is_not_null()).select("session_fingerprint").unique()
    yield from _emit_unclicked(
        unclicked.join(robot_sessions, on="session_fingerprint", how="anti"), context
    )
    human, repeats = col.exceeded.is_null(), (col.clicked_rows - 1).clip(0)
    yield count_output(
        {
            "dropped: session with many queries": pairs.filter(exceeded="queries")["rows"].sum(),
            "dropped: session with many clicks": pairs.filter(exceeded="clicks")["rows"].sum(),
            "dropped: repeated in session": pairs.filter(human).select(repeats.sum()).item(),
            "clicks of robots": pairs.filter(~human)["clicks"].sum(),
            "sessions: in all": pairs["session_fingerprint"].n_unique(),
        }
    )
    pairs = pairs.with_columns(
        rows=human * (col.rows - repeats),
        clicks=human * col.max_clicks,
        weighted=human * col.weighted,
        robot_clicks=~human * col.max_clicks,
        # True for one pair per session and query, so that a session counts once per query.
        sessions=human
        & (col.max_clicks > 0)
        & (col.max_clicks > 0).cum_sum().over("session_fingerprint", "query_fingerprint").eq(1),
    )
    yield from _emit_sums(pairs.filter(human | (col.robot_clicks > 0)), context)


def _describe_sessions(pairs: pl.DataFrame) -> LogStatistics:
    """Counts sessions, and those of robots by reason."""
    sessions = pairs.group_by("session_fingerprint", "exceeded").agg(
        col("clicks", "rows").sum().cast(pl.Int64), queries=col.query_fingerprint.n_unique()
    )
    statistics = LogStatistics()
    for limit in ("queries", "clicks"):
        dropped, reason = sessions.filter(exceeded=limit), f"session with many {limit}"
        if len(dropped):
            largest = dropped[limit].max()
            statistics.maxima[reason] = int(largest) if isinstance(largest, int) else 0
            statistics.count(
                {
                    f"sessions: {reason}": len(dropped),
                    f"rows: {reason}": dropped["rows"].sum(),
                    f"clicks: {reason}": dropped["clicks"].sum(),
                }
            )
    return statistics


def _emit_unclicked(unclicked: pl.DataFrame, context: PipelineContext) -> Iterator[Any]:
    """Sums impressions without a click by query, and counts the sessions of each query."""
    unclicked = unclicked.with_columns(
        sessions=pl.struct("session_fingerprint", "fingerprint").is_first_distinct()
    )
    sums = unclicked.group_by("fingerprint", "text").agg(col("impressions", "sessions").sum())
    yield from context.emit("unclicked", sums)


def read_corpus(piece: Piece, context: PipelineContext) -> Iterator[Any]:
    """Reads the titles to rank, including those without clicks.

    Yields:
        main       (bucket of titles, corpus);
        counts     dict[str, int];
        statistics LogStatistics.
    """
    with open_piece(piece, context.options.layout.corpus) as table:
        for titles, rejects in table.scan(CORPUS_TITLES, strict=False):
            yield count_output({"corpus: rows without a title": len(rejects)})
            statistics = LogStatistics()
            statistics.count({"catalog rows": len(titles)})
            yield statistics_output(statistics)
            texts = fingerprinted(titles["title"], context.options.rules)
            yield from context.emit(
                "corpus", texts.select(fingerprint="title_fingerprint", text="title", clicks=0)
            )
