"""`report.html`: well-formed, safe, self-contained, and equal to the results."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import permutations
from typing import NamedTuple

import numpy as np
import pytest

from dssm_tf.evaluation.evaluate import compare, evaluate, evaluate_run
from dssm_tf.evaluation.evaluation import Evaluation, Row
from dssm_tf.evaluation.runs import rank_titles
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.reports import queries as queries_module
from dssm_tf.reports import report
from dssm_tf.reports.files import metrics_json
from dssm_tf.reports.formatting import reference_system
from dssm_tf.reports.markdown import page
from dssm_tf.reports.queries import all_tests, choose_queries, page_data, queries
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests import rankers
from tests.browser import Browser

METRICS = ("ndcg@1", "ndcg@10")
HOSTILE = "</script><!-- data --><img src=x onerror='alert(\"1\")'> & \u2028"
SYSTEMS = ("bm25", "plsa.topics=4", "plsa.topics=16", f"other {HOSTILE}")
VOID = {"input", "meta"}


class Checker(HTMLParser):
    """Collects tags and attributes; fails if a tag is not closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [key for key, _ in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


class RandomRanker(NamedTuple):
    seed: int

    def score_matrix(self, queries, titles):
        return np.random.default_rng(self.seed).normal(size=(len(queries), len(titles)))


def benchmark(queries: int, systems=SYSTEMS) -> Evaluation:
    """Results of random systems; the second has two seeds, and a further row failed."""
    judgments = [
        Judgment(f"q{i}", f"query {i} {HOSTILE}", f"d{i % 50:02d}", f"title {i % 50} {HOSTILE}", 2)
        for i in range(queries)
    ]
    judgments.append(Judgment("left", f"left {HOSTILE}", "d00", f"title 0 {HOSTILE}", 0))
    corpus = [CorpusTitle(f"d{i:02d}", f"title {i} {HOSTILE}") for i in range(50)]

    task = RankingTask(judgments, corpus)
    rows = []
    for number, name in enumerate(systems):
        row = Row(name, "baseline")
        if topics := re.fullmatch(r"plsa\.topics=(\d+)", name):
            row.sweep = ("topics", int(topics[1]))
        for seed in range(2 if number == 1 else 1):
            costs = {"training_seconds": 0.5 + number, "megabytes": 10}
            run = rank_titles(name, RandomRanker(10 * number + seed).score_matrix, task).run
            row.seeds.append(evaluate_run(run, task, METRICS, seed, costs))
        rows.append(row)
    tests = compare(rows, METRICS, task.has_relevant, [(row, rows[0]) for row in rows[1:]])
    return Evaluation(
        task,
        METRICS,
        rows=[*rows, Row("broken", "tower", error=f"it broke {HOSTILE}")],
        comparisons=tests,
        against=systems[:1],
        in_log=np.arange(len(task.queries)) % 3 > 0,
        fold=np.arange(len(task.queries)) % 2,
        settings={"tune": "ndcg@10", "jobs": 1},
    )


def render(result: Evaluation) -> str:
    """The page, with an empty SVG for each figure."""
    text, figures = report.text(result)
    return page(text, dict.fromkeys(figures, "<svg></svg>"), queries(result))


@pytest.fixture(scope="module")
def result() -> Evaluation:
    return benchmark(40)


@pytest.fixture(scope="module")
def html(result) -> str:
    return render(result)


@pytest.fixture(scope="module")
def checker(html) -> Checker:
    return Checker(html)


def data_of(html) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    assert "\u2028" not in text
    return json.loads(text)


@pytest.fixture(scope="module")
def data(html) -> dict:
    return data_of(html)


def test_the_page_is_complete_and_needs_no_network(html, checker):
    assert html.count("<html") == 1
    assert not {"src", "href"} & set(checker.attributes)
    assert "default-src 'none'" in html
    assert "img-src data:" in html  # heat maps are images
    for words in ("url(", "@import", "fetch(", "XMLHttpRequest", "import("):
        assert words not in html
    assert not re.findall(r"https?://[^\s\"']+", html)


def test_texts_are_unchanged_in_the_data_and_escaped_in_the_html(html, checker, data):
    assert "img" not in checker.tags
    assert not [key for key in checker.attributes if key.startswith("on")]
    assert checker.tags.count("script") == 2  # the data and the page's script
    assert "innerHTML" not in html
    assert "it broke &lt;/script&gt;&lt;!-- data --&gt;" in html
    assert data["queries"][7] == f"query 7 {HOSTILE}"
    assert data["names"][3] == SYSTEMS[3]
    assert all(title.endswith(HOSTILE) for title in data["titles"])


def test_the_table_contains_the_means_of_the_results(result, html):
    table = html.split("</table>")[0]
    written = metrics_json(result)["systems"]
    for name in SYSTEMS[:3]:
        cells = table.split(f'<td style="text-align:left">{name}')[1].split("</tr>")[0]
        for metric in METRICS:
            assert f"{written[name][metric]:.3f}" in cells
            low, high = written[name]["ci95"][metric]
            assert f"<small>{low:.3f}-{high:.3f}</small>".replace("0.", ".") in cells
    costs = re.findall("<td[^>]*>([^<]*)</td>", table.split(">bm25")[1].split("</tr>")[0])
    assert costs == ["0.50 s", "-", "10"]  # the time per query is unknown
    spread = written["plsa.topics=4"]["spread"]["ndcg@1"]
    assert f"±{spread:.3f}".replace("0.", ".") in table
    assert table.count(">failed<") == 1
    for test in result.comparisons:
        assert f"[{test.ci95[0]:+.3f}, {test.ci95[1]:+.3f}]" in html


def test_the_page_has_the_same_tests_as_the_table(result, data):
    p_values = {(test.metric, test.a, test.b): test.p_adjusted for test in result.comparisons}
    names = list(result.systems)
    for metric, tests in zip(METRICS, data["tests"], strict=True):
        for a, b in permutations(range(4), 2):
            values = [result.values[names[i]][metric][result.task.has_relevant] for i in (a, b)]
            assert tests["gained"][a][b] == sum(x > y for x, y in zip(*values, strict=True))
            # The table tests every system against the first one only.
            keys = (metric, names[a], names[b]), (metric, names[b], names[a])
            expected = next((p_values[key] for key in keys if key in p_values), None)
            assert (expected is None) == (0 not in (a, b))
            assert tests["p"][a][b] == (expected and pytest.approx(expected, rel=5e-3))


def test_values_and_titles_are_those_of_the_result(result, data):
    assert len(data["queries"]) == 40  # the query without a relevant title is left out
    rows = np.flatnonzero(result.task.has_relevant)
    for index, name in enumerate(result.systems):
        packed = np.array(data["values"][index][1])
        expected = result.values[name]["ndcg@10"][rows]
        assert packed / data["unit"] == pytest.approx(expected, abs=0.5 / data["unit"] + 1e-9)
        for query in (0, 39):
            ranking = data["rankings"][str(query)]
            displayed = [
                (data["titles"][title], ranking["grades"].get(str(title)))
                for title in ranking["top"][index]
            ]
            top = result.top(name, rows[query], 5)
            assert displayed == list(zip(top["title"], top["grade"], strict=True))
            ((relevant, _),) = ranking["relevant"]
            expected_title = result.task.queries[rows[query]].replace("query", "title")
            assert data["titles"][relevant] == expected_title


def test_the_page_has_every_table_of_the_text_and_a_figure_of_the_sweep(result, html):
    text, figures = report.text(result)
    rows = len(re.findall(r"(?m)^\| (?!:-)", text)) + 1  # one is the empty row of the matrix
    assert html.count("<tr>") == rows - 1
    assert list(figures) == ["sweep1"]
    assert html.count("<svg></svg>") == 1
    assert "![Means over plsa.topics](sweep1.svg)" in text


@pytest.mark.long
def test_a_browser_draws_the_matrix_and_lists_the_queries_gained(result, html, tmp_path):
    (tmp_path / "report.html").write_text(html, "utf-8")
    with Browser() as browser:
        browser.open((tmp_path / "report.html").as_uri())
        dom = browser.run("document.documentElement.outerHTML")
        assert browser.errors == []
    links = re.findall('<a href="#(.*?)">(.*?)</a>', dom.split("<nav>")[1].split("</nav>")[0])
    assert re.findall('<h2 id="(.*?)">(.*?)</h2>', dom) == links
    matrix = dom.split('id="matrix"')[1].split("</table>")[0]
    assert matrix.count("<td") == 4 * 5  # a mean and four cells per system
    best = max(result.systems, key=lambda name: result.mean(name, "ndcg@10"))
    other = reference_system(result, best)
    values = [result.values[name]["ndcg@10"][result.task.has_relevant] for name in (best, other)]
    gained = int((values[0] > values[1]).sum())
    lines = re.sub("<[^>]+>", "", dom.split('id="summary"')[1].split("</p>")[0])
    assert f"{gained} queries gained" in lines
    listed = dom.split('id="list"')[1].split("</section>")[0]
    assert listed.count("<details") == min(gained, 10)


@pytest.fixture
def many_queries(monkeypatch):
    """Results of 150 queries; the page can have values of 100 and titles of 20 of them."""
    monkeypatch.setattr(queries_module, "MAX_RANKED_QUERIES", 20)
    monkeypatch.setattr(queries_module, "MAX_VALUES", 400)
    return benchmark(150, ("one", "two"))


def test_queries_beyond_the_limit_are_sampled(many_queries, monkeypatch):
    displayed, ranked = choose_queries(many_queries)
    assert len(ranked) == len(set(ranked)) == 20
    differences = np.subtract(*(many_queries.values[n]["ndcg@10"] for n in ("one", "two")))
    assert len(displayed) == len(set(displayed.tolist())) == 100
    assert (
        set(ranked)
        <= set(displayed.tolist())
        <= set(np.flatnonzero(many_queries.task.has_relevant).tolist())
    )
    # The sample covers the whole range: 100 of 150 queries leave no gap of twenty.
    assert np.diff(displayed).max() < 20
    data = page_data(many_queries)
    assert set(map(int, data["rankings"])) == {displayed.tolist().index(query) for query in ranked}
    assert data["tests"] == all_tests(many_queries)  # over all 150 queries
    monkeypatch.setattr(queries_module, "MAX_RANKED_QUERIES", 2)
    extremes = differences[choose_queries(many_queries)[1]]
    assert sorted(extremes) == [np.nanmin(differences), np.nanmax(differences)]


def test_queries_of_equal_value_are_sampled_at_random(many_queries):
    for row in many_queries.measured_rows:
        row.seeds = [replace(seed, values=seed.values * 0.0) for seed in row.seeds]
    _, ranked = choose_queries(many_queries)
    assert ranked.tolist() == choose_queries(many_queries)[1].tolist()
    assert ranked[0] < 75 < ranked[-1]  # from both halves of the alphabet


def test_a_single_system_has_a_page():
    data = page_data(benchmark(5, ("only",)))
    assert data["tests"] == [{"gained": [[0]], "p": [[None]]}] * 2
    assert "1 system was measured, 1 failed" in render(benchmark(5, ("only",)))


def test_an_evaluation_without_log_seeds_and_costs_has_the_same_page():
    html = render(evaluate(*rankers.rankers_on_many_queries()))
    Checker(html)
    assert "<h1>Evaluation</h1>" in html
    assert "Holm's correction over all 6 tests" in html  # a pair, six metrics
    assert "Training</th>" not in html
    data = data_of(html)
    assert data["new"] == []
    assert data["references"] == [1, 0]


def test_systems_are_compared_by_all_metrics_but_the_judgment_rate():
    evaluation = evaluate(*rankers.rankers_on_many_queries(), metrics=["ndcg@1", "ndcg@3", "map"])
    assert evaluation.metrics == ("ndcg@1", "ndcg@3", "judged@10", "map")
    data = page_data(evaluation)
    assert data["metrics"] == ["NDCG@1", "NDCG@3", "MAP"]
    means = [evaluation.mean("worse", metric) for metric in ("ndcg@1", "ndcg@3", "map")]
    assert data["means"][0] == pytest.approx(means, abs=1e-6)
    assert "Judged@10</th>" in render(evaluation)
