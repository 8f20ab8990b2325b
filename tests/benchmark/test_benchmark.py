"""`dssm benchmark` from files to table, on colours and things."""

from __future__ import annotations

import random
import re

import numpy as np
import polars as pl
import pytest

from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.significance import holm, paired_t_test
from dssm_tf.reports.formatting import significantly_worse
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.trec import read_run
from tests.benchmark.colours import (
    METRICS,
    RANDOM,
    TITLES,
    run_command,
    with_prior,
)


def test_every_row_is_there_in_order(written):
    assert list(written["systems"]) == [
        "popularity", *with_prior("bm25", "tfidf"), "broken",
        *with_prior("bm25.b=0", "bm25.b=1", RANDOM, "theirs"),
        f"bm25+{RANDOM}+prior", f"bm25+{RANDOM}", "bm25+broken",
    ]  # fmt: skip


def test_a_failing_system_stops_nobody_and_is_named_with_its_reason(done, written, folder):
    *_, line = done[2].splitlines()
    assert line.startswith("dssm benchmark: 2 of 17 rows failed: broken, bm25+broken; the reasons")
    assert done[1].splitlines()[-1].split()[1:4] == ["bm25+broken", "|", "failed"]
    entry = written["systems"]["broken"]
    assert "Set negatives.in_batch or negatives.fresh" in entry["error"]
    assert "map" not in entry
    assert written["systems"]["bm25+broken"]["error"] == "its member broken has no result"
    assert re.search(r"broken +\| +failed", done[1])
    assert done[1].index("broken failed: negatives: ") < done[1].rindex("System")
    assert "- broken failed: negatives" in (folder / "out" / "report.md").read_text()


def test_cross_validated_values_are_those_of_the_chosen_parameters_on_the_other_half(
    done, written, folder
):
    result = done[0]
    corpus = read_corpus(folder / "corpus.tsv")
    fitted = BASELINES["bm25"]().fit([], [one.title for one in corpus])
    chosen = written["systems"]["bm25"]["about"][0]["chosen"]
    space = BASELINES["bm25"].search_space
    grid = [{"k1": k1, "b": b} for k1 in space["k1"] for b in space["b"]]
    rankers = {str(place): fitted.with_parameters(**one) for place, one in enumerate(grid)}
    judgments = read_judgments(folder / "judgments.tsv")
    values = evaluate(rankers, judgments, corpus, metrics=["map"]).values
    table = np.array([values[str(place)]["map"] for place in range(len(grid))])
    counted = ~np.isnan(table[0])
    expected = np.full(table.shape[1], np.nan)
    for half in (0, 1):
        own, other = (counted & (result.half == h) for h in (half, 1 - half))
        best = int(np.argmax(table[:, other].mean(axis=1).round(9)))
        assert chosen[half]["values"] == grid[best]
        expected[own] = table[best, own]
    (bm25,) = (row for row in result.rows if row.name == "bm25")
    assert bm25.values("map") == pytest.approx(expected, nan_ok=True, abs=1e-6)


def test_a_swept_parameter_is_not_tuned(written):
    for value in (0, 1):
        entry = written["systems"][f"bm25.b={value}"]
        assert entry["sweep"] == {"key": "b", "value": value}
        assert all(set(half["values"]) == {"k1"} for half in entry["about"][0]["chosen"])


def test_random_systems_have_a_spread_over_seeds_and_others_have_none(done, written):
    entry = written["systems"][RANDOM]
    assert [one["seed"] for one in entry["about"]] == [0, 1]
    a, b = entry["seeds"]["map"]
    assert a != b
    assert entry["map"] == pytest.approx((a + b) / 2)
    # of two numbers, the sample's standard deviation is their distance over sqrt(2)
    assert entry["spread"]["map"] == pytest.approx(abs(a - b) / np.sqrt(2))
    assert written["systems"]["bm25"]["spread"]["map"] is None
    assert len(written["systems"][f"bm25+{RANDOM}+prior"]["seeds"]["map"]) == 2
    assert re.search(rf"{re.escape(RANDOM)} .*\d\.\d{{3}}.* ±\.\d{{3}}", done[1])


