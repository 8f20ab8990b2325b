"""Remembered clicks: the formula, what is stored, and that all interfaces show the same score."""

from __future__ import annotations

import json
import shutil

import numpy as np
import polars as pl
import pytest
from pytest import approx

from dssm_tf.analysis.explanation import explain
from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.export.compact import set_remembered_clicks
from dssm_tf.retrieval import remember
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.remember import remember_clicks
from dssm_tf.runtime import load
from dssm_tf.runtime.remembered_clicks import REMEMBERED_CLICKS, RememberedClicks, query_hash
from dssm_tf.runtime.search_rules import read_rules
from dssm_tf.tables.click_log import LogRow, log_frame
from dssm_tf.tables.judgments import write_corpus
from tests.reference.remembered_clicks import with_clicks
from tests.retrieval.maxsim.conftest import CORPUS, hits_of, ids

pytest.importorskip("numba")

QUERY = "red shoe"
MU, GAMMA = 3.0, 10.0


@pytest.fixture(scope="module")
def titles(index):
    """The distinct titles with a word, by their keys."""
    keys = dict.fromkeys(map(index.model.vocabulary.rules.key, (row.title for row in CORPUS)))
    return [key for key in keys if key]


@pytest.fixture(scope="module")
def clicked(titles):
    """Two titles that are not the best ones, with their clicks."""
    return {titles[-1]: 12, titles[3]: 2}


def rows_of(clicks, query=QUERY, **columns):
    return log_frame(LogRow(query, title, count, **columns) for title, count in clicks.items())


@pytest.fixture(scope="module")
def remembered(index, clicked):
    """The index with the clicks; few queries are known, so `mu` is not chosen."""
    clicks = remember_clicks(index, rows_of(clicked)).clicks
    assert clicks is not None
    return index.with_remembered_clicks(clicks._replace(mu=MU))


def test_scores_equal_the_formula_in_float64(index, remembered, titles, clicked):
    plain = index.model.score(QUERY, titles).astype(float)
    found = {index.model.vocabulary.rules.key(hit.title) for hit in hits_of(index, QUERY, 100)}
    # The softmax is over the titles that the search finds, and those with clicks.
    normalized = {
        title: score
        for title, score in zip(titles, plain, strict=True)
        if title in found | {*clicked}
    }
    expected = with_clicks(normalized, clicked, MU, GAMMA)
    scores = dict(zip(titles, remembered.model.score(QUERY, titles), strict=True))
    assert {title: scores[title] for title in expected} == approx(expected, abs=1e-5)
    for hit in hits_of(remembered, QUERY, 100):
        key = index.model.vocabulary.rules.key(hit.title)
        assert hit.score == approx(expected[key], abs=1e-5)
        assert sum(hit.exact_parts().values()) == approx(hit.score, abs=1e-5)
        assert (hit.exact_parts()["remembered_clicks"] > 0) == (key in clicked)


def test_a_value_derived_by_hand():
    # Two titles of scores ln 3 and 0 and gamma 1: p = 3/4 and 1/4. With mu 4 and 2 clicks on the
    # second title: ln(1 + 2 / (4 * 1/4)) = ln 3, so both titles tie, as (0 + 3) = (2 + 1).
    none = np.zeros(0, np.int64)
    clicks = RememberedClicks(none, np.zeros(1, np.int64), none, none, np.zeros(0), 4.0, 1.0)
    added = clicks.added(np.array([0, 2]), np.array([np.log(3), 0.0]), np.log(4))
    assert added == approx([0, np.log(3)])


def test_other_queries_keep_their_scores(index, remembered):
    for query in ("shoe red", "red shoes", "blue lid", "", "red"):
        expected = [(hit.doc_id, hit.score) for hit in hits_of(index, query)]
        assert [(hit.doc_id, hit.score) for hit in hits_of(remembered, query)] == expected


def test_spelling_of_the_query_as_the_text_rules_read_it_does_not_matter(remembered):
    assert ids(hits_of(remembered, "RED, shoe!")) == ids(hits_of(remembered, QUERY))


