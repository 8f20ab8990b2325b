"""A training from judgments and a teacher: it learns, is tied to its files, says so."""

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
from tests.training.scored import scored


@pytest.fixture(scope="module")
def judged(data, tmp_path_factory):
    return write(tmp_path_factory.mktemp("judged") / "j.tsv", data, queries=60)


def alone(path, **changes):
    """Changes of the configuration by which judgments alone are learned from."""
    return {
        "judgments__file": str(path),
        "judgments__batch_size": 8,
        "training__clicks": False,
        "training__monitor": "loss",
        "judgments__validation": 0.3,
        "optimizer__learning_rate": 0.05,
        "tower__dropout": 0.0,
    } | changes


@pytest.fixture(scope="module")
def run(data, judged, tmp_path_factory):
    out = tmp_path_factory.mktemp("graded") / "run"
    return out, trained(data, out, **alone(judged, training__epochs=10))


def test_judgments_alone_teach_a_model_that_ranks_queries_it_never_saw(data, run):
    out, result = run
    assert result.ndcg["cosine ndcg@1"] > result.untrained["ndcg@1"] + 0.1
    new = [one for one in lists(data, 60, seed=9) if len(set(one.values)) > 1]
    ranker = SemanticRanker.load(out)
    right = [
        one.values[int(np.argmax(ranker.score(one.query, one.titles)))] == max(one.values)
        for one in new
    ]
    assert np.mean(right) > 0.5  # about one of five by chance


def test_validation_is_ndcg_of_the_held_out_judged_lists_alone(data, judged):
    made = parse_config(config(**alone(judged)))
    (source,) = read_sources(made.lists, Preprocessed(data.path))
    task = ValidationTask.from_lists(source.validation, FOLDED, 1000)
    assert set(task.queries) <= {one.query for one in source.validation}
    scores = np.random.default_rng(0).normal(size=task.grades.shape).astype(np.float32)
    grades, judged = task.grades.toarray(), task.judged.toarray()
    expected = []
    for row, query in enumerate(task.queries):
        columns = np.flatnonzero(judged[row])
        order = columns[np.argsort(-scores[row, columns])]
        expected.append(ndcg(grades[row, order], 3))
        (own,) = (one for one in source.validation if one.query == query)
        assert len(columns) == len(own.titles)
    assert task.ndcg(scored(scores))["ndcg@3"] == pytest.approx(np.mean(expected), abs=1e-6)


def test_the_card_and_the_run_s_files_say_what_was_learned_from(data, run):
    out, _ = run
    card = (out / "MODEL_CARD.md").read_text("utf-8")
    assert "| judgments | 270 grades of 60 queries from j.tsv (SHA-256 " in card
    assert "`training.clicks: false`" in card
    assert "Judged queries held out of training" in card
    assert "sha256: " in (out / "config.yaml").read_text("utf-8")
    learned = {FOLDED.id(one.query) for one in lists(data, 60)}
    assert learned <= set(training_query_ids(out).tolist())


def test_a_finished_run_refuses_another_file(data, run, judged, tmp_path):
    out, _ = run
    other = write(tmp_path / "j.tsv", data, queries=60, seed=5)
    with pytest.raises(UserError, match=r"finished run of another .* \(judgments"):
        trained(data, out, **alone(other, training__epochs=10))
    assert trained(data, out, **alone(judged, training__epochs=10)).seconds == 0


def test_lists_without_a_good_title_validate_nothing():
    assert ValidationTask.from_lists([GradedList("q", ("a", "b"), (0.0, 0.0))], FOLDED, 10) is None
