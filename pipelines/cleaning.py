"""What is no evidence of relevance and leaves the log: bots, spam, repeats, blocked queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from dssm_tf.positions.curve import UNIT
from dssm_tf.text.rules import Rules
from pipelines.frames import Counts
from pipelines.texts import fingerprints, normal_forms

NO_WORDS = "no words"
BLOCKED = "blocked"
NO_CLICK = "no click"
MANY_QUERIES = "session with many queries"
MANY_CLICKS = "session with many clicks"
REPEATED = "repeated in session"
FEW_CLICKS = "few clicks"
_REASONS = (NO_WORDS, BLOCKED)

PAIRS = {
    "q": pl.UInt64, "t": pl.UInt64, "clicks": pl.Int64, "rows": pl.Int64, "weighted": pl.Int64,
    "robots": pl.Int64,
}  # fmt: skip
"""Pairs: fingerprints of query and title, clicks, rows, weighted clicks in thousandths, and clicks
of dropped sessions, which are no evidence but keep the title from becoming a negative."""
TEXTS = {"fp": pl.UInt64, "text": pl.String, "clicks": pl.Int64}
"""Texts as logged by fingerprint, and the clicks of each."""


@dataclass(frozen=True)
class BlockList:
    """Words and whole queries to drop.

    Args:
        words: a query that holds one of them is dropped.
        queries: normalised; a query that equals one is dropped.
    """

    words: frozenset[str] = frozenset()
    queries: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str, rules: Rules) -> BlockList:
        """From a file's lines: `word`, `several words`, `=word` and `# comment`."""
        single, whole = set(), set()
        for line in text.splitlines():
            entry = line.strip()
            found = rules.words(entry)
            if not found or entry.startswith("#"):
                continue
            if len(found) == 1 and not entry.startswith("="):
                single.update(found)
            else:
                whole.add(" ".join(found))
        return cls(frozenset(single), frozenset(whole))

    def blocks(self, query: str) -> bool:
        """Whether a normalised query is to be dropped."""
        return query in self.queries or not self.words.isdisjoint(query.split(" "))


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
    dropped: Counts


def weighted(rows: pl.DataFrame, weights: Sequence[int]) -> pl.DataFrame:
    """Rows with their weighted clicks in thousandths.

    Args:
        rows: of a log.
        weights: of a click at positions 1, 2, ..., in thousandths; those behind have the last
            one, and a click whose position is unknown, or all if none are given, counts once.
    """
    of = np.array([UNIT, *weights])[np.minimum(rows["position"].to_numpy(), len(weights))]
    return rows.with_columns(weighted=pl.Series(rows["clicks"].to_numpy() * of))


def sum_rows(
    rows: pl.DataFrame, rules: Rules, block_list: BlockList
) -> tuple[Cleaned, pl.DataFrame]:
    """Sums rows by what they say, without those that have no words or are blocked.

    Args:
        rows: query, title, session, clicks and weighted clicks of each.
        rules: of texts.
        block_list: queries to drop.

    Returns:
        Rows without a session; and those with one, by session and texts, sorted by session: their
        clicks are still to be counted once, see `clean_sessions`.
    """
    names = ("query", "title", "q", "t", "reason")
    alone = pl.col("session") == ""
    texts = _keyed(rows, rules, block_list)
    pairs = (
        rows.filter(alone)
        .group_by("query", "title")
        .agg(pl.col("clicks", "weighted").sum(), rows=pl.len())
    )
    pairs = pairs.join(texts["query"], on="query").join(texts["title"], on="title")
    most = pl.col("clicks").max()
    visits = (
        rows.filter(~alone)
        .group_by("session", "query", "title")
        .agg(
            most=most,
            weighted=pl.col("weighted").filter(pl.col("clicks") == most).max(),
            rows=pl.len().cast(pl.Int64),
            clicks=pl.col("clicks").sum(),
            clicked=(pl.col("clicks") > 0).sum().cast(pl.Int64),
        )
    )
    visits = visits.join(texts["query"], on="query").join(texts["title"], on="title")
    names_of = visits.select(pl.col("session").unique())
    names_of = names_of.with_columns(s=fingerprints(names_of["session"]))
    visits = visits.join(names_of, on="session").with_columns(
        reason=pl.min_horizontal("reason", "reason_right")
    )
    visits = visits.select("s", *names, "most", "weighted", "rows", "clicks", "clicked")
    return _summed(pairs.with_columns(reason=pl.min_horizontal("reason", "reason_right"))), (
        visits.sort("s", *names)
    )


