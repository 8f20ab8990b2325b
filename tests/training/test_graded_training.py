"""Training on judgments only: it learns, and the run records and checks the file."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.data.graded_sources import read_sources
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.run_files import training_query_ids
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.tables.graded_lists import GradedList
from dssm_tf.text.rules import FOLDED
from dssm_tf.training.validation import ValidationTask
from tests.data.graded.files import lists, write
from tests.reference.ranking_metrics import ndcg
from tests.training.configuration import config, trained
from tests.training.task_vectors import vectors_with_scores

pytestmark = pytest.mark.long  # trainings


@pytest.fixture(scope="module")
def judged(data, tmp_path_factory):
    return write(tmp_path_factory.mktemp("judged") / "j.tsv", data, queries=60)


def judgments_only(path, **changes):
    """Changes of the configuration to train on judgments and not on clicks."""
    return {
        "judgments__file": str(path),
        "judgments__batch_size": 8,
        "training__clicks": False,
        "training__monitor": "val_loss",
        "judgments__validation": 0.3,
        "optimizer__learning_rate": 0.05,
        "tower__dropout": 0.0,
    } | changes


@pytest.fixture(scope="module")
def run(data, judged, tmp_path_factory):
    out = tmp_path_factory.mktemp("graded") / "run"
    return out, trained(data, out, **judgments_only(judged, training__epochs=10))


def test_a_model_trained_on_judgments_only_ranks_new_queries(data, run):
    out, result = run
    assert result.metrics["similarity ndcg@1"] > result.untrained["ndcg@1"] + 0.1
    new = [judged for judged in lists(data, 60, seed=9) if len(set(judged.values)) > 1]
    ranker = SemanticRanker.load(out)
    is_first_best = [
        judged.values[int(np.argmax(ranker.score(judged.query, judged.titles)))]
        == max(judged.values)
        for judged in new
    ]
    assert np.mean(is_first_best) > 0.5  # about one of five by chance


def test_validation_is_the_ndcg_of_the_held_out_judged_lists(data, judged):
    settings = parse_config(config(**judgments_only(judged)))
    (source,) = read_sources(settings.lists, Preprocessed(data.path))
    task = ValidationTask.from_lists(source.validation, FOLDED, 1000)
    assert set(task.queries) <= {judged.query for judged in source.validation}
    scores = np.random.default_rng(0).normal(size=task.grades.shape).astype(np.float32)
    grades, judged = task.grades.toarray(), task.judged.toarray()
    expected = []
    for row, query in enumerate(task.queries):
        columns = np.flatnonzero(judged[row])
        order = columns[np.argsort(-scores[row, columns])]
        expected.append(ndcg(grades[row, order], 3))
        (graded,) = (graded for graded in source.validation if graded.query == query)
        assert len(columns) == len(graded.titles)
    assert task.ndcg(vectors_with_scores(scores))["ndcg@3"] == pytest.approx(
        np.mean(expected), abs=1e-6
    )


def test_the_run_records_the_judgments_that_it_was_trained_on(data, run):
    out, _ = run
    card = (out / "MODEL_CARD.md").read_text("utf-8")
    assert "| judgments | 270 grades of 60 queries from j.tsv (SHA-256 " in card
    assert "`training.clicks: false`" in card
    assert "Judged queries held out of training" in card
    assert "sha256: " in (out / "config.yaml").read_text("utf-8")
    judged_ids = {FOLDED.id(judged.query) for judged in lists(data, 60)}
    assert judged_ids <= set(training_query_ids(out).tolist())


def test_a_finished_run_refuses_another_file(data, run, judged, tmp_path):
    out, _ = run
    other = write(tmp_path / "j.tsv", data, queries=60, seed=5)
    with pytest.raises(UserError, match=r"finished run of another .* \(judgments"):
        trained(data, out, **judgments_only(other, training__epochs=10))
    assert trained(data, out, **judgments_only(judged, training__epochs=10)).seconds == 0


def test_lists_without_a_grade_above_0_are_no_validation_task():
    assert ValidationTask.from_lists([GradedList("q", ("a", "b"), (0.0, 0.0))], FOLDED, 10) is None