def test_tests_are_paired_on_means_over_seeds_and_adjusted_over_the_whole_table(done, written):
    result = done[0]
    # Without the prior: popularity, bm25, tfidf, bm25.b twice, doc2vec, theirs and a hybrid;
    # the six that are not named by --against meet both of those that are, and these two meet.
    # With it: bm25+prior meets the five of the others and the hybrid. Each meets its own.
    assert len(written["tests"]) == (6 * 2 + 1 + 6 + 6) * len(METRICS)
    tested = {(test["a"], test["b"]) for test in written["tests"]}
    assert ("tfidf+prior", "tfidf") in tested
    for pair in tested - {(f"{name}+prior", name) for name in written["systems"]}:
        assert len({one.endswith("+prior") for one in pair}) == 1
    per_row = {row.name: row for row in result.measured_rows}
    p = []
    for test in written["tests"]:
        a, b = (per_row[test[side]].values(test["metric"]) for side in "ab")
        difference = (a - b)[~np.isnan(a)]
        assert test["difference"] == pytest.approx(difference.mean())
        assert test["p"] == pytest.approx(paired_t_test(difference)[0])
        assert test["ci95"][0] <= test["difference"] + 1e-9
        p.append(test["p"])
    assert [test["p_adjusted"] for test in written["tests"]] == pytest.approx(holm(p).tolist())


def figures(result) -> dict:
    """All that was measured, by the texts of queries: values, tests, what was chosen."""
    queries = list(result.task.queries)
    values = {
        row.name: [{m: one.values[m].to_list() for m in METRICS} for one in row.seeds]
        for row in result.rows
    }
    chosen = [one.about.get("chosen") for row in result.rows for one in row.seeds]
    return {"queries": queries, "values": values, "tests": result.comparisons, "chosen": chosen}


def rounded(number: re.Match[str]) -> str:
    """Sums in another order differ in their last digit."""
    return f"{float(number[0]):.12g}"


def test_no_figure_of_a_benchmark_depends_on_the_order_of_rows_or_on_ids(folder, tmp_path):
    draw = random.Random(1)
    header, *rows = (folder / "clicks.tsv").read_text().splitlines()
    ids = [f"d{n:02d}" for n in range(len(TITLES))]
    found = []
    for turn in ("one", "other"):
        here = tmp_path / turn
        here.mkdir()
        half = len(rows) // 2
        for name, part in (("a.tsv", rows[:half]), ("b.tsv", rows[half:])):
            (here / name).write_text("\n".join([header, *part]) + "\n")
        corpus = [f"{one}\t{title}" for one, title in zip(ids, TITLES, strict=True)]
        draw.shuffle(corpus)
        (here / "corpus.tsv").write_text("doc_id\ttitle\n" + "\n".join(corpus) + "\n")
        table, *judgments = (folder / "judgments.tsv").read_text().splitlines()
        new_ids = {f"d{n:02d}": one for n, one in enumerate(ids)}
        judgments = ["\t".join(new_ids.get(cell, cell) for cell in row.split("\t"))
                     for row in judgments]  # fmt: skip
        if turn == "other":
            judgments.reverse()
        (here / "judgments.tsv").write_text("\n".join([table, *judgments]) + "\n")
        result, *_ = run_command(
            "--clicks", str(here / "[ab].tsv"), "--judgments", str(here / "judgments.tsv"),
            "--corpus", str(here / "corpus.tsv"),
            "--systems", "popularity,bm25,wtm", "--hybrid", "bm25+prior,bm25+wtm",
            "--metrics", ",".join(METRICS), "--tune", "ndcg@1", "--out", str(here / "out"),
        )  # fmt: skip
        found.append(figures(result))
        draw.shuffle(rows)
        draw.shuffle(ids)
    one, other = (re.sub(r"\d\.\d+(e-?\d+)?", rounded, str(one)) for one in found)
    assert one == other  # as text, for a NaN is not equal to itself


def test_superscripts_name_the_systems_that_are_beaten(done, folder):
    result, shown, _ = done
    won = {row.name: significantly_worse(result, row.name, "map") for row in result.measured_rows}
    assert won["bm25"] == ["popularity"]  # which knows no query
    assert re.search(r"bm25 ᵃ .*0\.\d{3}(\*\*)?ᵇ", shown)
    assert "significantly better than ᵃ bm25, ᵇ popularity" in re.sub(r"\s+", " ", shown)
    assert "</html>" in (folder / "out" / "report.html").read_text("utf-8")


