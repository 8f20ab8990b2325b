"""`dssm benchmark` from files to table, on colours and things."""

from __future__ import annotations

import argparse
import io
import itertools
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from rich.console import Console

from dssm_tf.benchmark.finished import finished_source
from dssm_tf.benchmark.inputs import Inputs
from dssm_tf.cli import main
from dssm_tf.commands.benchmark import add, benchmark_command
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.significance import holm, paired_t_test
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.export.compact import export_compact
from dssm_tf.export.saved_model import export
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.reports.page import render
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.trec import read_run
from tests.clicks import Click, write_data
from tests.relevant_ranks import relevant_ranks
from tests.runs import finished_run

COLORS, THINGS = ("red", "green", "blue", "black", "white"), ("hat", "tie", "box", "shoe", "coat")
TITLES = [f"{color} {thing}" for color in COLORS for thing in THINGS]
TINY = {
    "tower": {"name": "dssm", "widths": [8]},
    "training": {"epochs": 1, "batch_size": 16, "xla": False},
    "ranking": {"prior": 0.5},
}
# Nothing to compare a click with: training refuses it.
BROKEN = TINY | {"negatives": {"recorded": 0, "in_batch": False}}
METRICS = ("ndcg@1", "ndcg@3", "map")
RANDOM = "doc2vec.size=4"


def benchmark(folder: Path, *arguments: str):
    """The result of the command on the files of `folder`, and what it printed."""
    return run_command(
        "--clicks", str(folder / "clicks.tsv"), "--judgments", str(folder / "judgments.tsv"),
        "--corpus", str(folder / "corpus.tsv"), *arguments,
    )  # fmt: skip


def run_command(*arguments: str):
    """The command's result and what it printed."""
    parser = argparse.ArgumentParser()
    add(parser.add_subparsers())
    out = io.StringIO()
    parsed = parser.parse_args(["benchmark", *arguments])
    result = benchmark_command(parsed, Console(file=out, width=160))
    return result, out.getvalue()


