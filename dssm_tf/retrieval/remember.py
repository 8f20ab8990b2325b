"""Chooses the clicks of a log that an index remembers, and how much they count.

See `dssm_tf.runtime.remembered_clicks` for the formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.significance import SIGNIFICANCE_LEVEL, paired_t_test
from dssm_tf.retrieval.maxsim_arrays import Progress
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.runtime.remembered_clicks import NORMALIZED_TITLES, RememberedClicks, query_hash
from dssm_tf.tables.splits import split_by_time

MIN_SESSIONS = 10
"""A query is remembered if it was clicked in at least this number of sessions."""

MUS = (1.0, 3.0, 10.0, 30.0)
"""Candidates of `mu`."""

_HELD_OUT = 0.2  # fraction of the log that `mu` is chosen on
_MIN_KNOWN = 40  # queries; with fewer ones, `mu` is `_DEFAULT_MU`
_DEFAULT_MU = 10.0

_DEPTH = 10
_METRIC = f"ndcg@{_DEPTH}"


class Memory(NamedTuple):
    """What an index remembers of a log.

    Attributes:
        clicks: the remembered clicks; None if there are none, or if they do not help.
        summary: a sentence about the queries, `mu`, and how it was chosen.
    """

    clicks: RememberedClicks | None
    summary: str


def remember_clicks(
    index: MaxSimIndex,
    rows: pl.DataFrame,
    min_sessions: int = MIN_SESSIONS,
    report: Progress = lambda fraction, state: None,
) -> Memory:
    """Chooses the clicks to remember, and `mu`.

    `mu` has the highest mean NDCG@10 of the queries that the earlier 80 % of the log remember, with
    the latest 20 % of the rows as judgments. Of a log without times, a random fifth of the clicks
    is held out instead. If the best `mu` is significantly worse than the model alone, nothing is
    remembered. The model may have been trained on the later clicks, which favors it; so a small
    difference does not count.

    Args:
        index: the index, without remembered clicks.
        rows: rows of a log, with the columns of `dssm_tf.tables.click_log.SCHEMA`.
        min_sessions: a query needs clicks in this number of distinct sessions; of a log without
            sessions, this number of clicks.
        report: called with the finished fraction and the current step.

    Raises:
        UserError: a timestamp cannot be read.
    """
    report(0.0, "reading clicks")
    clicked = _clicks_on_titles(index, rows.filter(col.clicks > 0))
    remembered = _frequent(clicked, min_sessions)
    unit = "sessions" if _has_sessions(clicked) else "clicks"
    described = f"{remembered['query'].n_unique():,} queries with at least {min_sessions} {unit}"
    if not len(remembered):
        return Memory(None, f"no clicks are remembered: no query has {min_sessions} {unit}")
    if rows["timestamp"].str.len_chars().min() or 0:
        earlier, later = split_by_time(clicked, _HELD_OUT)
        how = "the latest fifth of the log"
    else:
        earlier, later = _split_clicks(clicked)
        how = "a random fifth of the clicks, because the log has no times"
    mu, values = _choose_mu(index, _frequent(earlier, min_sessions), _sums(later), report)
    measured = "not measured, because too few queries are known"
    if values:
        measured = (
            f"NDCG@10 of known queries {values[1]:.4f}, without them {values[0]:.4f}, on {how}"
        )
    if mu is None:
        return Memory(None, f"no clicks are remembered, because they are worse: {measured}")
    clicks = _with_sums(index, remembered, mu, lambda done: report(done, "remembering clicks"))
    return Memory(clicks, f"clicks of {described} are remembered, mu {mu:g}: {measured}")


def _clicks_on_titles(index: MaxSimIndex, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with `query`, its words joined by spaces, and `title_row`, a position in the arrays.

    A title is looked up by its `doc_id` in the log, else by its text. Rows of unknown titles and of
    queries without words are left out. Several clicks of a session on one pair count once.
    """
    vocabulary, arrays = index.model.vocabulary, index.arrays
    title_of_entry = np.empty(len(index), np.int64)
    title_of_entry[arrays.docs] = np.repeat(
        np.arange(arrays.titles), np.diff(arrays.doc_starts).astype(np.int64)
    )
    doc_ids, texts = (index.table[name].to_pylist() for name in ("doc_id", "title"))
    by_id = dict(zip(reversed(doc_ids), title_of_entry[::-1].tolist(), strict=True))
    by_key = dict(zip(map(vocabulary.rules.key, texts), title_of_entry.tolist(), strict=True))
    queries = {query: " ".join(vocabulary.words(query)) for query in rows["query"].unique()}
    pairs = rows.select("doc_id", "title").unique()
    pairs = pairs.with_columns(
        pl.Series(
            "title_row",
            [
                by_id.get(doc_id, by_key.get(vocabulary.rules.key(title)))
                for doc_id, title in pairs.iter_rows()
            ],
            pl.Int64,
        )
    )
    joined = rows.join(pairs, on=["doc_id", "title"], how="left").with_columns(
        query=col.query.replace_strict(queries, return_dtype=pl.String)
    )
    known = joined.filter(col.title_row.is_not_null() & (col.query != ""))
    visits = known.filter(col.session != "").with_columns(clicks=pl.lit(1, pl.Int64))
    visits = visits.unique(["session", "query", "title_row"], keep="first", maintain_order=True)
    return pl.concat([visits, known.filter(col.session == "")])


def _has_sessions(clicked: pl.DataFrame) -> bool:
    return bool((clicked["session"] != "").any())


