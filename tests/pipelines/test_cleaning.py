"""Bots, spam, repeats and blocked queries leave the log, each counted."""

from __future__ import annotations

from collections import Counter, defaultdict

import polars as pl
from apache_beam.pvalue import TaggedOutput
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.positions.curve import ExaminationCurve
from dssm_tf.tables.click_log import SCHEMA, LogRow
from dssm_tf.text.columns import fingerprints
from dssm_tf.text.rules import FOLDED
from pipelines.frames import BlockList, Part, Settings, as_ipc
from pipelines.options import PreprocessOptions
from pipelines.transforms import clean_sessions, sum_rows

TEXTS = ["a", "b", "c d", "t", "u", "q", "good", "title"]
OF = dict(zip(fingerprints(pl.Series(TEXTS)).to_list(), TEXTS, strict=True))


def settings(block: str = "", **limits) -> Settings:
    options = PreprocessOptions(("log",), "out", **limits)
    return Settings(options, 0, "", None, BlockList.parse(block, FOLDED))


def sent(steps):
    """Rows of pairs, texts and visits by output, and counts."""
    found, counts = defaultdict(list), Counter()
    for one in steps:
        tag, value = (one.tag, one.value) if isinstance(one, TaggedOutput) else ("", one)
        if tag == "counts":
            counts.update(value)
        else:
            part = value[1]
            found[f"{part.kind} {tag}".strip()] += part.frame.rows(named=True)
    return found, {name.removeprefix("dropped: "): n for name, n in counts.items()}


def summed(*rows: LogRow, block: str = "", propensities=(1.0,)):
    frame = pl.DataFrame(rows, schema=pl.Schema(SCHEMA), orient="row")
    curve = ExaminationCurve(propensities)
    weight = pl.lit(curve.weight(frame["position"].to_numpy(), 10))
    rows = frame.with_columns(weighted=pl.col("clicks") * weight)
    return sent(sum_rows(rows.drop("impressions", "timestamp", "position"), settings(block)))


def cleaned(*visits, queries=2, clicks=9):
    """What becomes of the visits of some pieces."""
    limits = {"max_queries_per_session": queries, "max_clicks_per_session": clicks}
    frames = [pl.DataFrame(some, infer_schema_length=None) for some in visits if some]
    kinds = dict.fromkeys("qts", pl.UInt64)
    parts = [Part("visits", as_ipc(frame.cast(kinds))) for frame in frames]
    found, counts = sent(clean_sessions((0, parts), settings(**limits)))
    counts.pop("sessions: in all")
    return found, counts


def pairs(found):
    """Clicks, rows, weighted clicks and robots' clicks of each pair."""
    return {(OF[one["q"]], OF[one["t"]]): tuple(one.values())[2:] for one in found["pairs"]}


def test_a_block_list_drops_queries_with_a_word_and_whole_queries():
    blocks = BlockList.parse("Casino\n# poker\nfree  money\n=halo\n\n", FOLDED).blocks
    dropped = ["online casino bonus", "free money", "halo"]
    kept = ["free money now", "halo reach", "poker", "casinos"]
    assert blocks(pl.Series([*dropped, *kept])).to_list() == [True] * 3 + [False] * 4


def test_rows_without_a_word_and_blocked_rows_are_counted_apart():
    found, dropped = summed(
        LogRow("!!", "a"), LogRow("a", "?"), LogRow("bad thing", "a"), LogRow("bad thing", "a"),
        LogRow("Good", "Title", 3), block="bad",
    )  # fmt: skip
    assert pairs(found) == {("good", "title"): (3, 1, 3000, 0)}
    assert dropped == {"no words": 2, "blocked": 2}
    texts = [(one["text"], one["clicks"]) for one in (*found["texts"], *found["texts titles"])]
    assert texts == [("Good", 3), ("Title", 3)]


def test_of_a_session_the_click_that_counts_keeps_its_weight():
    rows = [LogRow("q", "t", 1, session="s", position=at) for at in (3, 1, 2)]
    found, _ = summed(*rows, propensities=(1.0, 0.5, 0.2))
    found, dropped = cleaned(found["visits sessions"])
    assert pairs(found) == {("q", "t"): (1, 1, 5000, 0)}
    assert dropped == {"repeated in session": 2}


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
    whole, *parts = (summed(*some)[0]["visits sessions"] for some in (rows, rows[cut:], rows[:cut]))
    assert cleaned(*parts) == cleaned(whole)


@given(ROWS)
def test_every_row_of_a_session_is_kept_or_counted_as_dropped(rows):
    found, dropped = cleaned(summed(*rows)[0]["visits sessions"])
    kept = sum(rows for _, rows, *_ in pairs(found).values())
    assert kept + sum(dropped.values()) == len(rows)
