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
from dssm_tf.tables.splits import split_by_time, unmatched_note

MIN_SESSIONS = 10
"""A query is remembered if it was clicked in at least this number of sessions."""

MUS = (1.0, 3.0, 10.0, 30.0)
"""Candidates of `mu`."""

_HELD_OUT_FRACTION = 0.2  # of the log; `mu` is chosen on this part
_MIN_QUERIES = 40  # remembered and held-out queries; with fewer of them, `mu` is `_DEFAULT_MU`
_DEFAULT_MU = 10.0

_DEPTH = 10
_METRIC = f"ndcg@{_DEPTH}"


class ChosenClicks(NamedTuple):
    """The clicks of a log that an index remembers.

    Attributes:
        clicks: the remembered clicks; None if there are none, or if they do not help.
        summary: a sentence about the queries, `mu`, and how it was chosen.
        notes: sentences about clicks that were left out.
    """

    clicks: RememberedClicks | None
    summary: str
    notes: list[str]


def remember_clicks(
    index: MaxSimIndex,
    rows: pl.DataFrame,
    min_sessions: int = MIN_SESSIONS,
    progress: Progress = lambda fraction, state: None,
) -> ChosenClicks:
    """Chooses the clicks to remember, and `mu`.

    The latest 20 % of the rows are held out; they are the judgments. `mu` has the highest mean
    NDCG@10 of the queries that would be remembered from the earlier 80 %. If a click has no time, a
    random fifth of the clicks is held out instead. If the best `mu` is significantly worse than
    the model alone, nothing is remembered. An insignificant difference does not count, because the
    model may have been trained on the held-out clicks, which favors it.

    Args:
        index: the index, without remembered clicks.
        rows: rows of a log, with the columns of `dssm_tf.tables.click_log.SCHEMA`.
        min_sessions: a query needs clicks in this number of distinct sessions; of a log without
            sessions, this number of clicks.
        progress: called with the finished fraction and the current step.

    Raises:
        UserError: a timestamp cannot be read.
    """
    progress(0.0, "reading clicks")
    clicked, notes = _clicks_on_titles(index, rows.filter(col.clicks > 0))
    remembered = _frequent(clicked, min_sessions)
    unit = "sessions" if _has_sessions(clicked) else "clicks"
    queries = f"{remembered['query'].n_unique():,} queries with at least {min_sessions} {unit}"
    if not len(remembered):
        reason = f"no query has {min_sessions} {unit}"
        if not len(clicked):
            reason = "no query with a word has a click on a title of the corpus"
        return ChosenClicks(None, f"no clicks are remembered: {reason}", notes)
    reason = _reason_against_times(clicked)
    if not reason:
        earlier, held_out = split_by_time(clicked, _HELD_OUT_FRACTION)
        held_out_part = "the latest fifth of the log"
    else:
        earlier, held_out = _split_clicks(clicked)
        held_out_part = f"a random fifth of the clicks, because {reason}"
    mu, means = _choose_mu(index, _frequent(earlier, min_sessions), _click_sums(held_out), progress)
    measurement = "not measured, because too few queries are known"
    if means:
        measurement = (
            f"NDCG@10 of known queries {means[1]:.4f}, without them {means[0]:.4f}, on "
            f"{held_out_part}"
        )
    if mu is None:
        return ChosenClicks(
            None, f"no clicks are remembered, because they are worse: {measurement}", notes
        )
    clicks = _remembered(
        index, remembered, mu, lambda fraction: progress(fraction, "remembering clicks")
    )
    summary = f"clicks of {queries} are remembered, mu {mu:g}: {measurement}"
    return ChosenClicks(clicks, summary, notes)


def _reason_against_times(clicked: pl.DataFrame) -> str:
    """Why clicks cannot be split by time; empty if they can."""
    blank, total = (rows["clicks"].sum() for rows in (clicked.filter(timestamp=""), clicked))
    if blank in (0, total):
        return "the log has no times" if blank else ""
    return f"{blank:,} of {total:,} clicks {'has' if blank == 1 else 'have'} no timestamp"