def _frequent(clicked: pl.DataFrame, min_sessions: int) -> pl.DataFrame:
    """The clicks of each pair of the queries that are frequent enough; see `_sums`."""
    count = col.clicks.sum()
    if _has_sessions(clicked):
        count = col.session.filter(col.session != "").n_unique()
    frequent = clicked.group_by("query").agg(count=count).filter(col.count >= min_sessions)
    return _sums(clicked.join(frequent, on="query", how="semi"))


def _sums(clicked: pl.DataFrame) -> pl.DataFrame:
    """The sum of the clicks of each query and title, sorted."""
    sums = clicked.group_by("query", title="title_row").agg(col.clicks.sum())
    return sums.select("query", "title", "clicks").sort("query", "title")


def _split_clicks(clicked: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Holds out a random fifth of the clicks, the same one for any order of the rows."""
    rows = clicked.sort("query", "title_row", "session", "clicks")
    held_out = np.random.default_rng(0).binomial(rows["clicks"].to_numpy(), _HELD_OUT)
    later = rows.with_columns(clicks=pl.Series(held_out, dtype=pl.Int64))
    earlier = rows.with_columns(clicks=col.clicks - later["clicks"])
    return earlier.filter(col.clicks > 0), later.filter(col.clicks > 0)


def _choose_mu(
    index: MaxSimIndex, earlier: pl.DataFrame, later: pl.DataFrame, report: Progress
) -> tuple[float | None, tuple[float, ...]]:
    """The best `mu`, and the mean NDCG@10 without remembered clicks and with the best `mu`.

    `mu` is None if the best one is significantly worse than the model alone. If too few queries are
    known, it is the default, and there are no means.
    """
    judged = later.join(earlier, on="query", how="semi")
    known = judged["query"].unique(maintain_order=True).to_list()
    if len(known) < _MIN_KNOWN:
        return _DEFAULT_MU, ()
    clicks_of = _by_query(earlier)
    graded: list[list[tuple[int, int | None, float]]] = [[] for _ in (0.0, *MUS)]
    for number, (query, clicks) in enumerate(_by_query(judged).items()):
        report(number / len(known), "choosing mu")
        titles, scores, log_sum = _candidates(index, query, clicks_of[query])
        remembered = np.array([clicks_of[query].get(title, 0) for title in titles.tolist()])
        most = max(clicks.values())
        for frame, mu in zip(graded, (0.0, *MUS), strict=True):
            added = scores.astype(np.float64)
            if mu:
                added = added + _formula(mu, index.model.gamma).added(remembered, scores, log_sum)
            first = titles[np.argsort(-added, kind="stable")[:_DEPTH]].tolist()
            for title, count in clicks.items():
                rank = first.index(title) + 1 if title in first else None
                frame.append((number, rank, 1.0 + (2 * count >= most) + (count == most)))
    schema = {"query": pl.Int64, "rank": pl.Float64, "grade": pl.Float64}
    frames = (pl.DataFrame(rows, schema, orient="row") for rows in graded)
    without, *with_clicks = (per_query(frame, len(known), [_METRIC])[_METRIC] for frame in frames)
    means = [float(values.mean()) for values in with_clicks]
    best = int(np.argmax(means))
    measured = float(without.mean()), means[best]
    is_worse = means[best] < measured[0]
    if is_worse and paired_t_test(with_clicks[best] - without)[0] < SIGNIFICANCE_LEVEL:
        return None, measured
    return MUS[best], measured


def _formula(mu: float, gamma: float) -> RememberedClicks:
    """The formula with these numbers, without clicks."""
    none = np.zeros(0, np.int64)
    return RememberedClicks(none, np.zeros(1, np.int64), none, none, np.zeros(0), mu, gamma)


def _by_query(sums: pl.DataFrame) -> dict[str, dict[int, int]]:
    """The clicks of each title, by query."""
    clicks: dict[str, dict[int, int]] = {}
    for query, title, count in sums.iter_rows():
        clicks.setdefault(query, {})[title] = count
    return clicks


def _candidates(
    index: MaxSimIndex, query: str, clicks: Mapping[int, int]
) -> tuple[NDArray[np.int32], NDArray[np.float32], float]:
    """The best titles and those with clicks, their scores, and the log of the softmax's sum."""
    titles, scores = index.ranking.candidates(
        query.split(" "), NORMALIZED_TITLES, additional=np.array([*clicks], np.int32)
    )
    logits = index.model.gamma * scores.astype(np.float64)
    return titles, scores, float(np.logaddexp.reduce(logits))


def _with_sums(
    index: MaxSimIndex, sums: pl.DataFrame, mu: float, report: Callable[[float], None]
) -> RememberedClicks:
    """The clicks in the form that an index stores."""
    by_hash = sorted((query_hash(query.split(" ")), query) for query in {*sums["query"]})
    clicks_of, key = _by_query(sums), index.model.vocabulary.rules.id
    column, docs, starts = index.table["title"], index.arrays.docs, index.arrays.doc_starts
    titles: list[int] = []
    clicks: list[int] = []
    ends, log_sums = [0], []
    for number, (_, query) in enumerate(by_hash):
        report(number / len(by_hash))
        log_sums.append(_candidates(index, query, clicks_of[query])[2])
        for title, count in clicks_of[query].items():
            titles.append(key(column[int(docs[starts[title]])].as_py()))
            clicks.append(count)
        ends.append(len(titles))
    return RememberedClicks(
        queries=np.array([number for number, _ in by_hash], np.int64),
        starts=np.array(ends, np.int64),
        titles=np.array(titles, np.int64),
        clicks=np.array(clicks, np.int64),
        log_sums=np.array(log_sums),
        mu=mu,
        gamma=index.model.gamma,
    )
