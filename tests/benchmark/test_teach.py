"""`dssm teach`: what to embed, and a teacher's cosines of clicked, best and drawn titles."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.benchmark.teacher import Lesson, teach
from dssm_tf.commands.teach import teach as teach_command
from dssm_tf.common.errors import UserError
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.tables.graded_lists import read_scores
from dssm_tf.text.rules import FOLDED, Rules
from tests.clicks import Click, click_log, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("teacher") / "data", click_log())


@pytest.fixture(scope="module")
def lesson(data):
    return Lesson.of(Preprocessed(data.path))


def vectors(folder, lesson, seed=0):
    """Random vectors of queries and titles, their files, and their cosines."""
    rng = np.random.default_rng(seed)
    made = [rng.normal(size=(len(texts), 5)) for texts in lesson[:2]]
    paths = tuple(folder / f"{name}.npy" for name in ("q", "t"))
    for path, one in zip(paths, made, strict=True):
        np.save(path, one.astype(np.float32))
    unit = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in made]
    return paths, unit[0] @ unit[1].T


def test_every_query_of_the_log_is_asked_about_with_its_clicked_and_the_teacher_s_best_titles(
    lesson, tmp_path
):
    paths, cosines = vectors(tmp_path, lesson)
    clicked = {}
    for click in click_log():
        clicked.setdefault(FOLDED.key(click.query), set()).add(click.title)
    found = list(teach(lesson, paths, best=3, random=2))
    assert [FOLDED.key(one.query) for one in found] == sorted(clicked)
    for row, one in zip(cosines, found, strict=True):
        best = {lesson.titles[place] for place in np.argsort(-row)[:3]}
        assert clicked[FOLDED.key(one.query)] | best <= set(one.titles)
        assert len(one.titles) == len(set(one.titles)) <= len(clicked[FOLDED.key(one.query)]) + 5
        expected = [row[lesson.titles.index(title)] for title in one.titles]
        np.testing.assert_allclose(one.values, expected, atol=1e-6)


def test_drawn_titles_are_others_for_every_query_and_the_same_for_a_seed(lesson, tmp_path):
    paths, _ = vectors(tmp_path, lesson)
    first, again, other = (list(teach(lesson, paths, 0, 4, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_titles_are_queries_too_where_asked_for(data, lesson):
    more = Lesson.of(Preprocessed(data.path), title_queries=True)
    assert set(more.queries) > set(lesson.queries)
    assert {FOLDED.key(title) for title in lesson.titles} <= {FOLDED.key(q) for q in more.queries}


def test_texts_are_one_by_the_rules_of_the_directory(tmp_path):
    log = [Click("pâté", "Crème"), Click("pate", "creme"), Click("Pate", "Crème")]
    kept = write_data(tmp_path / "kept", log, rules=Rules(keep_accents=True)).path
    found = Lesson.of(Preprocessed(kept))
    assert dict(zip(found.queries, found.clicked, strict=True)) == {"pate": (0, 1), "pâté": (1,)}
    folded = Lesson.of(Preprocessed(write_data(tmp_path / "folded", log).path))
    assert (len(folded.queries), folded.clicked) == (1, ((0,),))


def test_the_command_writes_what_to_embed_and_then_scores_that_train_reads(data, tmp_path):
    out = tmp_path / "out"
    teach_command(data=data.path, out=out)
    rows = (out / "queries.tsv").read_text("utf-8").splitlines()
    lesson = Lesson.of(Preprocessed(data.path))
    assert [row.split("\t")[1] for row in rows[1:]] == list(lesson.queries)
    paths, cosines = vectors(tmp_path, lesson)
    teach_command(data=data.path, out=out, embeddings=(*map(str, paths),), best=2, random=1)
    (first, *_), everything = (
        read_scores(out / "scores.tsv", FOLDED),
        read_scores(out / "scores.tsv", FOLDED),
    )
    assert len(everything) == len(lesson.queries)
    assert first.values[0] == pytest.approx(
        cosines[0, lesson.titles.index(first.titles[0])], abs=1e-6
    )


def test_vectors_of_other_texts_are_refused_and_nothing_is_written(data, lesson, tmp_path):
    paths, _ = vectors(tmp_path, lesson)
    given = {"data": data.path, "out": tmp_path / "out", "embeddings": (*map(str, paths),)}
    np.save(paths[0], np.zeros((3, 5), np.float32))
    with pytest.raises(UserError, match=r"q.npy has 3 rows and"):
        teach_command(**given)
    assert not (tmp_path / "out" / "scores.tsv").exists()
    with pytest.raises(UserError, match=r"queries.tsv is of other data, or of another"):
        teach_command(data=data.path, out=tmp_path / "out", title_queries=True)
    with pytest.raises(UserError, match="expected at least one title"):
        teach_command(**given, best=0, random=0)
