"""`dssm benchmark` from files to table, on a small log of colored things."""

from __future__ import annotations

import random
import re

import numpy as np
import polars as pl
import pytest

from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.significance import holm, paired_t_test
from dssm_tf.reports.formatting import systems_significantly_worse_than
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.trec import read_run
from tests.benchmark.colors import (
    METRICS,
    RANDOM,
    TITLES,
    run_command,
    with_prior,
)


def test_metrics_list_every_row_in_table_order(metrics):
    assert list(metrics["systems"]) == [
        "popularity", *with_prior("bm25", "tfidf"), "broken",
        *with_prior("bm25.b=0", "bm25.b=1", RANDOM, "theirs"),
    ]  # fmt: skip


def test_a_failed_system_is_reported_with_its_reason_and_the_others_are_measured(
    benchmark_output, metrics, folder
):
    *_, line = benchmark_output[2].splitlines()
    assert line.startswith("dssm benchmark: 1 of 14 rows failed: broken. The reasons")
    entry = metrics["systems"]["broken"]
    assert "Set negatives.in_batch or negatives.fresh" in entry["error"]
    assert "map" not in entry
    assert "broken+prior" not in metrics["systems"]
    assert re.search(r"broken +\| +failed", benchmark_output[1])
    assert benchmark_output[1].index("broken failed: negatives: ") < benchmark_output[1].rindex(
        "System"
    )
    assert "- broken failed: negatives" in (folder / "out" / "report.md").read_text()


def test_values_of_each_fold_use_the_parameters_that_are_best_on_the_other_fold(
    benchmark_output, metrics, folder
):
    result = benchmark_output[0]
    corpus = read_corpus(folder / "corpus.tsv")
    fitted = BASELINES["bm25"]().fit([], [row.title for row in corpus])
    chosen = metrics["systems"]["bm25"]["facts"][0]["chosen"]
    space = BASELINES["bm25"].search_space
    grid = [{"k1": k1, "b": b} for k1 in space["k1"] for b in space["b"]]
    rankers = {str(index): fitted.with_parameters(**grid[index]) for index in range(len(grid))}
    judgments = read_judgments(folder / "judgments.tsv")
    values = evaluate(rankers, judgments, corpus, metrics=["map"]).values
    table = np.array([values[str(index)]["map"] for index in range(len(grid))])
    counted = ~np.isnan(table[0])
    expected = np.full(table.shape[1], np.nan)
    for fold in (0, 1):
        in_fold, in_other_fold = (counted & (result.fold == number) for number in (fold, 1 - fold))
        best = int(np.argmax(table[:, in_other_fold].mean(axis=1).round(9)))
        assert chosen[fold]["values"] == grid[best]
        expected[in_fold] = table[best, in_fold]
    (bm25,) = (row for row in result.rows if row.name == "bm25")
    assert bm25.values("map") == pytest.approx(expected, nan_ok=True, abs=1e-6)


def test_a_swept_parameter_is_not_tuned(metrics):
    for value in (0, 1):
        entry = metrics["systems"][f"bm25.b={value}"]
        assert entry["sweep"] == {"key": "b", "value": value}
        assert all(set(choice["values"]) == {"k1"} for choice in entry["facts"][0]["chosen"])


def test_random_systems_have_a_spread_over_seeds_and_others_have_none(benchmark_output, metrics):
    entry = metrics["systems"][RANDOM]
    assert [facts["seed"] for facts in entry["facts"]] == [0, 1]
    a, b = entry["seeds"]["map"]
    assert a != b
    assert entry["map"] == pytest.approx((a + b) / 2)
    # The sample standard deviation of two numbers is their distance over sqrt(2).
    assert entry["spread"]["map"] == pytest.approx(abs(a - b) / np.sqrt(2))
    assert metrics["systems"]["bm25"]["spread"]["map"] is None
    assert len(metrics["systems"][f"{RANDOM}+prior"]["seeds"]["map"]) == 2
    assert re.search(rf"{re.escape(RANDOM)} .*\d\.\d{{3}}.* ±\.\d{{3}}", benchmark_output[1])


