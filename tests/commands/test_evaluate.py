import hashlib
import json
import subprocess
import sys
import types

import numpy as np
import pytest

from dssm_tf.commands.evaluate import _clicks
from dssm_tf.common.errors import UserError
from dssm_tf.data.format import KINDS, Spec
from dssm_tf.tables.layout import Layout
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from tests.clicks import Click, write_data
from tests.evaluating import evaluate_command

JUDGMENTS = (
    "query_id\tquery\tdoc_id\ttitle\tgrade\n"
    "q1\tred hat\td1\tRed Hat\t2\nq1\tred hat\td2\tBlue Box\t0\n"
    "q2\tblue box\td2\tBlue Box\t1\nq2\tblue box\td1\tRed Hat\t0\n"
)
CORPUS = "doc_id\ttitle\nd1\tRed Hat\nd2\tBlue Box\nd3\tGreen Tie\n"


class Model:
    """Stands for a trained model: prefers the title with the most letters of its name."""

    vocabulary = Vocabulary(["#re", "red", "ed#", "#ha", "hat", "at#"], FOLDED)

    def __init__(self, path):
        self.name = path.name

    def score_matrix(self, queries, titles):
        row = [sum(letter in self.name for letter in title) for title in titles]
        return np.tile(np.array(row, dtype=float), (len(queries), 1))


@pytest.fixture
def paths(tmp_path, monkeypatch):
    module = types.ModuleType("dssm_tf.model.semantic_ranker")
    module.SemanticRanker = types.SimpleNamespace(load=Model)
    monkeypatch.setitem(sys.modules, "dssm_tf.model.semantic_ranker", module)
    (tmp_path / "j.tsv").write_text(JUDGMENTS)
    (tmp_path / "c.tsv").write_text(CORPUS)
    for run in ("lstm", "dssm", "other/lstm"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "config.yaml").touch()
        np.save(tmp_path / run / "query_ids.npy", [FOLDED.id("Red HAT")])
        spec = Spec(FOLDED, ("title",), 6, "", 0, 1.0, 0, 0, dict.fromkeys(KINDS, ()), {})
        spec.save(tmp_path / run)
    return tmp_path


def test_models_baselines_and_runs_stand_in_one_table(paths, capsys):
    (paths / "theirs.trec").write_text("q1 Q0 d1 1 2.0 t\nq2 Q0 d3 1 1.0 t\n")
    evaluation = evaluate_command(
        [str(paths / "lstm"), f"mine={paths / 'other' / 'lstm'}"],
        paths / "j.tsv",
        paths / "c.tsv",
        paths / "out",
        runs=[str(paths / "theirs.trec")],
    )
    assert evaluation.systems == ("bm25", "lstm", "mine", "theirs")
    assert evaluation.mean("bm25", "ndcg@1") == 1.0
    assert evaluation.mean("theirs", "ndcg@1") == 0.5
    assert (paths / "out" / "runs" / "mine.trec").is_file()
    said = capsys.readouterr().out
    assert "NDCG@1" in said
    assert "report.html" in said


def test_known_and_new_queries_are_apart_and_unknown_trigrams_are_said(paths, capsys):
    evaluation = evaluate_command(
        [str(paths / "lstm")], paths / "j.tsv", paths / "c.tsv", paths / "out",
    )  # fmt: skip
    row = evaluation.task.queries.index("red hat")
    assert evaluation.seen.tolist() == [place == row for place in range(2)]
    written = json.loads((paths / "out" / "metrics.json").read_text())
    lstm = written["systems"]["lstm"]
    values = {query: evaluation.values["lstm"]["ndcg@1"][evaluation.task.queries.index(query)]
              for query in ("red hat", "blue box")}  # fmt: skip
    assert lstm["parts"]["known"]["ndcg@1"] == values["red hat"]
    assert lstm["parts"]["new"]["ndcg@1"] == values["blue box"]
    assert lstm["parts"]["new"]["queries"] == 1
    # "red hat" has 6 known trigrams; "blue box" (#bl blu lue ue# #bo box ox#) 7 unknown ones.
    assert lstm["about"][0]["unknown_trigrams"] == pytest.approx(7 / 13)
    shown = " ".join(capsys.readouterr().out.split())
    assert "lstm lacks 54 % of the letter trigrams of the judged queries" in shown
    assert "Queries that are not in the log:" in shown
    assert "The means rest on 2 queries, fewer than 200" in shown
    assert "unknown_trigrams" not in written["systems"]["bm25"]["about"][0]


