"""What is no evidence of relevance and leaves the log: bots, spam, repeats, blocked queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from dssm_tf.positions.curve import UNIT
from dssm_tf.text.rules import Rules
from pipelines.frames import Group, Settings, counted, parts_of
from pipelines.texts import fingerprints, normal_forms

NO_WORDS = "no words"
BLOCKED = "blocked"
NO_CLICK = "no click"
MANY_QUERIES = "session with many queries"
MANY_CLICKS = "session with many clicks"
REPEATED = "repeated in session"
FEW_CLICKS = "few clicks"
SIDES = {"query": "q", "title": "t"}
"""The columns of texts, and of their fingerprints."""
PAIRS = {
    "q": pl.UInt64, "t": pl.UInt64, "clicks": pl.Int64, "rows": pl.Int64, "weighted": pl.Int64,
    "robots": pl.Int64,
}  # fmt: skip
"""Pairs: fingerprints of query and title, clicks, rows, weighted clicks in thousandths, and clicks
of dropped sessions, which are no evidence but keep the title from becoming a negative."""
TEXTS = {"fp": pl.UInt64, "text": pl.String, "clicks": pl.Int64}
"""Texts as logged by fingerprint, and the clicks of each."""


def weighted(rows: pl.DataFrame, weights: Sequence[int]) -> pl.DataFrame:
    """What sums need of rows, with their weighted clicks in thousandths.

    Args:
        rows: of a log.
        weights: of a click at positions 1, 2, ..., in thousandths; those behind have the last
            one, and a click whose position is unknown, or all if none are given, counts once.
    """
    of = np.array([UNIT, *weights])[np.minimum(rows["position"].to_numpy(), len(weights))]
    clicks = pl.Series(rows["clicks"].to_numpy() * of)
    return rows.select("query", "title", "session", "clicks", weighted=clicks)


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
    queries, titles = (_keyed(rows[at], to, settings.options.rules) for at, to in SIDES.items())
    blocked = settings.block_list.blocks(queries["form"])
    queries = queries.with_columns(blocked=blocked).drop("form")
    read = rows.join(queries, on="query").join(titles.drop("form"), on="title")
    kept = read.filter(~pl.col("blocked"))
    dropped = {NO_WORDS: len(rows) - len(read), BLOCKED: len(read) - len(kept)}
    alone = (
        kept.filter(session="")
        .group_by("query", "title")
        .agg(
            pl.col("q", "t").first(),
            pl.col("clicks", "weighted").sum(),
            rows=pl.len(),
            robots=0,
        )
    )
    visits = kept.filter(pl.col("session") != "")
    visits = visits.with_columns(s=fingerprints(visits["session"])).drop("session", "blocked")
    yield from settings.send("visits", visits.sort("s"), "sessions", by="s")
    yield from _summed(alone, settings)
    yield counted({f"dropped {reason}": number for reason, number in dropped.items()})


def _keyed(texts: pl.Series, name: str, rules: Rules) -> pl.DataFrame:
    """Distinct texts with a word, their normal forms and fingerprints."""
    texts = texts.unique()
    forms = normal_forms(texts, rules)
    distinct = forms.unique()
    keys = pl.DataFrame({"form": distinct, name: fingerprints(distinct)})
    found = pl.DataFrame({texts.name: texts, "form": forms})
    return found.filter(pl.col("form") != "").join(keys, on="form")


def _summed(rows: pl.DataFrame, settings: Settings) -> Iterator[Any]:
    """Rows by texts as pairs and texts."""
    pairs = rows.group_by("q", "t").agg(pl.col("clicks", "rows", "weighted", "robots").sum())
    pairs = pairs.select(pl.col(name).cast(kind) for name, kind in PAIRS.items()).sort("q", "t")
    yield from settings.send("pairs", pairs, by="q")
    for side, name in SIDES.items():
        texts = rows.filter(pl.col("rows") > 0).group_by(fp=name, text=side)
        sums = texts.agg(pl.col("clicks").sum()).sort("fp", "text")
        yield from settings.send("texts", sums, "titles" if side == "title" else "")


def clean_sessions(group: Group, settings: Settings) -> Iterator[Any]:
    """Counts each pair of a session once; of a session like a machine's no more than clicks.

    A bot has more distinct queries than a person types, spam more clicks, repeats included.

    Yields:
        Main, titles and counts, as `sum_rows` does.
    """
    options, visits = settings.options, parts_of(group[1])["visits"]
    max_queries, max_clicks = options.max_queries_per_session, options.max_clicks_per_session
    clicks, best = pl.col("clicks"), pl.col("clicks") == pl.col("clicks").max()
    # Of texts that are one the clicks of the row with most count; the smallest text of equals.
    pairs = (
        pl.concat(part.frame for part in visits)
        .sort("query", "title")
        .group_by("s", "q", "t")
        .agg(
            pl.col("query", "title").filter(best).first(),
            pl.col("weighted").filter(best).max(),
            clicks.sum(),
            most=clicks.max(),
            rows=pl.len().cast(pl.Int64),
            clicked=(clicks > 0).sum().cast(pl.Int64),
        )
    )
    many = pl.col("q").n_unique() > max_queries if max_queries else pl.lit(False)
    spam = pl.col("clicks").sum() > max_clicks if max_clicks else pl.lit(False)
    why = pl.when(many).then(1).when(spam).then(2).otherwise(0)
    pairs = pairs.with_columns(why=why.over("s"))
    human, repeats = pl.col("why") == 0, (pl.col("clicked") - 1).clip(0)
    counts = {
        f"dropped {MANY_QUERIES}": pairs.filter(why=1)["rows"].sum(),
        f"dropped {MANY_CLICKS}": pairs.filter(why=2)["rows"].sum(),
        f"dropped {REPEATED}": pairs.filter(human).select(repeats.sum()).item(),
        "sessions": pairs["s"].n_unique(),
    }
    pairs = pairs.with_columns(
        rows=human * (pl.col("rows") - repeats),
        clicks=human * pl.col("most"),
        weighted=human * pl.col("weighted"),
        robots=~human * pl.col("most"),
    )
    yield from _summed(pairs.filter(human | (pl.col("robots") > 0)), settings)
    yield counted(counts)
