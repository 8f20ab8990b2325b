"""Files of lists: divided by query, tied to a run, strangers counted and named."""

from __future__ import annotations

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.tables.graded_lists import GradedList, write_lists
from dssm_tf.text.rules import FOLDED
from dssm_tf.training.resolve import resolve_files
from tests.data.graded.files import lists, sources, titles_of


def config(path):
    return parse_config({"tower": {"name": "dssm"}, "judgments": {"file": str(path)}})


def keys(part) -> set[str]:
    return {FOLDED.key(one.query) for one in part}


def test_no_query_is_both_learned_from_and_held_out(data, tmp_path):
    judged = lists(data, 200)
    write_lists(tmp_path / "j.tsv", "grade", judged)
    (source,) = sources(data, tmp_path / "j.tsv", validation=0.2)
    assert keys(source.training) | keys(source.held_out) == keys(judged)
    assert not keys(source.training) & keys(source.held_out)
    assert 20 <= len(source.held_out) <= 60  # 40 of 200, five standard deviations
    (again,) = sources(data, tmp_path / "j.tsv", validation=0.2)
    assert again == source


def test_queries_that_validate_the_log_are_held_out_of_the_lists_too(data, tmp_path):
    validating = {FOLDED.key(one.query) for one in data.pairs["validation"]}
    every = sorted({one.query for part in data.pairs.values() for one in part})
    titles = tuple(titles_of(data)[:3])
    write_lists(tmp_path / "s.tsv", "score", [GradedList(q, titles, (1, 2, 3)) for q in every])
    (source,) = sources(data, tmp_path / "s.tsv", "teacher", validation=0.0)
    assert keys(source.held_out) == validating
    assert keys(source.training) == {FOLDED.key(query) for query in every} - validating


def test_queries_whose_clicks_are_trained_on_never_validate(data, tmp_path):
    learned = {FOLDED.key(one.query) for one in data.pairs["train"]}
    titles = tuple(titles_of(data)[:3])
    write_lists(tmp_path / "j.tsv", "grade", [GradedList(q, titles, (1, 2, 3)) for q in learned])
    (source,) = sources(data, tmp_path / "j.tsv", validation=0.9)
    assert not keys(source.held_out) & learned
    assert keys(source.training) == learned - keys(source.held_out)


def test_pairs_with_titles_that_the_data_lack_are_counted_and_named(data, tmp_path):
    query, title, *_ = data.pairs["train"][0]
    first, other = sorted({*titles_of(data)} - {title}, key=lambda one: FOLDED.id(one) % 2**64)[:2]
    good = GradedList(query, (title, other), (0.0, 2.0))  # a score of 0 is as good as any
    odd = GradedList("zebra", ("a zebra", first, "zebra two"), (3.0, 0.0, 2.0))
    write_lists(tmp_path / "s.tsv", "score", [good, odd])
    (source,) = sources(data, tmp_path / "s.tsv", "teacher")
    said = " ".join(source.summary_lines())
    assert "2 of 5 pairs of teacher have a title that the data directory does not hold" in said
    assert "'a zebra' for 'zebra'" in said
    assert good in source.training


def test_clicked_titles_of_grade_0_are_left_out_and_counted(data, tmp_path):
    every = [one for part in data.pairs.values() for one in part]
    judged = []
    for query, title in {one.query: one.title for one in data.pairs["train"]}.items():
        clicked = {one.title for one in every if one.query == query}
        others = [other for other in titles_of(data) if other not in clicked][:2]
        judged.append(GradedList(query, (title, *others), (0.0, 1.0, 2.0)))
    judged[1] = judged[1]._replace(values=(0.5, 1.0, 2.0))
    write_lists(tmp_path / "j.tsv", "grade", judged)
    (source,) = sources(data, tmp_path / "j.tsv", validation=0.0)
    expected = [one.values[not one.values[0] :] for one in judged]
    assert [one.values for one in source.training] == expected
    assert f"judgments: {len(judged) - 1} pairs of grade 0 are left" in " ".join(
        source.summary_lines()
    )


@pytest.mark.parametrize(
    ("titles", "numbers", "says"),
    [
        (["a zebra", "b"], (1.0, 2.0), "none of its 2 pairs has a title that the data directory"),
        (None, (1.0, 1.0), "has two titles with different numbers"),
    ],
)
def test_lists_that_teach_nothing_are_refused(data, tmp_path, titles, numbers, says):
    titles = tuple(titles or titles_of(data)[:2])
    write_lists(tmp_path / "s.tsv", "score", [GradedList("fox", titles, numbers)])
    with pytest.raises(UserError, match=says):
        sources(data, tmp_path / "s.tsv", "teacher")


def test_a_configuration_is_tied_to_the_file_it_began_with(data, tmp_path):
    path = tmp_path / "j.tsv"
    write_lists(path, "grade", lists(data))
    first = resolve_files(config(path))
    assert len(first.judgments.sha256) == 64
    assert resolve_files(first) == first
    write_lists(path, "grade", lists(data, seed=1))
    with pytest.raises(UserError, match=r"judgments.sha256: .*the configuration asks for"):
        resolve_files(first)


def test_without_its_file_or_any_source_there_is_nothing_to_learn_from(tmp_path):
    with pytest.raises(UserError, match=r"nothing.tsv cannot be read: No such file"):
        resolve_files(config(tmp_path / "nothing.tsv"))
    alone = parse_config({"tower": {"name": "dssm"}, "training": {"clicks": False}})
    with pytest.raises(UserError, match="leaves nothing to learn from; give --judgments"):
        resolve_files(alone)
