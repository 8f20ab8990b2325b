"""`dssm features`: the score and its parts in SVMlight's format."""

from __future__ import annotations

import numpy as np
import pytest
from pytest import approx
from sklearn.datasets import load_svmlight_file

from dssm_tf.cli import main
from dssm_tf.export.features import feature_lines, feature_names
from dssm_tf.runtime import MaxSimRanker, load
from dssm_tf.runtime.trained_ranker import TrainedRanker
from dssm_tf.tables.judgments import Judgment, write_judgments
from tests.runtime.maxsim_models import SETTINGS, TITLES, random_model, write_compact_model

JUDGMENTS = [
    Judgment("q1", "red shoe", "d1", TITLES[0], 2.0),
    Judgment("q2", "box lid #7", "d1", TITLES[0], 0.0),
    Judgment("q1", "red shoe", "d2", TITLES[1], 1.33),
    Judgment("q2", "box lid #7", "d#4", TITLES[4], 3.0),
]


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory):
    model = random_model([*TITLES, *TITLES])
    return write_compact_model(model, tmp_path_factory.mktemp("model") / "1", {TITLES[0]: -1.0})


def test_each_line_has_grade_query_features_and_ids(model_directory, tmp_path, capsys):
    write_judgments(tmp_path / "judgments.tsv", JUDGMENTS)
    out = tmp_path / "features.txt"
    flags = ["--judgments", str(tmp_path / "judgments.tsv"), "--out", str(out)]
    assert main(["features", "--model", str(model_directory), *flags]) == 0
    assert "4 lines of 2 queries" in capsys.readouterr().err
    first, *lines = out.read_text("utf-8").splitlines()
    names = ["score", "query_words", "title_words", "pairs", "text_cosine", "prior"]
    names.append("remembered_clicks")
    assert first == "# " + " ".join(f"{number}:{name}" for number, name in enumerate(names, 1))
    # Lines of a query follow each other.
    ids = [line.partition(" # ")[2] for line in lines]
    assert ids == ["q1\td1", "q1\td2", "q2\td1", "q2\td#4"]
    values, grades, queries = load_svmlight_file(str(out), query_id=True)
    assert grades.tolist() == [2, 1.33, 0, 3]
    assert queries.tolist() == [1, 1, 2, 2]
    ranker = load(model_directory)
    scores = [*ranker.score("red shoe", TITLES[:2]), *ranker.score("box lid #7", TITLES[:5:4])]
    table = values.toarray()
    assert table[:, 0] == approx(scores, abs=1e-6)
    assert table[:, 1:].sum(axis=1) == approx(scores, abs=1e-5)
    titles = [TITLES[row] for row in (0, 1, 0, 4)]
    queries = [judgment.query for judgment in sorted(JUDGMENTS, key=lambda row: row.query_id)]
    cosines = [
        ranker.word_matches(query, title).text_cosine
        for query, title in zip(queries, titles, strict=True)
    ]
    expected = [sum(part.contribution for part in parts) for parts in cosines]
    assert table[:, names.index("text_cosine")] == approx(expected, abs=1e-6)
    assert np.abs(expected).max() > 0.01
    assert table[:, names.index("prior")] == approx(ranker.weighted_prior(titles))


def test_the_text_cosine_of_a_model_without_text_vectors_is_0():
    model = random_model([*TITLES, *TITLES], text_cosine=0)
    ranker = MaxSimRanker(SETTINGS, model, lambda titles: np.zeros(len(titles), np.float32))
    column = 1 + feature_names(ranker).index("text_cosine")
    (lines,) = feature_lines(ranker, [JUDGMENTS[0], JUDGMENTS[2]])
    assert [line.split()[1 + column] for line in lines] == [f"{column}:0"] * 2


class Cosines(TrainedRanker):
    """A model whose similarity is the number of equal words."""

    def similarity_matrix(self, queries, titles):
        return np.array([[len({*q.split()} & {*t.split()}) for t in titles] for q in queries], "f4")

    def score_matrix(self, queries, titles):
        return self.similarity_matrix(queries, titles) + self.weighted_prior(titles)

    def score_pairs(self, queries, titles):
        return self.score_matrix(queries, titles)[0]

    def weighted_prior(self, titles):
        return np.full(len(titles), -0.5, np.float32)

    def _weighted_priors(self, titles):
        return self.weighted_prior(titles)


def test_a_cosine_model_has_similarity_and_prior():
    assert feature_names(Cosines()) == ("score", "similarity", "prior")
    (lines,) = feature_lines(Cosines(), [JUDGMENTS[0], JUDGMENTS[2]])
    assert lines == [
        "2 qid:1 1:1.5 2:2 3:-0.5 # q1\td1\n",
        "1.33 qid:1 1:0.5 2:1 3:-0.5 # q1\td2\n",
    ]


def test_a_table_without_ids_is_an_error(model_directory, tmp_path, capsys):
    (tmp_path / "judgments.tsv").write_text("query\ttitle\nred\tred shoe\n", "utf-8")
    flags = ["--judgments", str(tmp_path / "judgments.tsv"), "--out", str(tmp_path / "out.txt")]
    assert main(["features", "--model", str(model_directory), *flags]) == 1
    assert "expected 'query_id'" in capsys.readouterr().err
    assert not (tmp_path / "out.txt").exists()