def test_a_clicked_title_without_a_similar_word_is_found(index, remembered, titles, clicked):
    clicks = remember_clicks(index, rows_of({titles[0]: 50}, "walla walla")).clicks
    found = hits_of(index.with_remembered_clicks(clicks), "walla walla")
    assert index.model.vocabulary.rules.key(found[0].title) == titles[0]
    assert found[0].remembered_score > 0
    assert found[0].exact_parts()["query_words"] >= 0


def test_pins_and_blocks_are_stronger(index, remembered, clicked, tmp_path):
    first = hits_of(remembered, QUERY)[0]
    key = index.model.vocabulary.rules.key
    assert key(first.title) == max(clicked, key=clicked.__getitem__)
    other = hits_of(remembered, QUERY)[-1]
    text = f"block\t{QUERY}\t{first.doc_id}\npin\t{QUERY}\t{other.doc_id}\n"
    (tmp_path / "rules.tsv").write_text(text, "utf-8")
    model = remembered.model.with_rules(read_rules(tmp_path / "rules.tsv", index.model.vocabulary))
    ruled = MaxSimIndex.build(model, CORPUS)
    hits = hits_of(ruled, QUERY, 100)
    assert hits[0].doc_id == other.doc_id
    assert first.doc_id not in ids(hits)


def test_a_filter_applies_to_clicked_titles(remembered, index):
    first = hits_of(remembered, QUERY)[0]
    allowed = [entry.doc_id != first.doc_id for entry in CORPUS]
    assert first.doc_id not in ids(hits_of(remembered, QUERY, allowed=index.filter(allowed)))


def test_explanations_name_the_clicks_and_their_part(remembered, clicked):
    title = max(clicked, key=clicked.__getitem__)
    explanation = explain(remembered.model, QUERY, title)
    assert explanation.score == approx(remembered.model.score(QUERY, [title])[0], abs=1e-5)
    added = remembered.model.remembered_score(QUERY, [title])[0]
    sentence = f"Of 14 remembered clicks of this query, 12 were on this title ({added:+.3f})."
    assert sentence in explanation.sentences()
    assert f"remembered clicks {added:+.3f}" in explanation.score_breakdown()
    assert "clicks" not in " ".join(explain(remembered.model, "red", title).sentences())
    (hit,) = [hit for hit in hits_of(remembered, QUERY) if hit.title.lower() == title]
    assert f"remembered clicks {added:+.3f}" in hit.score_breakdown()


def test_only_queries_of_enough_sessions_are_remembered(index, titles):
    def rows(query, sessions, clicks=1):
        return [LogRow(query, titles[0], clicks, session=name) for name in sessions]

    names = [f"s{number}" for number in range(10)]
    log = log_frame(
        [
            *rows("often", names, clicks=7),
            *rows("rare", names[:9], clicks=100),
            *rows("again", ["s0"] * 50),
            LogRow("anonymous", titles[0], 1000),
        ]
    )
    clicks = remember_clicks(index, log).clicks
    assert clicks is not None
    assert clicks.queries.tolist() == [query_hash(["often"])]
    assert clicks.clicks.tolist() == [10]  # a session counts once
    assert remember_clicks(index, log, 11).clicks is None
    assert "no query has 11 sessions" in remember_clicks(index, log, 11).summary


def test_without_sessions_clicks_are_counted(index, titles):
    log = pl.concat(
        [rows_of({titles[0]: 6, titles[1]: 4}, "often"), rows_of({titles[0]: 9}, "rare")]
    )
    clicks = remember_clicks(index, log).clicks
    assert clicks is not None
    assert clicks.queries.tolist() == [query_hash(["often"])]


def test_titles_are_found_by_their_id_or_else_by_their_text(index, titles):
    log = log_frame(
        [
            LogRow(QUERY, "an old title", 10, doc_id=CORPUS[0].doc_id),
            LogRow(QUERY, CORPUS[1].title.upper(), 10),
            LogRow(QUERY, "no title of the corpus", 10, doc_id="gone"),
        ]
    )
    clicks = remember_clicks(index, log).clicks
    assert clicks is not None
    key = index.model.vocabulary.rules.id
    assert {*clicks.titles.tolist()} == {key(CORPUS[0].title), key(CORPUS[1].title)}