def test_the_metrics_name_inputs_models_and_versions(paths):
    (paths / "theirs.trec").write_text("q1 Q0 d1 1 2.0 t\n")
    evaluate_command(
        [f"mine={paths / 'lstm'}"], paths / "j.tsv", paths / "c.tsv", paths / "out",
        runs=[str(paths / "theirs.trec")],
    )  # fmt: skip
    written = json.loads((paths / "out" / "metrics.json").read_text())
    digest = hashlib.sha256(JUDGMENTS.encode()).hexdigest()
    inputs = written["settings"]["inputs"]
    assert inputs["judgments"] == {"given": str(paths / "j.tsv"), "sha256": digest}
    assert inputs["theirs"]["given"] == str(paths / "theirs.trec")
    before = written["settings"]["models"]["mine"]
    assert before["given"] == str(paths / "lstm")
    assert {"python", "dssm-tf", "tensorflow"} <= written["settings"]["versions"].keys()
    (paths / "lstm" / "model.weights.h5").write_text("other weights")
    evaluate_command([f"mine={paths / 'lstm'}"], paths / "j.tsv", paths / "c.tsv", paths / "new")
    again = json.loads((paths / "new" / "metrics.json").read_text())
    assert again["settings"]["models"]["mine"]["sha256"] != before["sha256"]


def test_queries_weigh_as_much_as_they_were_clicked_for(paths):
    (paths / "log.tsv").write_text("query\ttitle\tclicks\nRED hat\tx\t8\nred hat\ty\t1\n"
                                   "blue box\tx\t1\nother\tx\t50\n")  # fmt: skip
    evaluation = evaluate_command(
        [str(paths / "lstm")], paths / "j.tsv", paths / "c.tsv", paths / "out",
        traffic=[str(paths / "log.tsv")],
    )  # fmt: skip
    values = evaluation.values["lstm"]["ndcg@3"]
    red, blue = (evaluation.task.queries.index(query) for query in ("red hat", "blue box"))
    expected = 0.9 * values[red] + 0.1 * values[blue]
    written = json.loads((paths / "out" / "metrics.json").read_text())
    assert written["systems"]["lstm"]["parts"]["traffic"]["ndcg@3"] == pytest.approx(expected)
    table = (paths / "out" / "report.md").read_text()
    assert "## Weighted by traffic" in table
    assert "10 clicks of 2 queries, as uncertain as 1 query of equal weight" in table
    (paths / "log.tsv").write_text("query\ttitle\nother\tx\n")
    with pytest.raises(UserError, match="none of the 2 judged queries was clicked for"):
        evaluate_command(
            [], paths / "j.tsv", None, paths / "new", traffic=[str(paths / "log.tsv")],
        )  # fmt: skip
    assert not (paths / "new").exists()


def test_clicks_weighted_below_one_count_in_the_traffic():
    log = [("red hat", "x", 0.4), ("RED hat", "y", 0.2)]
    assert _clicks(["red hat", "other"], log, [], Layout()).tolist() == pytest.approx([0.6, 0])