def test_tests_are_paired_on_means_over_seeds_and_adjusted_over_all_tests(
    benchmark_output, metrics
):
    result = benchmark_output[0]
    # Without the prior there are popularity, bm25, tfidf, bm25.b twice, doc2vec and theirs.
    # --against names two of them: each of the other five is tested against both (5 * 2), and the
    # two against each other (1). With the prior, bm25+prior is tested against five rows (5). Six
    # systems are tested with the prior against without (6).
    assert len(metrics["tests"]) == (5 * 2 + 1 + 5 + 6) * len(METRICS)
    tested = {(test["a"], test["b"]) for test in metrics["tests"]}
    assert ("tfidf+prior", "tfidf") in tested
    for row_pair in tested - {(f"{name}+prior", name) for name in metrics["systems"]}:
        assert len({name.endswith("+prior") for name in row_pair}) == 1
    per_row = {row.name: row for row in result.measured_rows}
    p = []
    for test in metrics["tests"]:
        a, b = (per_row[test[side]].values(test["metric"]) for side in "ab")
        difference = (a - b)[~np.isnan(a)]
        assert test["difference"] == pytest.approx(difference.mean())
        assert test["p"] == pytest.approx(paired_t_test(difference).p)
        assert test["ci95"][0] <= test["difference"] + 1e-9
        p.append(test["p"])
    assert [test["p_adjusted"] for test in metrics["tests"]] == pytest.approx(holm(p).tolist())


def comparable_results(result) -> dict:
    """Everything measured: the queries, their values, the tests, and the chosen parameters."""
    queries = list(result.task.queries)
    values = {
        row.name: [
            {metric: seed.values[metric].to_list() for metric in METRICS} for seed in row.seeds
        ]
        for row in result.rows
    }
    chosen = [seed.facts.get("chosen") for row in result.rows for seed in row.seeds]
    return {"queries": queries, "values": values, "tests": result.comparisons, "chosen": chosen}


def rounded(number: re.Match[str]) -> str:
    """Rounds to 12 digits, because the last digit depends on the order of sums."""
    return f"{float(number[0]):.12g}"


@pytest.mark.long
def test_a_benchmark_depends_neither_on_the_order_of_rows_nor_on_ids(folder, tmp_path):
    rng = random.Random(1)
    header, *rows = (folder / "clicks.tsv").read_text().splitlines()
    ids = [f"d{n:02d}" for n in range(len(TITLES))]
    results = []
    for order in ("first", "second"):
        directory = tmp_path / order
        directory.mkdir()
        middle = len(rows) // 2
        for name, lines in (("a.tsv", rows[:middle]), ("b.tsv", rows[middle:])):
            (directory / name).write_text("\n".join([header, *lines]) + "\n")
        corpus = [f"{doc_id}\t{title}" for doc_id, title in zip(ids, TITLES, strict=True)]
        rng.shuffle(corpus)
        (directory / "corpus.tsv").write_text("doc_id\ttitle\n" + "\n".join(corpus) + "\n")
        head, *judgments = (folder / "judgments.tsv").read_text().splitlines()
        new_ids = {f"d{n:02d}": doc_id for n, doc_id in enumerate(ids)}
        judgments = ["\t".join(new_ids.get(cell, cell) for cell in row.split("\t"))
                     for row in judgments]  # fmt: skip
        if order == "second":
            judgments.reverse()
        (directory / "judgments.tsv").write_text("\n".join([head, *judgments]) + "\n")
        result, *_ = run_command(
            "--clicks", str(directory / "[ab].tsv"), "--corpus", str(directory / "corpus.tsv"),
            "--judgments", str(directory / "judgments.tsv"),
            "--systems", "popularity,bm25,wtm",
            "--metrics", ",".join(METRICS), "--tune", "ndcg@1", "--out", str(directory / "out"),
        )  # fmt: skip
        results.append(comparable_results(result))
        rng.shuffle(rows)
        rng.shuffle(ids)
    # Compared as text because NaN is not equal to NaN.
    first, second = (re.sub(r"\d\.\d+(e-?\d+)?", rounded, str(result)) for result in results)
    assert first == second


def test_superscripts_name_the_systems_that_are_significantly_worse(benchmark_output, folder):
    result, output, _ = benchmark_output
    worse_systems = {
        row.name: systems_significantly_worse_than(result, row.name, "map")
        for row in result.measured_rows
    }
    assert worse_systems["bm25"] == ["popularity"]  # which ignores the query
    assert re.search(r"bm25 ᵃ .*0\.\d{3}(\*\*)?ᵇ", output)
    assert "significantly better than ᵃ bm25, ᵇ popularity" in re.sub(r"\s+", " ", output)
    assert "</html>" in (folder / "out" / "report.html").read_text("utf-8")


