"""`dssm demo`: its data, its page, the directories it replaces, and (slow) a complete run."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from dssm_tf.commands import demo as demonstration
from dssm_tf.common.errors import UserError
from dssm_tf.tables.judgments import read_corpus, read_judgments
from tests.browser import Browser
from tests.demo_page.pages import letters_model
from tests.runtime.maxsim_models import write_compact_model

SEARCH = """queries => queries.map(query => {
  searchBox.value = query;
  search();
  return document.querySelector("#results .title").textContent.trim();
})"""


def test_the_log_has_no_judged_question(tmp_path):
    demonstration.write_data(tmp_path)
    log = [line.split("\t") for line in (tmp_path / "clicks.tsv").read_text("utf-8").splitlines()]
    judgments = read_judgments(tmp_path / "judgments.tsv")
    assert log[0] == ["query", "title"]
    assert len(judgments) > 1000
    assert not {query for query, _ in log} & {row.query for row in judgments}
    # The corpus has exactly the titles of the log and the judgments.
    assert {title for _, title in log[1:]} | {row.title for row in judgments} == {
        row.title for row in read_corpus(tmp_path / "corpus.tsv")
    }


def test_each_judged_question_is_also_there_with_a_typing_error(tmp_path):
    demonstration.write_data(tmp_path)
    judgments = read_judgments(tmp_path / "judgments.tsv")
    misspelled = read_judgments(tmp_path / "judgments_typing_errors.tsv")
    unchanged = 0
    for right, wrong in zip(judgments, misspelled, strict=True):
        assert right._replace(query=wrong.query) == wrong
        assert abs(len(wrong.query) - len(right.query)) <= 1
        unchanged += wrong.query == right.query
    assert unchanged < 0.01 * len(judgments)


def test_the_examples_are_not_in_the_log(tmp_path):
    demonstration.write_data(tmp_path)
    log = (tmp_path / "clicks.tsv").read_text("utf-8")
    judged = {row.query for row in read_judgments(tmp_path / "judgments.tsv")}
    misspelled = [query for query, note in demonstration.EXAMPLES.items() if note]
    assert len(demonstration.EXAMPLES) == 5
    assert len(misspelled) == 1
    assert {*demonstration.EXAMPLES} - judged == {*misspelled}
    assert not [query for query in demonstration.EXAMPLES if query in log]


def metrics_of(right_fractions: dict[str, float]) -> dict[str, object]:
    """The content of metrics.json.

    Args:
        right_fractions: for each system, the fraction of queries whose first title is right.
    """
    systems = {
        name: {"ndcg@1": x, "ndcg@10": x + 0.02, "ci95": {"ndcg@1": [x - 0.01, x + 0.012]}}
        for name, x in right_fractions.items()
    }
    return {"systems": systems, "queries": {"measured": 1998}}


def test_the_page_has_the_counts_and_the_measured_table(tmp_path):
    demonstration.write_data(tmp_path / "data")
    titles = [row.title for row in read_corpus(tmp_path / "data" / "corpus.tsv")]
    model = letters_model(titles[:50])
    write_compact_model(model, tmp_path / "runs" / "maxsim" / "1", {titles[0]: -1.0})
    for name, metrics in (
        ("evaluation", metrics_of({"bm25": 0.8, "maxsim": 0.9, "dssm": 0.95})),
        ("evaluation_typing_errors", metrics_of({"bm25": 0.5, "maxsim": 0.85, "dssm": 0.84})),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text(json.dumps(metrics), "utf-8")
    demonstration.write_page(tmp_path, 61.0, ["dssm train --out 'a b'"])
    html = (tmp_path / "index.html").read_text("utf-8")
    text = " ".join(unescape(re.sub("<script.*?</script>|<[^>]+>", " ", html, flags=re.S)).split())
    for expected in (
        "learned from 3,709 clicks", "in 61 seconds", f"all {len(titles):,} titles", "1,998 other",
        "90.0 % 85.0 % .920", "95.0 % 84.0 % .970", "80.0 % 50.0 % .820", "±1.1 points",
        "dssm is ahead", "dssm benchmark --clicks CLICKS.tsv", "dssm train --out 'a b'",
    ):  # fmt: skip
        assert expected in text
    assert text.index("maxsim the model of this page") < text.index("BM25 counts equal words")


def test_the_note_names_dssm_only_where_it_is_ahead():
    ahead = {"dssm": {"ndcg@1": 0.95}, "maxsim": {"ndcg@1": 0.9}}
    behind = {"dssm": {"ndcg@1": 0.9}, "maxsim": {"ndcg@1": 0.9}}
    assert "dssm is ahead" in demonstration.note_about(ahead)
    assert demonstration.note_about(behind) == ""


def test_only_an_earlier_demo_is_overwritten(tmp_path, monkeypatch):
    monkeypatch.setattr(demonstration, "_COMMANDS", "")
    monkeypatch.setattr(demonstration, "write_page", lambda out, *_: (out / "index.html").touch())
    earlier = tmp_path / "demo"
    earlier.touch()
    with pytest.raises(UserError, match="exists already"):
        demonstration.demo(out=earlier)
    earlier.unlink()
    demonstration.demo(out=earlier)
    other = tmp_path / "other"
    other.mkdir()
    for folder in (other, earlier):
        (folder / "thesis.txt").write_text("precious")
        with pytest.raises(UserError, match=r"did not write thesis\.txt"):
            demonstration.demo(out=folder)
        (folder / "thesis.txt").unlink()
    (earlier / "runs" / "lstm").mkdir(parents=True)
    demonstration.demo(out=earlier)
    assert sorted(path.name for path in earlier.iterdir()) == [
        ".dssm-demo", "data", "index.html",
    ]  # fmt: skip


def test_the_demo_stops_at_a_failed_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demonstration, "_COMMANDS", "train --data nowhere")
    with pytest.raises(UserError, match="dssm train failed; its message is above"):
        demonstration.demo(out=tmp_path / "demo")
    assert "--out is required" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_the_rankers_of_the_demo_are_better_than_bm25(tmp_path, capfd):
    out = tmp_path / "demo"
    demonstration.demo(out=out)
    # Slightly less than measured, because values vary with the seed.
    for folder, name, metric, minimum in (
        ("evaluation", "maxsim", "ndcg@1", 0.91), ("evaluation", "maxsim", "ndcg@10", 0.945),
        ("evaluation_typing_errors", "maxsim", "ndcg@1", 0.88),
        ("evaluation", "dssm", "ndcg@1", 0.93), ("evaluation", "dssm", "ndcg@10", 0.955),
        ("evaluation_typing_errors", "dssm", "ndcg@1", 0.89),
    ):  # fmt: skip
        systems = json.loads((out / folder / "metrics.json").read_text("utf-8"))["systems"]
        assert systems[name][metric] >= minimum, (folder, name, metric)
        assert systems[name][metric] > systems["bm25"][metric]
    assert (out / "export" / "dssm" / "1" / "saved_model.pb").exists()
    html = (out / "index.html").read_text("utf-8")
    links = re.findall(r'href="([^"#]*)"', html)
    assert len(links) > 2
    assert all((out / link).exists() for link in links)
    text = capfd.readouterr().out
    assert "index.html" in text
    assert "dssm benchmark --clicks CLICKS.tsv" in text
    with Browser() as browser:
        browser.open((out / "index.html").as_uri())
        queries = json.dumps([*demonstration.EXAMPLES])
        assert json.loads(browser.run(f"JSON.stringify(({SEARCH})({queries}))")) == [
            "belgium", "european union", "catholicism", "egypt", "shaquille oneal",
        ]  # fmt: skip
        assert browser.errors == []