def test_clicks_on_titles_that_the_corpus_lacks_are_counted(index, titles):
    log = log_frame(
        [
            LogRow(QUERY, "an old title", 10, doc_id=CORPUS[0].doc_id),
            LogRow(QUERY, "no title of the corpus", 3, doc_id="gone"),
            LogRow(QUERY, "another title", 4),
            LogRow(QUERY, "never clicked", 0),
            LogRow("?!", titles[0], 2),
        ]
    )
    assert remember_clicks(index, log).notes == [
        "7 of 19 clicks were left out: the corpus has neither their doc_id nor their title, such "
        "as 'another title', 'no title of the corpus' (doc_id gone)",
        "2 of 19 clicks were left out: their query has no word, such as '?!'",
    ]
    assert remember_clicks(index, rows_of({titles[0]: 12})).notes == []


def test_a_log_without_a_title_of_the_corpus_is_named_as_the_reason(index):
    result = remember_clicks(index, rows_of({"no title of the corpus": 50}))
    assert result.clicks is None
    assert "no query with a word has a click on a title of the corpus" in result.summary
    assert "50 of 50 clicks were left out" in result.notes[0]


def test_ids_of_the_corpus_are_stripped(ranker):
    index = MaxSimIndex.build(ranker, [CORPUS[0]._replace(doc_id=" d0 "), CORPUS[1]])
    result = remember_clicks(index, log_frame([LogRow(QUERY, "an old title", 12, doc_id="d0")]))
    assert result.notes == []
    assert result.clicks.titles.tolist() == [index.model.vocabulary.rules.id(CORPUS[0].title)]


def test_one_blank_timestamp_is_named_as_the_reason_for_a_random_part(index, titles):
    queries = [f"{title} {number}" for number in range(5) for title in titles[:10]]
    rows = [
        LogRow(query, titles[-1], 1, timestamp=f"2020-01-01 00:00:{second:02d}")
        for second in range(30)
        for query in queries
    ]
    unclicked = [LogRow(QUERY, titles[0], 0)]
    assert "on the latest fifth" in remember_clicks(index, log_frame(rows + unclicked)).summary
    rows[7] = rows[7]._replace(timestamp="")
    assert (
        "on a random fifth of the clicks, because 1 of 1,350 clicks has no timestamp"
        in remember_clicks(index, log_frame(rows)).summary
    )


@pytest.mark.parametrize("has_times", [True, False])
def test_mu_is_chosen_on_later_or_held_out_clicks(index, titles, monkeypatch, has_times):
    # 50 queries whose clicks are always on the last title: few clicks of the model count.
    queries = [f"{title} {number}" for number in range(5) for title in titles[:10]]
    rows = []
    for number in range(400):
        time = f"2020-01-01 00:{number // 60:02d}:{number % 60:02d}" if has_times else ""
        rows += [LogRow(query, titles[-1], 1, timestamp=time) for query in queries]
    monkeypatch.setattr(remember, "MUS", (1.0, 1e9))
    result = remember_clicks(index, log_frame(rows))
    assert result.clicks is not None
    assert result.clicks.mu == 1.0
    expected = "the latest fifth" if has_times else "because the log has no times"
    assert expected in result.summary
    assert "NDCG@10 of known queries 1.0000" in result.summary


def test_clicks_that_do_not_help_are_not_remembered(index, titles):
    # The best title of each query gets the later clicks, another title the earlier ones.
    queries = [f"{title} {number}" for number in range(5) for title in titles[:10]]
    rows = []
    for query in queries:
        best = hits_of(index, query)[0].title
        other = next(title for title in titles if title != index.model.vocabulary.rules.key(best))
        rows += [LogRow(query, other, 10, timestamp="2020-01-01")] * 8
        rows += [LogRow(query, best, 10, timestamp="2020-01-02")] * 2
    result = remember_clicks(index, log_frame(rows))
    assert result.clicks is None
    assert "because they are worse" in result.summary


