"""Files of lists: splitting by query, checksums, and pairs that are unknown or clicked."""

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


def keys(graded) -> set[str]:
    return {FOLDED.key(judged.query) for judged in graded}


def test_no_query_is_in_both_training_and_validation(data, tmp_path):
    judged = lists(data, 200)
    write_lists(tmp_path / "j.tsv", "grade", judged)
    (source,) = sources(data, tmp_path / "j.tsv", validation=0.2)
    assert keys(source.training) | keys(source.validation) == keys(judged)
    assert not keys(source.training) & keys(source.validation)
    assert 20 <= len(source.validation) <= 60  # 40 of 200, five standard deviations
    (reread,) = sources(data, tmp_path / "j.tsv", validation=0.2)
    assert reread == source


def test_validation_queries_of_the_log_are_validation_queries_of_the_lists(data, tmp_path):
    validation = {FOLDED.key(pair.query) for pair in data.pairs["validation"]}
    queries = sorted({pair.query for pairs in data.pairs.values() for pair in pairs})
    titles = tuple(titles_of(data)[:3])
    write_lists(tmp_path / "s.tsv", "score", [GradedList(q, titles, (1, 2, 3)) for q in queries])
    (source,) = sources(data, tmp_path / "s.tsv", "teacher", validation=0.0)
    assert keys(source.validation) == validation
    assert keys(source.training) == {FOLDED.key(query) for query in queries} - validation


def test_training_queries_of_the_log_are_never_validation_queries(data, tmp_path):
    training = {FOLDED.key(pair.query) for pair in data.pairs["train"]}
    titles = tuple(titles_of(data)[:3])
    write_lists(tmp_path / "j.tsv", "grade", [GradedList(q, titles, (1, 2, 3)) for q in training])
    (source,) = sources(data, tmp_path / "j.tsv", validation=0.9)
    assert not keys(source.validation) & training
    assert keys(source.training) == training - keys(source.validation)


def test_pairs_whose_title_is_not_in_the_data_are_counted_and_one_is_quoted(data, tmp_path):
    query, title, *_ = data.pairs["train"][0]
    others = sorted({*titles_of(data)} - {title}, key=lambda text: FOLDED.id(text) % 2**64)
    first, other = others[:2]
    good = GradedList(query, (title, other), (0.0, 2.0))  # a score of 0 is an ordinary score
    odd = GradedList("zebra", ("a zebra", first, "zebra two"), (3.0, 0.0, 2.0))
    write_lists(tmp_path / "s.tsv", "score", [good, odd])
    (source,) = sources(data, tmp_path / "s.tsv", "teacher")
    summary = " ".join(source.summary_lines())
    assert "2 of 5 pairs of teacher have a title that is not in the data directory" in summary
    assert "'a zebra' for 'zebra'" in summary
    assert good in source.training


def test_clicked_titles_of_grade_0_are_left_out_and_counted(data, tmp_path):
    all_pairs = [pair for pairs in data.pairs.values() for pair in pairs]
    judged = []
    for query, title in {pair.query: pair.title for pair in data.pairs["train"]}.items():
        clicked = {pair.title for pair in all_pairs if pair.query == query}
        others = [other for other in titles_of(data) if other not in clicked][:2]
        judged.append(GradedList(query, (title, *others), (0.0, 1.0, 2.0)))
    judged[1] = judged[1]._replace(values=(0.5, 1.0, 2.0))
    write_lists(tmp_path / "j.tsv", "grade", judged)
    (source,) = sources(data, tmp_path / "j.tsv", validation=0.0)
    expected = [graded.values[not graded.values[0] :] for graded in judged]
    assert [graded.values for graded in source.training] == expected
    assert f"judgments: {len(judged) - 1} pairs of grade 0 are left" in " ".join(
        source.summary_lines()
    )


@pytest.mark.parametrize(
    ("titles", "scores", "message"),
    [
        (
            ["a zebra", "b"],
            (1.0, 2.0),
            "none of the titles of its 2 pairs is in the data directory",
        ),
        (None, (1.0, 1.0), "has two titles with different values"),
    ],
)
def test_lists_without_known_titles_or_differences_are_refused(
    data, tmp_path, titles, scores, message
):
    titles = tuple(titles or titles_of(data)[:2])
    write_lists(tmp_path / "s.tsv", "score", [GradedList("fox", titles, scores)])
    with pytest.raises(UserError, match=message):
        sources(data, tmp_path / "s.tsv", "teacher")


def test_a_run_refuses_to_resume_with_another_file(data, tmp_path):
    path = tmp_path / "j.tsv"
    write_lists(path, "grade", lists(data))
    first = resolve_files(config(path))
    assert len(first.judgments.sha256) == 64
    assert resolve_files(first) == first
    write_lists(path, "grade", lists(data, seed=1))
    with pytest.raises(UserError, match=r"judgments.sha256: .*the configuration expects"):
        resolve_files(first)


def test_a_missing_file_and_a_training_without_sources_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"nothing.tsv cannot be read: No such file"):
        resolve_files(config(tmp_path / "nothing.tsv"))
    no_source = parse_config({"tower": {"name": "dssm"}, "training": {"clicks": False}})
    with pytest.raises(UserError, match="leaves nothing to train on; give --judgments"):
        resolve_files(no_source)
