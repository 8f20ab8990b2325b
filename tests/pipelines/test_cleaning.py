"""Bots, spam, repeats and blocked queries leave the log, each counted."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.tables.click_log import SCHEMA, LogRow
from dssm_tf.text.rules import FOLDED
from pipelines import cleaning
from pipelines.cleaning import BlockList, clean_sessions, sum_rows, weighted
from pipelines.texts import fingerprints

TEXTS = ["halo", "Halo!", "a", "A", "b", "c d", "t", "T!", "u", "Reach", "reach", "Wars", "q"]
TEXTS += [f"q{n}" for n in range(5)] + ["good", "title", "free money"]
OF = {
    int(fingerprints(pl.Series([FOLDED.key(text)]))[0]): FOLDED.key(text) for text in TEXTS
}  # normal forms by fingerprint


def summed(*rows: LogRow, block: str = "", weights=()):
    frame = pl.DataFrame(rows, schema=pl.Schema(SCHEMA), orient="row")
    return sum_rows(weighted(frame, weights), FOLDED, BlockList.parse(block, FOLDED))


def plain(found):
    """Clicks, rows, weighted clicks and robots' clicks of each pair, and rows dropped."""
    pairs = {(OF[q], OF[t]): tuple(rest) for q, t, *rest in found.pairs.iter_rows()}
    return pairs, {reason: rows for reason, rows in found.dropped.items() if rows}


def texts(found):
    return [
        {(OF[fp], text): clicks for fp, text, clicks in one.iter_rows()}
        for one in (found.queries, found.titles)
    ]


def test_a_block_list_drops_queries_with_a_word_and_whole_queries():
    blocks = BlockList.parse("Casino\n# poker\nfree  money\n=halo\n\n", FOLDED).blocks
    dropped = ["online casino bonus", "free money", "halo"]
    kept = ["free money now", "halo reach", "poker", "casinos"]
    assert blocks(pl.Series([*dropped, *kept])).to_list() == [True] * 3 + [False] * 4


def test_rows_without_a_word_and_blocked_rows_are_counted_apart():
    found, visits = summed(
        LogRow("!!", "a"), LogRow("a", "?"), LogRow("bad thing", "a"), LogRow("bad thing", "a"),
        LogRow("Good", "Title", 3), block="bad",
    )  # fmt: skip
    assert plain(found) == (
        {("good", "title"): (3, 1, 3000, 0)},
        {cleaning.NO_WORDS: 2, cleaning.BLOCKED: 2},
    )
    assert texts(found) == [{("good", "Good"): 3}, {("title", "Title"): 3}]
    assert visits.is_empty()


def session(*rows: tuple[str, str, int], queries: int = 0, clicks: int = 0):
    _, visits = summed(*(LogRow(q, t, c, session="s") for q, t, c in rows))
    return clean_sessions(visits, queries, clicks)


def test_a_click_repeated_in_a_session_counts_once():
    found = session(("halo", "Reach", 1), ("halo", "Reach", 1), ("Halo!", "reach", 1))
    assert plain(found) == ({("halo", "reach"): (1, 1, 1000, 0)}, {cleaning.REPEATED: 2})
    # Three rows, one click; the text as logged is the smallest of equals.
    assert texts(found) == [{("halo", "Halo!"): 1}, {("reach", "reach"): 1}]


def test_of_repeated_rows_the_one_with_most_clicks_counts():
    found = session(("halo", "Reach", 1), ("halo", "reach", 4), ("halo", "Wars", 1))
    pairs = {("halo", "reach"): (4, 1, 4000, 0), ("halo", "wars"): (1, 1, 1000, 0)}
    assert plain(found) == (pairs, {cleaning.REPEATED: 1})
    assert texts(found)[1] == {("reach", "reach"): 4, ("wars", "Wars"): 1}


def test_a_session_with_more_queries_than_a_person_types_is_dropped_whole():
    rows = [(f"q{n}", "t", 1) for n in range(5)]
    assert plain(session(*rows, queries=5))[1] == {}
    found = session(*rows, queries=4)
    # Clicked, but no row counts, and no text.
    assert plain(found) == (
        {(f"q{n}", "t"): (0, 0, 0, 1) for n in range(5)},
        {cleaning.MANY_QUERIES: 5},
    )
    assert texts(found) == [{}, {}]


def test_a_session_that_clicks_too_often_is_dropped_whole_repeats_included():
    rows = [("q", "t", 1)] * 5
    assert plain(session(*rows, clicks=5))[1] == {cleaning.REPEATED: 4}
    expected = {("q", "t"): (0, 0, 0, 1)}, {cleaning.MANY_CLICKS: 5}
    assert plain(session(*rows, clicks=4)) == expected


def test_of_a_session_the_click_that_counts_keeps_its_weight():
    rows = [LogRow("q", "t", 1, session="s", position=at) for at in (3, 1, 2)]
    _, visits = summed(*rows, weights=(1000, 2000, 5000))
    assert plain(clean_sessions(visits, 0, 0))[0] == {("q", "t"): (1, 1, 5000, 0)}


ROWS = st.lists(
    st.builds(
        LogRow, st.sampled_from(["a", "A", "b", "c d"]), st.sampled_from(["t", "T!", "u"]),
        st.integers(0, 3), session=st.sampled_from(["s1", "s2"]), position=st.integers(0, 3),
        impressions=st.just(0), timestamp=st.just(""),
    ),
    min_size=1, max_size=30,
)  # fmt: skip


@given(ROWS, st.integers(0, 30))
def test_cleaning_a_session_does_not_depend_on_how_its_rows_were_cut(rows, cut):
    whole = summed(*rows)[1]
    parts = pl.concat(summed(*some)[1] for some in (rows[cut:], rows[:cut]))
    one, other = (clean_sessions(visits, 2, 9) for visits in (whole, parts))
    assert plain(one) == plain(other)
    assert texts(one) == texts(other)


@given(ROWS)
def test_every_row_of_a_session_is_kept_or_counted_as_dropped(rows):
    pairs, dropped = plain(clean_sessions(summed(*rows)[1], 2, 9))
    assert sum(kept for _, kept, *_ in pairs.values()) + sum(dropped.values()) == len(rows)
