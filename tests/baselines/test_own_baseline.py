"""The example of docs/baselines.md: a baseline and a metric from outside the package."""

import re

import pytest

from dssm_tf.baselines.base import Baseline
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.reports.files import REPORT_FILES, write

BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)


@pytest.fixture
def example(checkout, tmp_path, monkeypatch):
    """The names that the example defines, after it ran."""
    monkeypatch.chdir(tmp_path)
    (code,) = BLOCK.findall((checkout / "docs" / "baselines.md").read_text("utf-8"))
    names = {"__name__": "__main__"}  # pydantic looks for the module of a class
    exec(code, names)
    return names


def test_the_documented_baseline_and_metric_can_be_evaluated_with_others(example):
    evaluation = example["evaluation"]
    assert evaluation.systems == ("overlap", "bm25")
    for system in evaluation.systems:
        assert evaluation.mean(system, "success@1") == 1.0
        assert evaluation.mean(system, "ndcg@10") == 1.0
    assert {*evaluation.summary()["metric"]} == {"ndcg@10", "success@1"}


def test_the_documented_baseline_is_saved_tuned_and_rejects_wrong_values(example, tmp_path):
    kind, model = example["Overlap"], example["model"]
    assert issubclass(kind, Baseline)
    assert isinstance(model, Ranker)
    assert model.parameters() == {"penalty": 1.0}  # loaded
    titles = example["titles"]
    # red hat: both words of 2; red red shoe: red twice of 3; blue hat: one of 2
    assert model.score("red hat", titles).tolist() == pytest.approx([1, 2 / 3, 1 / 2])
    assert model.with_parameters(penalty=0.0).score("red hat", titles).tolist() == [2, 2, 1]
    with pytest.raises(ValueError, match=r"^overlap: penalty is -1; it should be greater than"):
        kind(penalty=-1)


def test_reports_have_the_documented_metric(example, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    write(example["evaluation"], out)
    assert {path.name for path in out.iterdir()} == {
        name.rstrip("/") for name in REPORT_FILES.split(", ")
    }
    for name in ("report.md", "report.html", "metrics.json", "per_query.tsv"):
        assert "success@1" in (out / name).read_text("utf-8")