ARGUMENTS = (
    "--systems", "popularity,bm25,tfidf", "--seeds", "2",
    "--sweep", "bm25.b=0,1", "--sweep", RANDOM,
    "--metrics", ",".join(METRICS), "--tune", "map", "--against", "bm25,popularity", "--jobs", "2",
    "--hybrid", f"bm25+{RANDOM}+prior,rrf:bm25+{RANDOM},bm25+broken",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A log, a corpus, judgments, a run and vectors of another system, and configurations."""
    folder = tmp_path_factory.mktemp("benchmark")
    draw = random.Random(0)
    rows = []
    for _ in range(150):
        title = draw.choice(TITLES)
        color, thing = title.split()
        query = draw.choice([f"{thing} {color}", thing, color, f"cheap {thing}"])
        rows.append(f"{query}\t{title}\t{draw.choice([1, 1, 3])}\n")
    (folder / "clicks.tsv").write_text("query\ttitle\tclicks\n" + "".join(rows))
    corpus = "".join(f"d{n:02d}\t{title}\n" for n, title in enumerate(TITLES))
    (folder / "corpus.tsv").write_text("doc_id\ttitle\n" + corpus)
    judged, run = [], []
    for number in range(30):
        place = draw.randrange(len(TITLES))
        color, thing = TITLES[place].split()
        query = draw.choice([f"{thing} {color}", thing, f"nice {color}", "?!"])
        judged.append(f"q{number}\t{query}\td{place:02d}\t{TITLES[place]}\t2\n")
        if number % 2:
            run.append(f"q{number} Q0 d{place:02d} 1 9.5 theirs\n")
    judged.append("q90\tpurple\td00\tred hat\t0\n")  # nothing relevant: left out
    head = "query_id\tquery\tdoc_id\ttitle\tgrade\n"
    (folder / "judgments.tsv").write_text(head + "".join(judged))
    (folder / "theirs.trec").write_text("".join(run))
    vectors = np.random.default_rng(0)
    np.save(folder / "queries.npy", vectors.normal(size=(31, 4)))
    np.save(folder / "titles.npy", vectors.normal(size=(25, 4)))
    for name, config in (("tiny", TINY), ("broken", BROKEN)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config), "utf-8")
    return folder


def arguments(folder: Path) -> tuple[str, ...]:
    return (
        *ARGUMENTS,
        "--configs", f"broken={folder / 'broken.yaml'}", "--out", str(folder / "out"),
        "--runs", str(folder / "theirs.trec"),
        "--embeddings", f"vectors={folder / 'queries.npy'}", str(folder / "titles.npy"),
    )  # fmt: skip


def with_prior(*names: str) -> list[str]:
    return [one for name in names for one in (name, f"{name}+prior")]


@pytest.fixture(scope="module")
def done(folder):
    """The result of a whole benchmark, and what it printed."""
    return benchmark(folder, *arguments(folder))


@pytest.fixture(scope="module")
def written(folder, done) -> dict:
    return json.loads((folder / "out" / "results.json").read_text("utf-8"))


def test_every_row_is_there_in_order(written):
    assert list(written["systems"]) == [
        "popularity", *with_prior("bm25", "tfidf"), "broken",
        *with_prior("bm25.b=0", "bm25.b=1", RANDOM, "theirs", "vectors"),
        f"bm25+{RANDOM}+prior", f"rrf:bm25+{RANDOM}", "bm25+broken",
    ]  # fmt: skip


def test_rows_that_failed_are_named_at_the_end_and_the_exit_code_is_3(folder, done, capfd):
    inputs = ("clicks", "judgments", "corpus")
    files = [word for name in inputs for word in (f"--{name}", str(folder / f"{name}.tsv"))]
    assert main(["benchmark", *files, *arguments(folder)]) == 3
    shown = capfd.readouterr()
    assert shown.err.splitlines()[-1].startswith(
        "dssm benchmark: 2 of 19 rows failed: broken, bm25+broken; the reasons stand above"
    )
    assert shown.out.index("broken failed: ") < shown.out.rindex("System")
    assert shown.out.splitlines()[-2].split() == ["bm25+broken", "failed"]
    assert (folder / "out" / "table.md").exists()


def test_a_failing_system_is_reported_in_its_row_and_stops_nobody(done, written, folder):
    entry = written["systems"]["broken"]
    assert "in_batch is false; the click needs rivals" in entry["error"]
    assert "metrics" not in entry
    assert written["systems"]["bm25+broken"]["error"] == "its member broken has no result"
    assert "broken" not in json.loads((folder / "out" / "metrics.json").read_text())["systems"]
    assert re.search(r"broken +failed", done[1])
    assert "broken failed: negatives: " in done[1]
    assert "| broken | failed: negatives" in (folder / "out" / "table.md").read_text()


def test_cross_validated_values_are_those_of_the_chosen_parameters_on_the_other_half(
    done, written, folder
):
    result = done[0]
    corpus = read_corpus(folder / "corpus.tsv")
    fitted = BASELINES["bm25"]().fit([], [one.title for one in corpus])
    chosen = written["systems"]["bm25"]["about"][0]["chosen"]
    free = BASELINES["bm25"].free
    grid = [{"k1": k1, "b": b} for k1 in free["k1"] for b in free["b"]]
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


def test_what_needs_a_fit_is_cross_validated_too(folder, tmp_path):
    out = tmp_path / "out"
    result, _ = benchmark(folder, "--systems", "plsa", "--seeds", "1", "--tune", "map",
                          "--metrics", "map", "--out", str(out))  # fmt: skip
    inputs = Inputs(out / "work" / "inputs")
    about = json.loads((out / "results.json").read_text("utf-8"))["systems"]["plsa"]["about"][0]
    expected = np.full(len(result.half), np.nan)
    for half, chosen in enumerate(about["chosen"]):
        ranker = BASELINES["plsa"](seed=0, **chosen["values"]).fit(inputs.clicks(), inputs.titles())
        judgments = read_judgments(folder / "judgments.tsv")
        corpus = read_corpus(folder / "corpus.tsv")
        values = evaluate({"plsa": ranker}, judgments, corpus, metrics=["map"]).values
        expected[result.half == half] = values["plsa"]["map"][result.half == half]
    row, _ = result.rows
    assert row.values("map") == pytest.approx(expected, nan_ok=True, abs=1e-6)
    free = BASELINES["plsa"].free
    assert about["settings_tried"] == 3 * len(free["mu"]) * len(free["weight"])
    topics = about["final"]["values"]["topics"]
    (model,) = out.glob("work/systems/plsa*/model")
    assert BASELINES["plsa"].load(model).topics == topics
    assert not list(out.glob("work/systems/plsa*/variants"))


def test_the_final_choice_is_that_of_all_judged_queries(written, folder):
    about = written["systems"]["bm25"]["about"][0]
    corpus = read_corpus(folder / "corpus.tsv")
    fitted = BASELINES["bm25"]().fit([], [one.title for one in corpus])
    free = BASELINES["bm25"].free
    grid = [{"k1": k1, "b": b} for k1 in free["k1"] for b in free["b"]]
    rankers = {str(place): fitted.with_parameters(**one) for place, one in enumerate(grid)}
    judgments = read_judgments(folder / "judgments.tsv")
    values = evaluate(rankers, judgments, corpus, metrics=["map"]).values
    means = [round(np.nanmean(values[str(place)]["map"]), 9) for place in range(len(grid))]
    assert about["final"]["values"] == grid[int(np.argmax(means))]
    assert about["final"]["tuned"] == pytest.approx(max(means))
    assert about["final"]["queries"] == 30
    assert "all judged queries" in about["final"]["chosen_on"]
    (model,) = (folder / "out").glob("work/systems/bm25-[0-9a-f]*/model")
    saved = BASELINES["bm25"].load(model)
    assert {"k1": saved.k1, "b": saved.b} == about["final"]["values"]


def test_finished_systems_are_measured_without_being_trained_again(folder, done, tmp_path):
    data = write_data(tmp_path / "data", [Click("orange hat", "Red Hat", 5)], validation=())
    run = finished_run(tmp_path / "run", data, TINY)
    version = export(run, tmp_path / "models")
    small = export_compact(run, tmp_path / "compact", "lstm").directory
    (bm25,) = (folder / "out").glob("work/systems/bm25-[0-9a-f]*/model")
    out = tmp_path / "out"
    result, _ = benchmark(
        folder, "--systems", "", "--model", str(run), "--model", f"served={version.parent}",
        "--model", f"small={small}", "--model", f"words={bm25}", "--hybrid", "run+words",
        "--out", str(out),
    )  # fmt: skip
    rows = {row.name: row for row in result.rows}
    assert [row.kind for row in result.rows] == ["model"] * 6 + ["baseline"] * 2 + ["hybrid"]
    for name in ("run", "served", "small"):  # by the cosine, though the run has a prior
        assert max(np.abs(one.scores).max() for one in rows[name].seeds[0].rankings) < 1.001
        assert rows[f"{name}+prior"].seeds[0].about["chosen"]
    for name in ("served", "small"):
        assert rows[name].values("ndcg@10") == pytest.approx(
            rows["run"].values("ndcg@10"), nan_ok=True
        )
    # The log of the run holds no judged query, and its fingerprints say so; a baseline has none.
    assert not any(
        "judged clicks" in note for name in ("run", "served") for note in rows[name].notes
    )
    assert "what it learned from is not known and may hold judged clicks" in rows["words"].notes[0]
    assert "training_seconds" not in rows["run"].seeds[0].about
    models = json.loads((out / "results.json").read_text("utf-8"))["settings"]["models"]
    assert set(models) == {"run", "served", "small", "words"}


def test_a_finished_system_that_learned_from_judged_queries_says_so(folder, tmp_path):
    data = write_data(tmp_path / "data", [Click("hat", "red hat", 5)], validation=())
    judgments = "query_id\tquery\tdoc_id\ttitle\tgrade\nq1\tHAT!\td00\tred hat\t1\n"
    path = tmp_path / "judgments.tsv"
    path.write_text(judgments + "q2\tbox\td02\tred box\t1\n")
    task = RankingTask(read_judgments(path), None)
    found = finished_source("mine", finished_run(tmp_path / "run", data, TINY), task)
    assert found.known.tolist() == [query == "HAT!" for query in task.queries]
    assert "a log with 1 of the 2 judged queries, which may hold judged clicks" in " ".join(
        found.system.about["notes"]
    )
    with pytest.raises(UserError, match="expected a directory that `dssm train` or `dssm export`"):
        finished_source("nothing", tmp_path, task)


def test_a_swept_parameter_is_not_tuned(written):
    for value in (0, 1):
        entry = written["systems"][f"bm25.b={value}"]
        assert entry["sweep"] == {"key": "b", "value": value}
        assert all(set(half["values"]) == {"k1"} for half in entry["about"][0]["chosen"])


def test_random_systems_have_a_spread_over_seeds_and_others_have_none(done, written):
    entry = written["systems"][RANDOM]
    assert entry["seeds"] == [0, 1]
    a, b = entry["metrics"]["map"]["seeds"]
    assert a != b
    assert entry["metrics"]["map"]["mean"] == pytest.approx((a + b) / 2)
    # of two numbers, the sample's standard deviation is their distance over sqrt(2)
    assert entry["metrics"]["map"]["spread"] == pytest.approx(abs(a - b) / np.sqrt(2))
    assert written["systems"]["bm25"]["metrics"]["map"]["spread"] is None
    assert written["systems"][f"bm25+{RANDOM}+prior"]["seeds"] == [0, 1]
    assert re.search(rf"{re.escape(RANDOM)} .*\d\.\d{{3}}.* ±\.\d{{3}}", done[1])


def test_tests_are_paired_on_means_over_seeds_and_adjusted_over_the_whole_table(done, written):
    result = done[0]
    # Without the prior: popularity, bm25 and tfidf, bm25.b twice, doc2vec, theirs, vectors and rrf;
    # the seven that are not named by --against meet both of those that are, and these two meet.
    # With it: bm25+prior meets the six of the others and the hybrid. Each meets its own.
    assert len(written["tests"]) == (7 * 2 + 1 + 7 + 7) * len(METRICS)
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
        assert test["p"] == pytest.approx(paired_t_test(difference[:, None]).p[0])
        assert test["ci95"][0] <= test["difference"] + 1e-9
        p.append(test["p"])
    assert [test["p_adjusted"] for test in written["tests"]] == pytest.approx(holm(p).tolist())


def figures(result) -> dict:
    """All that was measured, by the texts of queries: values, tests, what was chosen."""
    queries = list(result.task.queries)
    values = {
        row.name: [{m: one.values[m].tolist() for m in METRICS} for one in row.seeds]
        for row in result.rows
    }
    chosen = [one.about.get("chosen") for row in result.rows for one in row.seeds]
    return {"queries": queries, "values": values, "tests": result.comparisons, "chosen": chosen}


@pytest.mark.parametrize("judged", ["by judgments", "by later clicks"])
def test_no_figure_of_a_benchmark_depends_on_the_order_of_rows_or_on_ids(folder, tmp_path, judged):
    draw = random.Random(1)
    header, *rows = (folder / "clicks.tsv").read_text().splitlines()
    rows = sorted(f"{row}\t2024-01-0{number % 4 + 1}" for number, row in enumerate(rows))
    ids = [f"d{n:02d}" for n in range(len(TITLES))]
    found = []
    for turn in ("one", "other"):
        here = tmp_path / turn
        here.mkdir()
        half = len(rows) // 2
        for name, part in (("a.tsv", rows[:half]), ("b.tsv", rows[half:])):
            (here / name).write_text("\n".join([f"{header}\ttimestamp", *part]) + "\n")
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
        sources = (
            ["--judgments", str(here / "judgments.tsv"), "--corpus", str(here / "corpus.tsv")]
            if judged == "by judgments"
            else ["--judge-later", "0.3"]
        )
        result, _ = run_command(
            "--clicks", str(here / "[ab].tsv"), *sources,
            "--systems", "popularity,bm25,wtm", "--hybrid", "bm25+prior,rrf:bm25+wtm",
            "--metrics", ",".join(METRICS), "--tune", "ndcg@1", "--out", str(here / "out"),
        )  # fmt: skip
        found.append(figures(result))
        draw.shuffle(rows)
        draw.shuffle(ids)
    assert str(found[0]) == str(found[1])  # as text, for a NaN is not equal to itself


def test_superscripts_name_the_systems_that_are_beaten(done, folder):
    result, shown = done
    beaten = {row.name: result.beaten(row.name, "map") for row in result.measured_rows}
    assert beaten["bm25"] == ["popularity"]  # which knows no query
    assert re.search(r"bm25 ᵃ .*0\.\d{3}ᵇ", shown)
    assert "significantly better than ᵃ bm25, ᵇ popularity" in re.sub(r"\s+", " ", shown)
    assert "$^{\\beta}$" in (folder / "out" / "table.tex").read_text()
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


def test_other_peoples_runs_and_vectors_stand_in_the_same_table(done, written):
    values = per_query(relevant_ranks(np.array([[0.0, 1.0]]), [[0.0, 2.0]]), METRICS)
    assert values["ndcg@1"] == [1.0]
    # The run lists the right title for every second query, 15 of 30.
    assert written["systems"]["theirs"]["metrics"]["ndcg@1"]["mean"] == pytest.approx(0.5)
    assert "lists nothing for 16 of 31 judged queries" in written["systems"]["theirs"]["notes"][0]
    assert "theirs lists nothing for 16 of 31" in done[1]
    assert written["systems"]["vectors"]["kind"] == "embeddings"


def test_costs_are_told(written):
    entry, bm25 = (written["systems"][name] for name in (RANDOM, "bm25"))
    for one in (entry, bm25):
        assert one["training_seconds"] > 0
        assert one["parameters"] > 0
        assert one["megabytes"] > 1e-4
        assert one["microseconds_per_query"] > 0
    for cost in ("megabytes", "microseconds_per_query"):
        total = entry["about"][0][cost] + bm25[cost]
        assert written["systems"][f"rrf:bm25+{RANDOM}"]["about"][0][cost] == total
        assert written["systems"]["bm25+prior"][cost] == bm25[cost]


def test_queries_the_log_does_not_hold_are_reported_apart(done, written, folder):
    result = done[0]
    logged = {line.split("\t")[0] for line in (folder / "clicks.tsv").read_text().splitlines()[1:]}
    counted = [query for query in result.task.queries if query != "purple"]
    assert written["queries"] == {
        "measured": 30,
        "left_out": 1,
        "new": sum(query not in logged for query in counted),
    }
    assert "## Queries that the log does not hold" in (folder / "out" / "table.md").read_text()


def test_means_by_traffic_stand_beside_the_plain_ones(done, written, folder):
    result = done[0]
    clicks = dict.fromkeys(result.task.queries, 0)
    for line in (folder / "clicks.tsv").read_text().splitlines()[1:]:
        query, _, count = line.split("\t")
        clicks[query] = clicks.get(query, 0) + int(count)
    (bm25,) = (row for row in result.rows if row.name == "bm25")
    pairs = list(zip(result.task.queries, bm25.values("map"), strict=True))
    known = [(clicks[query], value) for query, value in pairs if not np.isnan(value)]
    expected = sum(n * value for n, value in known) / sum(n for n, _ in known)
    assert written["systems"]["bm25"]["parts"]["traffic"]["map"]["mean"] == pytest.approx(expected)
    assert re.search(r"NDCG@1 +in the log \(\d+\) +not in the log \(\d+\) +by traffic", done[1])


def test_every_mean_has_an_interval_and_few_queries_are_said_to_be_few(done, written):
    for entry in written["systems"].values():
        for found in entry.get("metrics", {}).values():
            low, high = found["ci95"]
            assert 0 <= low <= found["mean"] <= high <= 1
    shown = " ".join(done[1].split())
    assert "The means rest on 30 queries, fewer than 200" in shown
    assert re.search(r"chosen on halves, the smaller of \d+ queries, fewer than 200", shown)
    assert written["settings"]["inputs"]["clicks"]["given"]
    assert "tensorflow" in written["settings"]["versions"]


def test_a_query_without_a_word_counts_and_is_mentioned(done):
    wordless = done[0].description.queries_without_words
    assert wordless > 0
    assert f"{wordless} queries have no word after normalisation" in re.sub(r"\s+", " ", done[1])


def test_values_are_written_query_by_query(done, folder):
    result = done[0]
    found = json.loads((folder / "out" / "per_query.json").read_text())
    assert found["query_ids"] == list(result.task.query_ids)
    entry = found["systems"][RANDOM]
    first, second = entry["seeds"]
    left_out = found["queries"].index("purple")  # the query without a relevant title
    assert entry["mean"]["map"][left_out] is None
    row = left_out - 1
    assert entry["mean"]["map"][row] == pytest.approx((first["map"][row] + second["map"][row]) / 2)


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
        expected = written["systems"][RANDOM]["metrics"]["map"]["seeds"][int(seed)]
        assert again.mean(seed, "map") == pytest.approx(expected, abs=1e-6)


def test_grades_of_first_titles_and_lengths_are_described(done, written, folder):
    counts = written["systems"]["bm25"]["top_1_grades"]
    assert sum(counts.values()) == 30
    shown = (folder / "out" / "table.md").read_text()
    assert f"| bm25 | {100 * counts['2'] / 30:.1f} % |" in shown
    assert "## Sweep over bm25.b" in shown
    assert written["lengths"]["titles"] == {"2": 25}
    assert "titles 2.00 words" in shown


def test_a_second_call_does_only_what_is_new_and_trains_a_tower(folder, done):
    places = {
        path: path.stat().st_mtime_ns
        for path in (folder / "out" / "work" / "systems").glob("*/result.json")
    }
    assert len(places) == 6
    result, _ = benchmark(
        folder, "--systems", "bm25", "--seeds", "1", "--tune", "map", "--metrics", "recall@10",
        "--configs", f"tiny={folder / 'tiny.yaml'}", "--sweep", RANDOM,
        "--cross", f"tiny,{RANDOM}", "--out", str(folder / "out"),
    )  # fmt: skip
    assert {path: path.stat().st_mtime_ns for path in places} == places
    assert f"first title of tiny (down) and {RANDOM} (across)" in (
        folder / "out" / "table.md"
    ).read_text().replace("\\", "")
    assert [row.name for row in result.rows] == with_prior("bm25", "tiny", RANDOM)
    tiny = result.rows[2]
    assert tiny.error is None
    assert tiny.cost("parameters") > 100
    assert tiny.seeds[0].about["epochs"] == 1
    assert list(result.metrics) == ["recall@10"]
    # The row is what the model makes of the texts; the one behind it adds the prior with a weight
    # of its own, not that of the run.
    (model,) = (folder / "out").glob("work/systems/tiny-seed0-*/model")
    ranker, title_texts = SemanticRanker.load(model), result.task.titles
    query = int(np.flatnonzero(result.half == 0)[0])
    cosines = (ranker.encode_queries([result.task.queries[query]]) @
               ranker.encode_titles(title_texts).T)[0]  # fmt: skip
    columns, scores = tiny.seeds[0].rankings[query]
    assert scores == pytest.approx(cosines[columns], abs=1e-6)
    (tiny_prior,) = result.rows[3].seeds
    weight = tiny_prior.about["chosen"][0]["values"]["prior"]
    columns, scores = tiny_prior.rankings[query]
    log_prior = Inputs(folder / "out" / "work" / "inputs").prior()(title_texts)
    expected = cosines + weight * log_prior
    assert scores == pytest.approx(expected[columns], abs=1e-5)
    assert len(list((folder / "out" / "work" / "systems").glob("*/result.json"))) == 7


def test_a_learning_curve_shows_how_much_log_is_enough(folder, tmp_path):
    out = tmp_path / "out"
    result, _ = benchmark(folder, "--systems", "bm25,wtm", "--learning-curve", "wtm", "--metrics",
                          "map", "--tune", "map", "--out", str(out))  # fmt: skip
    points = {name: [value for value, _ in rows] for name, rows in result.sweeps.items()}
    shares = ["1/8", "1/4", "1/2", "all"]
    assert points == {"wtm.clicks": shares, "wtm.clicks+prior": shares}
    assert result.sweeps["wtm.clicks"][-1][1].name == "wtm"
    assert "## Sweep over wtm.clicks\n" in (out / "table.md").read_text()
    folders = ["inputs-1-8", "inputs-1-4", "inputs-1-2", "inputs"]
    logs = [
        {(query, title): count for query, title, count in Inputs(out / "work" / name).clicks()}
        for name in folders
    ]
    totals = [sum(log.values()) for log in logs]
    # Of n clicks each with chance p, the number kept lies within four standard deviations.
    for total, share in zip(totals, (1 / 8, 1 / 4, 1 / 2), strict=False):
        n = totals[-1]
        assert abs(total - n * share) < 4 * np.sqrt(n * share * (1 - share))
    for less, more in itertools.pairwise(logs):
        assert all(count <= more[pair] for pair, count in less.items())
    tested = {name for test in result.comparisons for name in test[:2]}
    assert tested == {"bm25", "bm25+prior", "wtm", "wtm+prior"}
    # Its own prior: that of the clicks it learned from.
    task = Inputs(out / "work" / "inputs-1-8").task()
    row = next(row for row in result.rows if row.name == "wtm.clicks=1/8")
    (prior,) = (r for r in result.rows if r.name == "wtm.clicks=1/8+prior")
    weights = [one["values"]["prior"] for one in prior.seeds[0].about["chosen"]]
    log_prior = Inputs(out / "work" / "inputs-1-8").prior()(task.titles)
    for query, half in enumerate(result.half):
        plain, both = (one.seeds[0].rankings[query] for one in (row, prior))
        pure = dict(zip(plain.columns, plain.scores, strict=True))
        expected = [pure[c] + weights[half] * log_prior[c] for c in both.columns]
        assert both.scores == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("seeds", "said"), [
    ("1", "what another seed would change is not known from one seed"),
    ("2", "another seed moves MAP by"),
])  # fmt: skip
def test_the_protocol_says_that_tests_leave_out_the_noise_of_training(
    folder, tmp_path, seeds, said
):
    _, shown = benchmark(folder, "--systems", "bm25", "--sweep", RANDOM, "--seeds", seeds,
                         "--metrics", "map", "--out", str(tmp_path / "out"))  # fmt: skip
    flat = " ".join(shown.split())
    assert f"The tests count the luck of the queries, not that of training: {said}" in flat


def test_what_opens_a_page_compares_like_with_like(done):
    result = done[0]
    references = {row.name: result.reference(row.name) for row in result.measured_rows}
    assert references["bm25"] == "popularity"
    assert references["tfidf"] == "bm25"
    assert references["tfidf+prior"] == "bm25+prior"
    assert references["bm25+prior"] is None  # no other of --against has the prior
    summary = re.search(r"<strong>.*? measured", render(result))[0].replace("<wbr>", "")
    best = re.search(r"<strong>(.*?)</strong>", summary)[1]
    if reference := references[best]:
        assert f" for {reference} on" in summary
    else:
        assert " against " not in summary


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "ndcg"], "metric 'ndcg'; expected 'map', or one of"),
        (["--seeds", "0"], "--seeds 0: expected 1 or more"),
        (["--jobs", "0"], "--jobs 0: expected 1 or more"),
        (["--against", "bm52"], "--against bm52: there is no such row; the rows are bm25"),
        (["--cross", "bm25"], "--cross bm25: expected two rows, A,B"),
        (["--cross", "bm25,x"], "--cross x: there is no such row"),
        (["--hybrid", "bm25+x"], "there is no row 'x'"),
        (["--runs", "bm25=nowhere"], "two rows are called 'bm25'"),
        (["--runs", "nowhere.trec"], "nowhere.trec cannot be read"),
        (["--systems", ""], "no system to measure"),
    ],
)
def test_flags_that_do_not_fit_are_refused_before_anything_runs(folder, done, arguments, message):
    before = set((folder / "out" / "work" / "systems").iterdir())
    with pytest.raises(UserError, match=message):
        benchmark(folder, "--systems", "bm25", *arguments, "--out", str(folder / "out"))
    assert set((folder / "out" / "work" / "systems").iterdir()) == before


def test_a_benchmark_of_one_title_and_one_query_is_defined(tmp_path):
    (tmp_path / "clicks.tsv").write_text("query\ttitle\nhat\tRed Hat\nred\tRed Hat\n")
    (tmp_path / "corpus.tsv").write_text("doc_id\ttitle\nd1\tRed Hat\n")
    (tmp_path / "judgments.tsv").write_text(
        "query_id\tquery\tdoc_id\ttitle\tgrade\nq1\thats\td1\tRed Hat\t1\n"
    )
    result, shown = benchmark(
        tmp_path, "--systems", "bm25,popularity,lda", "--hybrid", "bm25+prior", "--seeds", "1",
        "--out", str(tmp_path / "out"),
    )  # fmt: skip
    for row in result.rows:
        assert row.means("ndcg@1") == [1.0]
    assert {test.p for test in result.comparisons} == {1.0}
    assert "bm25 chose nothing: fewer than two different queries" in shown
    (lda,) = tmp_path.glob("out/work/systems/lda*/model")
    assert BASELINES["lda"].load(lda).topics == BASELINES["lda"]().topics


def test_an_empty_click_log_is_one_line(tmp_path):
    (tmp_path / "clicks.tsv").write_text("query\ttitle\n")
    (tmp_path / "corpus.tsv").write_text("doc_id\ttitle\nd1\tRed Hat\n")
    (tmp_path / "judgments.tsv").write_text(
        "query_id\tquery\tdoc_id\ttitle\tgrade\nq1\that\td1\tRed Hat\t1\n"
    )
    with pytest.raises(UserError, match="holds no rows below the header; is it the right log"):
        benchmark(tmp_path, "--systems", "bm25", "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out" / "work" / "inputs").exists()