def test_runs_of_trec_are_read_as_in_a_benchmark(paths, capsys):
    head = "query_id\tquery\tdoc_id\ttitle\tgrade\n"
    rows = "7\tred hat\td1\tred hat\t3\n8\tblue box\td2\tblue box\t1\n"
    (paths / "judged.tsv").write_text(head + rows)
    (paths / "theirs.trec").write_text("7 Q0 d1 1 2.0 t\n9 Q0 d3 1 1.0 t\n")
    files = paths / "judged.tsv", None
    evaluation = evaluate_command([], *files, paths / "out", runs=[str(paths / "theirs.trec")])
    assert evaluation.mean("theirs", "ndcg@1") == 0.5
    said = capsys.readouterr().out
    assert "theirs 1 judged queries are not listed; they count as 0: '8'" in said
    assert "theirs 1 listed queries are not judged here; they are left out: '9'" in said
    (paths / "theirs.trec").write_text("7 Q0 d1 1 inf t\n")
    with pytest.raises(UserError, match="score of 'd1' for query '7' is inf"):
        evaluate_command([], *files, paths / "new", runs=[str(paths / "theirs.trec")])


def test_without_a_corpus_and_without_models_the_baseline_stands_alone(paths):
    evaluation = evaluate_command([], paths / "j.tsv", None, paths / "out")
    assert evaluation.systems == ("bm25",)
    assert not evaluation.task.whole_corpus


@pytest.mark.parametrize(("corpus", "times"), [(None, 1), ("c.tsv", 0)])
def test_judgments_that_any_order_satisfies_are_warned_of(paths, corpus, times, capsys):
    rows = [row for row in JUDGMENTS.splitlines() if not row.endswith("\t0")]
    (paths / "j.tsv").write_text("\n".join(rows) + "\n")
    given = None if corpus is None else paths / corpus
    evaluate_command([], paths / "j.tsv", given, paths / "out")
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("For 2 of 2 queries all judged titles have the same grade: any") == times


def test_baselines_learn_from_the_clicks_of_a_data_directory(paths):
    # Nothing but clicks says that a chapeau is a hat.
    log = [Click("chapeau", "Red Hat", 3), Click("boite", "Blue Box", 2)]
    write_data(paths / "data", log, validation=())
    judged = JUDGMENTS.replace("red hat", "chapeau").replace("blue box", "boite")
    (paths / "j.tsv").write_text(judged)

    evaluation = evaluate_command(
        [], paths / "j.tsv", None, paths / "out", ["wtm"], data=paths / "data"
    )
    assert evaluation.mean("wtm", "ndcg@1") == 1
    with pytest.raises(UserError, match=r"it learns from clicks\. Give --data"):
        evaluate_command([], paths / "j.tsv", None, paths / "new", ["wtm"])


def test_clicks_that_no_baseline_would_learn_from_are_refused(paths):
    with pytest.raises(UserError, match="none is fitted"):
        evaluate_command([], paths / "j.tsv", None, paths / "out", [], data=paths)
    assert not (paths / "out").exists()


@pytest.mark.parametrize(
    ("models", "baselines", "message"),
    [
        (["{0}/lstm", "{0}/other/lstm"], ["bm25"], "two are called 'lstm'; rename one"),
        (["bm25={0}/lstm"], ["bm25"], "two are called 'bm25'"),
        (["={0}/lstm"], ["bm25"], "NAME=PATH"),
        ([], ["bm52"], "no baseline 'bm52'; choose from bm25"),
    ],
)
def test_names_that_clash_or_do_not_exist_are_refused(paths, models, baselines, message):
    models = [model.format(paths) for model in models]
    with pytest.raises(UserError, match=message):
        evaluate_command(models, paths / "j.tsv", None, paths / "out", baselines)


def test_an_existing_output_is_refused_before_any_work(paths):
    (paths / "out").mkdir()
    (paths / "out" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="exists already"):
        evaluate_command([], paths / "absent.tsv", None, paths / "out")
    assert (paths / "out" / "notes.txt").read_text() == "mine"


def test_the_modules_the_command_line_imports_are_light():
    code = (
        "import sys, dssm_tf.commands.evaluate, dssm_tf.evaluation.metrics;"
        "import dssm_tf.evaluation.ranker;"
        "heavy = {'tensorflow', 'keras', 'scipy', 'bm25s', 'matplotlib'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
