"""What is no evidence of relevance and leaves the log: bots, spam, repeats, blocked queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from dssm_tf.positions.curve import UNIT
from dssm_tf.text.rules import Rules
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


class BlockList(NamedTuple):
    """Words and whole queries to drop.

    Args:
        words: a query that holds one of them is dropped.
        queries: normalised; a query that equals one is dropped.
    """

    words: Sequence[str] = ()
    queries: Sequence[str] = ()

    @classmethod
    def parse(cls, text: str, rules: Rules) -> BlockList:
        """From a file's lines: `word`, `several words`, `=word` and `# comment`."""
        entries = [one.strip() for one in text.splitlines()]
        keys = [(one, rules.key(one)) for one in entries if not one.startswith("#")]
        single = [key for one, key in keys if not one.startswith("=") and " " not in key]
        return cls(single, [key for _, key in keys if key not in single])

    def blocks(self, queries: pl.Series) -> pl.Series:
        """Whether each normalised query is to be dropped."""
        words = pl.Series(self.words, dtype=pl.String).implode()
        hit = queries.str.split(" ").list.set_intersection(words).list.len() > 0
        return hit | queries.is_in(pl.Series(self.queries, dtype=pl.String).implode())


class Cleaned(NamedTuple):
    """Pairs, and the texts that they were logged with.

    Args:
        pairs: see `PAIRS`, sorted by q and t.
        queries: see `TEXTS`, sorted by fp.
        titles: the same.
        dropped: rows dropped, by reason.
    """

    pairs: pl.DataFrame
    queries: pl.DataFrame
    titles: pl.DataFrame
    dropped: dict[str, int]


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


def sum_rows(
    rows: pl.DataFrame, rules: Rules, block_list: BlockList
) -> tuple[Cleaned, pl.DataFrame]:
    """Sums rows by what they say, without those that have no words or are blocked.

    Args:
        rows: as `weighted` gives them.
        rules: of texts.
        block_list: queries to drop.

    Returns:
        Rows without a session; and those with one, sorted by session: their clicks are still to
        be counted once, see `clean_sessions`.
    """
    queries, titles = (_keyed(rows[side], name, rules) for side, name in SIDES.items())
    queries = queries.with_columns(blocked=block_list.blocks(queries["form"])).drop("form")
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
    return _summed(alone, dropped), visits.sort("s")


def _keyed(texts: pl.Series, name: str, rules: Rules) -> pl.DataFrame:
    """Distinct texts with a word, their normal forms and fingerprints."""
    texts = texts.unique()
    forms = normal_forms(texts, rules)
    distinct = forms.unique()
    keys = pl.DataFrame({"form": distinct, name: fingerprints(distinct)})
    found = pl.DataFrame({texts.name: texts, "form": forms})
    return found.filter(pl.col("form") != "").join(keys, on="form")


def _summed(rows: pl.DataFrame, dropped: dict[str, int]) -> Cleaned:
    """Rows by texts as pairs and texts."""
    pairs = rows.group_by("q", "t").agg(pl.col("clicks", "rows", "weighted", "robots").sum())
    queries, titles = (
        rows.filter(pl.col("rows") > 0)
        .group_by(fp=name, text=side)
        .agg(pl.col("clicks").sum())
        .sort("fp", "text")
        for side, name in SIDES.items()
    )
    pairs = pairs.select(pl.col(name).cast(kind) for name, kind in PAIRS.items()).sort("q", "t")
    return Cleaned(pairs, queries, titles, dropped)


def clean_sessions(visits: pl.DataFrame, max_queries: int, max_clicks: int) -> Cleaned:
    """Each pair of a session once; of a session that looks like a machine's no more than clicks.

    Args:
        visits: whole sessions, as `sum_rows` gives them, in any order.
        max_queries: distinct queries beyond which the session is a bot's; 0 means no limit.
        max_clicks: clicks, repeats included, beyond which it is spam; 0 means no limit.
    """
    clicks, best = pl.col("clicks"), pl.col("clicks") == pl.col("clicks").max()
    # Of texts that are one the clicks of the row with most count; the smallest text of equals.
    pairs = (
        visits.sort("query", "title")
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
    dropped = {
        reason: int(pairs.filter(why=at)["rows"].sum())
        for at, reason in ((1, MANY_QUERIES), (2, MANY_CLICKS))
    }
    human, repeats = pl.col("why") == 0, (pl.col("clicked") - 1).clip(0)
    dropped[REPEATED] = int(pairs.filter(human).select(repeats.sum()).item())
    pairs = pairs.with_columns(
        rows=pl.when(human).then(pl.col("rows") - repeats).otherwise(0),
        clicks=pl.when(human).then("most").otherwise(0),
        weighted=pl.when(human).then("weighted").otherwise(0),
        robots=pl.when(human).then(0).otherwise("most"),
    )
    return _summed(pairs.filter(human | (pl.col("robots") > 0)), dropped)
