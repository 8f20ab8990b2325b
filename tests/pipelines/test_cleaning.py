"""Bots, spam, repeats and blocked queries leave the log, each counted."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.tables.click_log import LogRow
from dssm_tf.text.rules import FOLDED
from pipelines import cleaning
from pipelines.cleaning import BlockList, RowCounter, clean_pairs, clean_session


def count(*rows: LogRow) -> RowCounter:
    counter = RowCounter()
    for row in rows:
        counter.add(row)
    return counter


def test_a_block_list_drops_queries_with_a_word_and_whole_queries():
    blocks = BlockList.parse("Casino\n# poker\nfree  money\n=halo\n\n", FOLDED)
    assert blocks.blocks("online casino bonus")
    assert blocks.blocks("free money")
    assert blocks.blocks("halo")
    assert not blocks.blocks("free money now")
    assert not blocks.blocks("halo reach")
    assert not blocks.blocks("poker")
    assert not blocks.blocks("casinos")


def test_rows_without_a_word_and_blocked_rows_are_counted_apart():
    counter = count(
        LogRow("!!", "a"), LogRow("a", "?"), LogRow("bad thing", "a"), LogRow("bad thing", "a"),
        LogRow("Good", "Title", 3),
    )  # fmt: skip
    dropped: Counter[str] = Counter()
    kept = list(clean_pairs(counter.pairs.items(), BlockList.parse("bad", FOLDED), dropped))
    assert kept == [("good", "title", "Good", "Title", 3, 1, 3000)]
    assert dropped == {cleaning.NO_WORDS: 2, cleaning.BLOCKED: 2}


def session(*rows: tuple[str, str, int], queries: int = 0, clicks: int = 0):
    counter = count(*(LogRow(q, t, c, session="s") for q, t, c in rows))
    dropped: Counter[str] = Counter()
    pairs = clean_session(counter.sessions.values(), queries, clicks, dropped, FOLDED)
    return {texts: tuple(counts) for texts, counts in pairs}, dropped


def test_a_click_repeated_in_a_session_counts_once():
    pairs, dropped = session(("halo", "Reach", 1), ("halo", "Reach", 1), ("Halo!", "reach", 1))
    # Three rows, one click; the text as logged is the smallest of equals.
    assert pairs == {("Halo!", "reach"): (1, 1, 1000)}
    assert dropped == {cleaning.REPEATED: 2}


def test_of_repeated_rows_the_one_with_most_clicks_counts():
    pairs, dropped = session(("halo", "Reach", 1), ("halo", "Reach", 4), ("halo", "Wars", 1))
    assert pairs == {("halo", "Reach"): (4, 1, 4000), ("halo", "Wars"): (1, 1, 1000)}
    assert dropped == {cleaning.REPEATED: 1}


def test_a_session_with_more_queries_than_a_person_types_is_dropped_whole():
    rows = [(f"q{n}", "t", 1) for n in range(5)]
    assert session(*rows, queries=5)[1] == {}
    pairs, dropped = session(*rows, queries=4)
    assert dropped == {cleaning.MANY_QUERIES: 5}
    assert pairs == {(f"q{n}", "t"): (1, 0, 1000) for n in range(5)}  # clicked, but no row counts


def test_a_session_that_clicks_too_often_is_dropped_whole_repeats_included():
    rows = [("q", "t", 1)] * 5
    assert session(*rows, clicks=5)[1] == {cleaning.REPEATED: 4}
    pairs, dropped = session(*rows, clicks=4)
    assert (pairs, dropped) == ({("q", "t"): (1, 0, 1000)}, {cleaning.MANY_CLICKS: 5})


ROWS = st.lists(
    st.builds(
        LogRow, st.sampled_from(["a", "A", "b", "c d"]), st.sampled_from(["t", "T!", "u"]),
        st.integers(0, 3), session=st.sampled_from(["", "s1", "s2"]),
    ),
    max_size=30,
)  # fmt: skip


@given(ROWS, st.integers(0, 30))
def test_cleaning_a_session_does_not_depend_on_how_its_rows_were_cut(rows, cut):
    def cleaned(*counters: RowCounter):
        dropped: Counter[str] = Counter()
        found = {}
        for name in ("s1", "s2"):
            blocks = [one.sessions[name] for one in counters if name in one.sessions]
            for texts, counts in clean_session(blocks, 2, 9, dropped, FOLDED):
                found[name, texts] = counts
        return found, dropped

    assert cleaned(count(*rows)) == cleaned(count(*rows[:cut]), count(*rows[cut:]))


@given(ROWS)
def test_every_row_of_a_session_is_kept_or_counted_as_dropped(rows):
    counter = count(*rows)
    dropped: Counter[str] = Counter()
    kept = sum(
        counts[1]
        for pairs in counter.sessions.values()
        for _, counts in clean_session([pairs], 2, 9, dropped, FOLDED)
    )
    assert kept + sum(dropped.values()) == sum(1 for row in rows if row.session)