def _keyed(rows: pl.DataFrame, rules: Rules, block_list: BlockList) -> dict[str, pl.DataFrame]:
    """Distinct queries and titles, their fingerprints, and why they are dropped (2 if not)."""
    found = {}
    for side, name in (("query", "q"), ("title", "t")):
        texts = rows.select(pl.col(side).unique())
        forms = normal_forms(texts[side], rules)
        distinct = pl.DataFrame({"form": forms.unique()})
        drop = block_list.blocks if side == "query" and block_list != BlockList() else None
        found_bad = [drop is not None and drop(form) for form in distinct["form"]]
        blocked = pl.Series(found_bad, dtype=pl.Boolean)
        distinct = distinct.with_columns(
            fingerprints(distinct["form"]).alias(name),
            reason=pl.when(pl.col("form") == "").then(0).when(blocked).then(1).otherwise(2),
        )
        found[side] = texts.with_columns(form=forms).join(distinct, on="form").drop("form")
    return found


def _summed(rows: pl.DataFrame) -> Cleaned:
    """Rows by texts as pairs and texts, without those that have a reason to be dropped."""
    dropped = {
        reason: int(rows.filter(pl.col("reason") == at)["rows"].sum())
        for at, reason in enumerate(_REASONS)
    }
    rows = rows.filter(pl.col("reason") == len(_REASONS))
    if "robots" not in rows.columns:
        rows = rows.with_columns(robots=pl.lit(0, pl.Int64))
    pairs = rows.group_by("q", "t").agg(pl.col("clicks", "rows", "weighted", "robots").sum())
    texts = [
        rows.filter(pl.col("rows") > 0)
        .group_by(fp=name, text=side)
        .agg(pl.col("clicks").sum())
        .select(*TEXTS)
        .sort("fp", "text")
        for side, name in (("query", "q"), ("title", "t"))
    ]
    pairs = pairs.select(pl.col(name).cast(kind) for name, kind in PAIRS.items()).sort("q", "t")
    return Cleaned(pairs, texts[0], texts[1], dropped)


def clean_sessions(visits: pl.DataFrame, max_queries: int, max_clicks: int) -> Cleaned:
    """Each pair of a session once; of a session that looks like a machine's no more than clicks.

    Args:
        visits: whole sessions, as `sum_rows` gives them, in any order.
        max_queries: distinct queries beyond which the session is a bot's; 0 means no limit.
        max_clicks: clicks, repeats included, beyond which it is spam; 0 means no limit.
    """
    best = pl.col("most") == pl.col("most").max()
    # Of texts that are one the clicks of the row with most count; the smallest text of equals.
    pairs = (
        visits.sort("query", "title")
        .group_by("s", "q", "t")
        .agg(
            pl.col("query", "title").filter(best).first(),
            pl.col("reason").first(),
            pl.col("most").max(),
            pl.col("weighted").filter(best).max(),
            pl.col("rows", "clicks", "clicked").sum(),
        )
    )
    sessions = pairs.group_by("s").agg(pl.col("q").n_unique(), pl.col("clicks").sum())
    many = pl.col("q") > max_queries if max_queries else pl.lit(False)
    spam = pl.col("clicks") > max_clicks if max_clicks else pl.lit(False)
    sessions = sessions.select("s", why=pl.when(many).then(1).when(spam).then(2).otherwise(0))
    pairs = pairs.join(sessions, on="s")
    dropped = {
        reason: int(pairs.filter(pl.col("why") == why)["rows"].sum())
        for why, reason in ((1, MANY_QUERIES), (2, MANY_CLICKS))
    }
    human = pl.col("why") == 0
    repeats = (pl.col("clicked") - 1).clip(0)
    dropped[REPEATED] = int(pairs.filter(human).select(repeats.sum()).item())
    pairs = pairs.with_columns(
        rows=pl.when(human).then(pl.col("rows") - repeats).otherwise(0),
        clicks=pl.when(human).then("most").otherwise(0),
        weighted=pl.when(human).then("weighted").otherwise(0),
        robots=pl.when(human).then(0).otherwise("most"),
    )
    found = _summed(pairs.filter(human | (pl.col("robots") > 0)))
    return found._replace(dropped={**dropped, **found.dropped})
