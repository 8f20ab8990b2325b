"""What is no evidence of relevance and leaves the log: bots, spam, repeats, blocked queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from polars import col

from dssm_tf.positions.curve import UNIT
from dssm_tf.text.rules import Rules
from pipelines.frames import Group, Settings, counted, parts_of
from pipelines.texts import fingerprints, normal_forms

SIDES = {"query": "q", "title": "t"}
"""The columns of texts, and of their fingerprints."""


def weighted(rows: pl.DataFrame, weights: Sequence[int]) -> pl.DataFrame:
    """What sums need of rows, with their weighted clicks in thousandths.

    Args:
        rows: of a log.
        weights: of a click at positions 1, 2, ..., in thousandths; those behind have the last
            one, and a click whose position is unknown, or all if none are given, counts once.
    """
    of = np.array([UNIT, *weights])[np.minimum(rows["position"].to_numpy(), len(weights))]
    return rows.select("query", "title", "session", "clicks", weighted=col.clicks * pl.lit(of))


def sum_rows(rows: pl.DataFrame, settings: Settings) -> Iterator[Any]:
    """Sums rows by what they say, without those that have no words or are blocked.

    Args:
        rows: as `weighted` gives them.
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