def test_popularity_ranks_every_query_by_clicks(done, folder):
    run = read_run(folder / "out" / "runs" / "popularity.trec")
    ids = {title: f"d{n:02d}" for n, title in enumerate(TITLES)}
    clicks = dict.fromkeys(ids.values(), 0)
    for line in (folder / "clicks.tsv").read_text().splitlines()[1:]:
        _, title, count = line.split("\t")
        clicks[ids[title]] += int(count)
    for scores in run.values():
        ranked = sorted(scores, key=lambda one: -scores[one])
        assert [clicks[one] for one in ranked] == sorted(clicks.values(), reverse=True)


def test_other_peoples_runs_stand_in_the_same_table(written):
    # The run lists the right title for every second query, 15 of 30.
    assert written["systems"]["theirs"]["ndcg@1"] == pytest.approx(0.5)
    assert "16 judged queries are not listed" in written["systems"]["theirs"]["notes"][0]


def test_costs_are_told(written):
    entry, bm25 = (written["systems"][name] for name in (RANDOM, "bm25"))
    for one in (entry, bm25):
        assert one["training_seconds"] > 0
        assert one["megabytes"] > 1e-4
        assert 0 < one["microseconds_per_query"] < 1e8


def test_queries_the_log_does_not_hold_are_reported_apart(done, written, folder):
    result = done[0]
    logged = {line.split("\t")[0] for line in (folder / "clicks.tsv").read_text().splitlines()[1:]}
    counted = [query for query in result.task.queries if query != "purple"]
    assert written["queries"] == {
        "measured": 30,
        "left_out": 1,
        "new": sum(query not in logged for query in counted),
    }
    assert "## Queries that are not in the log" in (folder / "out" / "report.md").read_text()


def test_every_mean_has_an_interval_and_few_queries_are_said_to_be_few(done, written):
    for entry in written["systems"].values():
        for metric, (low, high) in entry.get("ci95", {}).items():
            assert 0 <= low <= entry[metric] <= high <= 1
    shown = " ".join(done[1].split())
    assert "The means rest on 30 queries, fewer than 200" in shown
    assert re.search(r"another seed moves \S+ by [\d.]+ to [\d.]+ here", shown)
    assert re.search(r"chosen on halves, the smaller of \d+ queries, fewer than 200", shown)
    assert [*written["settings"]["inputs"]] == ["clicks", "judgments", "corpus"]
    assert "tensorflow" in written["settings"]["versions"]


def test_values_are_written_query_by_query(done, folder):
    result = done[0]
    written = pl.read_csv(
        folder / "out" / "per_query.tsv", separator="\t", infer_schema_length=None
    )
    found = written.filter(system=RANDOM)
    assert set(found["half"].drop_nulls()) == {1, 2}
    ids = list(result.task.query_ids)
    assert found["query_id"].to_list() == [*ids, *ids]
    assert found["seed"].to_list() == [0] * len(ids) + [1] * len(ids)
    assert found.filter(query="purple")["map"].to_list() == [None, None]  # no relevant title
    means = found.group_by("query_id", maintain_order=True).agg(pl.col("map").mean())["map"]
    expected = np.nan_to_num(result.values[RANDOM]["map"], nan=-1)
    assert means.fill_null(-1).to_numpy() == pytest.approx(expected)


def test_every_seed_has_a_run_file_that_measures_as_reported(written, folder):
    names = {path.name for path in (folder / "out" / "runs").iterdir()}
    assert {"bm25.trec", "doc2vec.size_4.trec", "doc2vec.size_4.seed1.trec"} <= names
    judgments = read_judgments(folder / "judgments.tsv")
    runs = {
        "0": read_run(folder / "out" / "runs" / "doc2vec.size_4.trec"),
        "1": read_run(folder / "out" / "runs" / "doc2vec.size_4.seed1.trec"),
    }
    again = evaluate({}, judgments, read_corpus(folder / "corpus.tsv"), runs=runs, metrics=METRICS)
    for seed in ("0", "1"):
        expected = written["systems"][RANDOM]["seeds"]["map"][int(seed)]
        assert again.mean(seed, "map") == pytest.approx(expected, abs=1e-6)
