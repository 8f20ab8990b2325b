"""`dssm evaluate`: its table, report, metrics and errors."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from tests.clicks import Click, write_data
from tests.commands.models import replace_load_run, write_run
from tests.script import python

JUDGMENTS = (
    "query_id\tquery\tdoc_id\ttitle\tgrade\n"
    "q1\tred hat\td1\tRed Hat\t2\nq1\tred hat\td2\tBlue Box\t0\n"
    "q2\tblue box\td2\tBlue Box\t1\nq2\tblue box\td1\tRed Hat\t0\n"
)
CORPUS = "doc_id\ttitle\nd1\tRed Hat\nd2\tBlue Box\nd3\tGreen Tie\n"


class Model:
    """Replaces a trained model: scores a title by the number of its letters in the model's name."""

    vocabulary = Vocabulary(["#re", "red", "ed#", "#ha", "hat", "at#"], FOLDED)

    def __init__(self, path):
        self.name = path.name

    def score_matrix(self, queries, titles):
        row = [sum(letter in self.name for letter in title) for title in titles]
        return np.tile(np.array(row, dtype=float), (len(queries), 1))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Writes judgments, a corpus and models to the working directory of the command."""
    monkeypatch.chdir(tmp_path)
    replace_load_run(monkeypatch, Model)
    Path("j.tsv").write_text(JUDGMENTS)
    Path("c.tsv").write_text(CORPUS)
    for model in ("lstm", "other/lstm"):
        write_run(Path(model), ["Red HAT"])


def metrics(out="out"):
    return json.loads(Path(out, "metrics.json").read_text())


def test_models_baselines_and_trec_runs_are_in_one_table(evaluate, capsys):
    Path("theirs.trec").write_text("q1 Q0 d1 1 2.0 t\n")
    evaluation = evaluate("lstm", "mine=other/lstm", corpus="c.tsv", runs=("theirs.trec",))
    assert evaluation.systems == ("bm25", "lstm", "mine", "theirs")
    assert evaluation.mean("bm25", "ndcg@1") == 1.0
    assert evaluation.mean("theirs", "ndcg@1") == 0.5
    assert Path("out/runs/mine.trec").is_file()
    output = capsys.readouterr().out
    for expected in (
        "NDCG@1",
        "report.html",
        "theirs 1 judged queries are not listed, such as 'q2'; they count as 0",
    ):
        assert expected in output


def test_known_and_new_queries_and_unknown_ngrams_are_reported(evaluate, capsys):
    evaluation = evaluate("lstm", corpus="c.tsv")
    red, blue = map(evaluation.task.queries.index, ("red hat", "blue box"))
    assert evaluation.in_log.tolist() == [index == red for index in range(2)]
    systems = metrics()["systems"]
    lstm, values = systems["lstm"], evaluation.values["lstm"]["ndcg@1"]
    known, new = (lstm["subsets"][subset] for subset in ("known", "new"))
    assert (known["ndcg@1"], new["ndcg@1"]) == (values[red], values[blue])
    assert new["queries"] == 1
    # "red hat" has 6 known trigrams; "blue box" (#bl blu lue ue# #bo box ox#) 7 unknown ones.
    assert lstm["facts"][0]["unknown_ngrams"] == pytest.approx(7 / 13)
    output = " ".join(capsys.readouterr().out.split())
    for expected in (
        "lstm lacks 54 % of the letter n-grams of the judged queries",
        "Queries that are not in the log:",
        "1 of the 2 queries are not in the click log",
        "The means are based on 2 queries, fewer than 200",
    ):
        assert expected in output
    assert "unknown_ngrams" not in systems["bm25"]["facts"][0]


def test_the_overlap_with_the_training_logs_of_models_and_baselines_is_counted(
    evaluate, tmp_path, capsys
):
    data = write_data(tmp_path / "data", [Click("blue box", "Blue Box", 5)], validation=())
    evaluation = evaluate("lstm", data=data.path)
    # The model's query ids have "red hat". It has no file of pairs.
    assert evaluation.overlaps == {"bm25": (1, 1, True), "lstm": (1, None, True)}
    systems = metrics()["systems"]
    assert systems["lstm"]["log_overlap"] == {"queries": 1, "pairs": None, "marked": True}
    output = " ".join(capsys.readouterr().out.split())
    assert output.startswith("WARNING: the training log of bm25 has 1 of the 2 measured queries")
    assert "lstm †" in output
    assert evaluate("lstm", out="without").overlaps == {"lstm": (1, None, True)}


def test_metrics_json_names_inputs_models_and_versions(evaluate):
    Path("theirs.trec").write_text("q1 Q0 d1 1 2.0 t\n")
    evaluate("mine=lstm", runs=("theirs.trec",))
    settings = metrics()["settings"]
    digest = hashlib.sha256(JUDGMENTS.encode()).hexdigest()
    assert settings["inputs"]["judgments"] == {"path": "j.tsv", "sha256": digest}
    assert settings["inputs"]["theirs"]["path"] == "theirs.trec"
    assert {"python", "dssm-tf", "tensorflow"} <= settings["versions"].keys()
    before = settings["models"]["mine"]
    assert before["path"] == "lstm"
    Path("lstm/model.weights.h5").write_text("other weights")
    evaluate("mine=lstm", out="new")
    assert metrics("new")["settings"]["models"]["mine"]["sha256"] != before["sha256"]


def test_without_a_corpus_and_models_the_baseline_ranks_judged_titles(evaluate):
    evaluation = evaluate()
    assert evaluation.systems == ("bm25",)
    assert not evaluation.task.ranks_corpus


def test_judged_titles_only_have_a_table_of_their_own(evaluate, capsys):
    evaluation = evaluate("lstm", corpus="c.tsv", judged_only=True)
    # bm25 ranks the right title of two judged ones first.
    assert evaluation.judged_only.mean("bm25", "concordance") == 1
    _, table = capsys.readouterr().out.split("Judged titles only:")
    assert "Concordance" in table
    entry = metrics()["judged_only"]["systems"]["lstm"]
    assert entry["concordance"] == evaluation.judged_only.mean("lstm", "concordance")
    evaluate("lstm", corpus="c.tsv", out="usual")
    assert metrics("usual")["judged_only"] is None


def test_judgments_for_which_any_order_is_perfect_cause_a_warning(evaluate, capsys):
    Path("j.tsv").write_text(re.sub(".*\t0\n", "", JUDGMENTS))
    evaluate()
    output = " ".join(capsys.readouterr().out.split())
    assert output.count("For 2 of 2 queries all judged titles have the same grade, so any") == 1


def test_baselines_learn_from_the_clicks_of_a_data_directory(evaluate):
    # Only the clicks connect "chapeau" with "hat".
    log = [Click("chapeau", "Red Hat", 3), Click("boite", "Blue Box", 2)]
    write_data(Path("data"), log, validation=())
    judgments = JUDGMENTS.replace("red hat", "chapeau").replace("blue box", "boite")
    Path("j.tsv").write_text(judgments)
    assert evaluate(baselines="wtm", data="data").mean("wtm", "ndcg@1") == 1
    with pytest.raises(UserError, match=r"wtm learns from clicks; .*\. Give --data"):
        evaluate(baselines="wtm", out="new")


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (["lstm", "other/lstm"], {}, "two entries have the name 'lstm'; rename one"),
        (["bm25=lstm"], {}, "two entries have the name 'bm25'"),
        (["=lstm"], {}, "=lstm': expected PATH or NAME=PATH"),
        ([], {"baselines": "", "data": "data"}, "only baselines learn from it"),
        ([], {"out": "other"}, "exists already"),
    ],
)
def test_invalid_arguments_are_refused_before_any_file_is_read(evaluate, models, options, message):
    if "data" not in options:
        Path("j.tsv").unlink()
    with pytest.raises(UserError, match=message):
        evaluate(*models, **options)
    assert not Path("out").exists()
    assert [path.name for path in Path("other").iterdir()] == ["lstm"]


def test_the_modules_of_the_command_line_import_no_heavy_package():
    code = """
import sys, dssm_tf.commands.evaluate, dssm_tf.evaluation.metrics, dssm_tf.evaluation.ranker
print({"tensorflow", "keras", "scipy", "bm25s", "matplotlib"} & set(sys.modules))
"""
    assert python(code) == "set()\n"