def test_popularity_ranks_every_query_by_clicks(benchmark_output, folder):
    run = read_run(folder / "out" / "runs" / "popularity.trec")
    ids = {title: f"d{n:02d}" for n, title in enumerate(TITLES)}
    clicks = dict.fromkeys(ids.values(), 0)
    for line in (folder / "clicks.tsv").read_text().splitlines()[1:]:
        _, title, count = line.split("\t")
        clicks[ids[title]] += int(count)
    for scores in run.values():
        ranked = sorted(scores, key=lambda doc_id: -scores[doc_id])
        assert [clicks[doc_id] for doc_id in ranked] == sorted(clicks.values(), reverse=True)


def test_runs_of_other_systems_are_rows_of_the_table(metrics):
    # The run lists the right title for every second query, 15 of 30.
    assert metrics["systems"]["theirs"]["ndcg@1"] == pytest.approx(0.5)
    assert "16 judged queries are not listed" in metrics["systems"]["theirs"]["notes"][0]


def test_metrics_include_costs(metrics):
    for system in (metrics["systems"][name] for name in (RANDOM, "bm25")):
        assert system["training_seconds"] > 0
        assert system["megabytes"] > 1e-4
        assert 0 < system["microseconds_per_query"] < 1e8


def test_queries_that_are_not_in_the_log_are_reported_separately(benchmark_output, metrics, folder):
    result = benchmark_output[0]
    logged = {line.split("\t")[0] for line in (folder / "clicks.tsv").read_text().splitlines()[1:]}
    counted = [query for query in result.task.queries if query != "purple"]
    assert metrics["queries"] == {
        "measured": 30,
        "left_out": 1,
        "new": sum(query not in logged for query in counted),
    }
    assert "## Queries that are not in the log" in (folder / "out" / "report.md").read_text()


def test_every_mean_has_an_interval_and_the_report_warns_of_few_queries(benchmark_output, metrics):
    for entry in metrics["systems"].values():
        for metric, (low, high) in entry.get("ci95", {}).items():
            assert 0 <= low <= entry[metric] <= high <= 1
    output = " ".join(benchmark_output[1].split())
    assert "The means are based on 30 queries, fewer than 200" in output
    assert re.search(r"another seed changes \S+ by [\d.]+ to [\d.]+ here", output)
    assert re.search(r"chosen on two folds, the smaller with \d+ queries, fewer than 200", output)
    assert [*metrics["settings"]["inputs"]] == ["clicks", "judgments", "corpus"]
    assert "tensorflow" in metrics["settings"]["versions"]


def test_a_file_has_the_values_per_query_and_seed(benchmark_output, folder):
    result = benchmark_output[0]
    table = pl.read_csv(folder / "out" / "per_query.tsv", separator="\t", infer_schema_length=None)
    rows = table.filter(system=RANDOM)
    assert set(rows["fold"].drop_nulls()) == {1, 2}
    ids = list(result.task.query_ids)
    assert rows["query_id"].to_list() == [*ids, *ids]
    assert rows["seed"].to_list() == [0] * len(ids) + [1] * len(ids)
    assert rows.filter(query="purple")["map"].to_list() == [None, None]  # no relevant title
    means = rows.group_by("query_id", maintain_order=True).agg(pl.col("map").mean())["map"]
    expected = np.nan_to_num(result.values[RANDOM]["map"], nan=-1)
    assert means.fill_null(-1).to_numpy() == pytest.approx(expected)


def test_the_run_file_of_every_seed_has_the_reported_values(metrics, folder):
    names = {path.name for path in (folder / "out" / "runs").iterdir()}
    assert {"bm25.trec", "doc2vec.size_4.trec", "doc2vec.size_4.seed1.trec"} <= names
    judgments = read_judgments(folder / "judgments.tsv")
    runs = {
        "0": read_run(folder / "out" / "runs" / "doc2vec.size_4.trec"),
        "1": read_run(folder / "out" / "runs" / "doc2vec.size_4.seed1.trec"),
    }
    evaluation = evaluate(
        {}, judgments, read_corpus(folder / "corpus.tsv"), runs=runs, metrics=METRICS
    )
    for seed in ("0", "1"):
        expected = metrics["systems"][RANDOM]["seeds"]["map"][int(seed)]
        assert evaluation.mean(seed, "map") == pytest.approx(expected, abs=1e-6)