# --------------------------------------------------------------------------- files


@pytest.fixture(scope="module")
def saved(remembered, model_directory, tmp_path_factory):
    folder = tmp_path_factory.mktemp("remembered")
    shutil.copytree(model_directory, folder / "model")
    set_remembered_clicks(folder / "model", remembered.model.remembered_clicks)
    remembered.write(folder)
    return folder


def test_a_saved_index_gives_the_same_results(saved, remembered, clicked):
    opened = MaxSimIndex.open(saved)
    expected = [(hit.doc_id, hit.score, hit.remembered_score) for hit in hits_of(remembered, QUERY)]
    assert [
        (hit.doc_id, hit.score, hit.remembered_score) for hit in hits_of(opened, QUERY)
    ] == expected
    title = next(iter(clicked))
    assert load(saved / "model").score(QUERY, [title]) == remembered.model.score(QUERY, [title])


def test_the_files_have_hashes_and_counts_and_no_text_of_a_query(saved, remembered):
    with np.load(saved / "model" / REMEMBERED_CLICKS) as arrays:
        assert {*arrays} == {*RememberedClicks._fields}
        assert all(array.dtype.kind in "if" for array in arrays.values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mu": np.float64(0)}, "mu is .*; expected a number above 0"),
        ({"clicks": np.zeros(2, np.int64)}, "a number of clicks is below 1"),
        ({"starts": np.array([0, 3])}, "do not fit together"),
        ({"log_sums": np.array([np.nan])}, "log_sums does not have"),
    ],
)
def test_impossible_values_are_errors(saved, tmp_path, remembered, changes, message):
    shutil.copytree(saved / "model", tmp_path / "model")
    clicks = remembered.model.remembered_clicks._replace(**changes)
    set_remembered_clicks(tmp_path / "model", clicks)
    with pytest.raises(UserError, match=message):
        load(tmp_path / "model")


def test_the_command_counts_rows_that_it_cannot_use(model_directory, tmp_path, capsys, clicked):
    write_corpus(tmp_path / "corpus.tsv", CORPUS)
    rows = "".join(f"{QUERY}\t{title}\t1\n" for title in clicked) * 10
    rows += f"{QUERY}\tno title of the corpus\t5\n{QUERY}\t\t1\n"
    (tmp_path / "clicks.tsv").write_text(f"query\ttitle\tclicks\n{rows}", "utf-8")
    flags = ["--model", model_directory, "--corpus", tmp_path / "corpus.tsv"]
    flags += ["--clicks", tmp_path / "clicks.tsv", "--out", tmp_path / "index"]
    assert main(["index", *map(str, flags)]) == 0
    lines = capsys.readouterr().err
    assert "rejected: 1 " in lines
    assert "5 of 25 clicks were left out: the corpus has neither" in lines


def test_the_command_remembers_a_log(model_directory, tmp_path, capsys, clicked):
    write_corpus(tmp_path / "corpus.tsv", CORPUS)
    rows = "".join(f"{QUERY}\t{title}\t{count}\n" for title, count in clicked.items())
    (tmp_path / "clicks.tsv").write_text(f"query\ttitle\tclicks\n{rows}", "utf-8")
    flags = ["--model", model_directory, "--corpus", tmp_path / "corpus.tsv"]
    flags += ["--clicks", tmp_path / "clicks.tsv", "--out", tmp_path / "index"]
    assert main(["index", *map(str, flags)]) == 0
    assert "1 queries with at least 10 clicks" in capsys.readouterr().err
    assert main(["search", QUERY, "--index", str(tmp_path / "index"), "--format", "json"]) == 0
    hits = json.loads(capsys.readouterr().out)["rankings"]["semantic"]
    assert hits[0]["parts"]["remembered_clicks"] > 0
    for hit in hits:
        assert sum(hit["parts"].values()) == approx(hit["score"], abs=1e-5)