def _clicks_on_titles(index: MaxSimIndex, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Clicks on titles of the index, and notes about clicks that are left out.

    A title is looked up by its `doc_id` in the log, else by its text. Rows of unknown titles and of
    queries without words are left out. Several clicks of a session on one pair count once.

    Args:
        index: the index.
        rows: rows of the log with clicks.

    Returns:
        Rows with `query`, its words joined by spaces, and `title_row`, a position in the arrays;
        and the notes.
    """
    vocabulary, arrays = index.model.vocabulary, index.arrays
    title_of_entry = np.empty(len(index), np.int64)
    title_of_entry[arrays.docs] = np.repeat(
        np.arange(arrays.titles), np.diff(arrays.doc_starts).astype(np.int64)
    )
    doc_ids, texts = (index.title_table[name].to_pylist() for name in ("doc_id", "title"))
    stripped_ids = map(str.strip, reversed(doc_ids))  # as in a log
    by_id = dict(zip(stripped_ids, title_of_entry[::-1].tolist(), strict=True))
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
    joined = rows.join(
        pairs, on=["doc_id", "title"], how="left", maintain_order="left"
    ).with_columns(query=col.query.replace_strict(queries, return_dtype=pl.String))
    notes = []
    if len(unknown := rows.filter(joined["title_row"].is_null())):
        notes.append(unmatched_note(unknown, rows, "clicks"))
    if len(wordless := rows.filter(joined["title_row"].is_not_null() & (joined["query"] == ""))):
        notes.append(
            f"{wordless['clicks'].sum():,} of {rows['clicks'].sum():,} clicks were left out: their "
            f"query has no word, such as {wordless['query'][0]!r:.60}"
        )
    with_titles = joined.filter(col.title_row.is_not_null() & (col.query != ""))
    clicks_of_sessions = with_titles.filter(col.session != "").with_columns(
        clicks=pl.lit(1, pl.Int64)
    )
    clicks_of_sessions = clicks_of_sessions.unique(
        ["session", "query", "title_row"], keep="first", maintain_order=True
    )
    return pl.concat([clicks_of_sessions, with_titles.filter(col.session == "")]), notes


def _has_sessions(clicked: pl.DataFrame) -> bool:
    return bool((clicked["session"] != "").any())


def _frequent(clicked: pl.DataFrame, min_sessions: int) -> pl.DataFrame:
    """The clicks of each pair of the queries that are frequent enough; see `_click_sums`."""
    count = col.clicks.sum()
    if _has_sessions(clicked):
        count = col.session.filter(col.session != "").n_unique()
    frequent = clicked.group_by("query").agg(count=count).filter(col.count >= min_sessions)
    return _click_sums(clicked.join(frequent, on="query", how="semi"))


def _click_sums(clicked: pl.DataFrame) -> pl.DataFrame:
    """The sum of the clicks of each query and title, sorted."""
    sums = clicked.group_by("query", title="title_row").agg(col.clicks.sum())
    return sums.select("query", "title", "clicks").sort("query", "title")


def _split_clicks(clicked: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Splits off a random fifth of the clicks, which does not depend on the order of the rows."""
    rows = clicked.sort("query", "title_row", "session", "clicks")
    counts = np.random.default_rng(0).binomial(rows["clicks"].to_numpy(), _HELD_OUT_FRACTION)
    held_out = rows.with_columns(clicks=pl.Series(counts, dtype=pl.Int64))
    earlier = rows.with_columns(clicks=col.clicks - held_out["clicks"])
    return earlier.filter(col.clicks > 0), held_out.filter(col.clicks > 0)


def _choose_mu(
    index: MaxSimIndex, earlier: pl.DataFrame, held_out: pl.DataFrame, progress: Progress
) -> tuple[float | None, tuple[float, ...]]:
    """The best `mu`, and the mean NDCG@10 without remembered clicks and with the best `mu`.

    `mu` is None if the best one is significantly worse than the model alone. With too few queries,
    it is the default, and there are no means.

    Args:
        index: the index.
        earlier: clicks to remember, see `_click_sums`.
        held_out: later clicks, which are the judgments.
        progress: called with the finished fraction and the current step.
    """
    judged = held_out.join(earlier, on="query", how="semi")
    query_count = judged["query"].n_unique()
    if query_count < _MIN_QUERIES:
        return _DEFAULT_MU, ()
    clicks_of = _by_query(earlier)
    all_mus = (0.0, *MUS)  # 0: without remembered clicks
    rows_of_mus: list[list[tuple[int, int | None, float]]] = [[] for _ in all_mus]
    for query_index, (query, clicks) in enumerate(_by_query(judged).items()):
        progress(query_index / query_count, "choosing mu")
        titles, scores, log_sum = _candidates(index, query, clicks_of[query])
        remembered = np.array([clicks_of[query].get(title, 0) for title in titles.tolist()])
        max_clicks = max(clicks.values())
        for rows, mu in zip(rows_of_mus, all_mus, strict=True):
            totals = scores.astype(np.float64)
            if mu:
                totals += _formula(mu, index.model.gamma).added(remembered, scores, log_sum)
            best_titles = titles[np.argsort(-totals, kind="stable")[:_DEPTH]].tolist()
            for title, count in clicks.items():
                rank = best_titles.index(title) + 1 if title in best_titles else None
                grade = 1.0 + (2 * count >= max_clicks) + (count == max_clicks)
                rows.append((query_index, rank, grade))
    schema = {"query": pl.Int64, "rank": pl.Float64, "grade": pl.Float64}
    frames = (pl.DataFrame(rows, schema, orient="row") for rows in rows_of_mus)
    without, *with_clicks = (per_query(frame, query_count, [_METRIC])[_METRIC] for frame in frames)
    means = [float(values.mean()) for values in with_clicks]
    best = int(np.argmax(means))
    compared_means = float(without.mean()), means[best]
    is_worse = means[best] < compared_means[0]
    if is_worse and paired_t_test(with_clicks[best] - without).p < SIGNIFICANCE_LEVEL:
        return None, compared_means
    return MUS[best], compared_means


def _formula(mu: float, gamma: float) -> RememberedClicks:
    """Remembered clicks of no query, to compute the formula with these numbers."""
    empty = np.zeros(0, np.int64)
    return RememberedClicks(empty, np.zeros(1, np.int64), empty, empty, np.zeros(0), mu, gamma)


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


def _remembered(
    index: MaxSimIndex, sums: pl.DataFrame, mu: float, progress: Callable[[float], None]
) -> RememberedClicks:
    """The clicks in the form that an index stores."""
    by_hash = sorted((query_hash(query.split(" ")), query) for query in {*sums["query"]})
    clicks_of, title_id = _by_query(sums), index.model.vocabulary.rules.id
    column, docs, starts = index.title_table["title"], index.arrays.docs, index.arrays.doc_starts
    titles: list[int] = []
    clicks: list[int] = []
    ends, log_sums = [0], []
    for query_index, (_, query) in enumerate(by_hash):
        progress(query_index / len(by_hash))
        log_sums.append(_candidates(index, query, clicks_of[query])[2])
        for title, count in clicks_of[query].items():
            titles.append(title_id(column[int(docs[starts[title]])].as_py()))
            clicks.append(count)
        ends.append(len(titles))
    return RememberedClicks(
        queries=np.array([hashed for hashed, _ in by_hash], np.int64),
        starts=np.array(ends, np.int64),
        titles=np.array(titles, np.int64),
        clicks=np.array(clicks, np.int64),
        log_sums=np.array(log_sums),
        mu=mu,
        gamma=index.model.gamma,
    )
