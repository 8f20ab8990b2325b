"""OpenSearch UBI events, on small files of the published layout."""

import pytest

from dssm_tf.commands.data import convert as convert_command
from dssm_tf.common.errors import UserError
from tests.datasets.tables import SOURCES, event, objects, write_source


def test_ubi_takes_titles_from_a_catalog(source, convert):
    write_source(source, "ubi")
    lines = """\
{"id": "A", "name": "Kettle"}
{"_source": {"doc_id": "C", "name": "C"}}
{"id": "D"}
"""
    more = ({"id": n, "name": f"T{n}"} for n in range(9))
    (source / "products.ndjson").write_text(lines + objects(*more), "utf-8")
    clicks, corpus, _ = convert("ubi", settings=["title=name"])
    assert corpus[:2] == [("A", "Kettle"), ("C", "C")]
    assert len(corpus) == 11
    assert {row.title for row in clicks} == {"Kettle"}


def test_ubi_takes_milliseconds_and_the_session_of_the_client(source, convert):
    click = event("click", "q1", "A", 1714557600000)
    del click["event_attributes"]["session_id"]
    write_source(source, "ubi", ubi_events=objects(click, click | {"session_id": "s2"}))
    clicks, _, _ = convert("ubi", held_out=0)
    assert [(row.query, row.timestamp, row.session) for row in clicks] == [
        ("kettle", "1714557600000", "c1"),
        ("kettle", "1714557600000", "s2"),
    ]


def test_ubi_actions_that_are_not_clicks_are_named(source, convert):
    write_source(source, "ubi")
    with pytest.raises(UserError, match=r"no event named buy; its actions are click, impression"):
        convert("ubi", settings=["clicks=buy"])


def test_a_bad_line_is_counted_and_skipped_and_the_rest_is_used(tmp_path, source, capsys):
    lines = [event("click", "q1", "A", f"2024-05-02T10:00:{n:02}Z") for n in range(40)]
    lines[3]["event_attributes"] = "none"
    lines[7]["timestamp"] = "yesterday"
    write_source(source, "ubi", ubi_events=objects(*lines) + "{no json\n")
    convert_command("ubi", source, tmp_path / "out")
    output = capsys.readouterr().out
    for reason in ("no usable timestamp", "not JSON"):
        assert f"left out: 1 x {reason}, in ubi_events.ndjson" in output
    assert "left out: 1 x event without a known query or without an object" in output
    notes = (tmp_path / "out" / "NOTES.md").read_text("utf-8")
    assert "left out: 1 x not JSON, in ubi_events.ndjson." in notes


def test_too_many_bad_lines_are_refused_with_the_limit_of_a_log(source, convert):
    text = SOURCES["ubi"]["ubi_events.ndjson"] + "{no json\n" * 3
    write_source(source, "ubi", ubi_events=text)
    with pytest.raises(
        UserError, match=r"3 of 10 rows are malformed.*30.0% .*events.ndjson:9: {no json"
    ):
        convert("ubi")


def test_a_log_too_small_for_judgments_is_reported(tmp_path, source, capsys):
    write_source(source, "ubi")
    convert_command("ubi", source, tmp_path / "out")  # a fifth of 3 clicks is less than 1
    assert "0 rows of judgments.tsv" in capsys.readouterr().out
    notes = (tmp_path / "out" / "NOTES.md").read_text("utf-8")
    assert "with --held-out 0.2" in notes
    assert "0 rows of judgments.tsv" in notes


def test_events_are_ordered_by_time_and_not_as_text(source, convert):
    times = ["2024-05-01T10:00:00+02:00", "2024-05-01T09:30:00Z", "2024-05-01T08:30:00Z"]
    clicked = (event("click", "q1", id_, at) for id_, at in zip("ABC", times, strict=True))
    write_source(source, "ubi", ubi_events=objects(*clicked))
    # 10:00 in Berlin is 8:00 UTC.
    clicks, _, judgments = convert("ubi", held_out=1 / 3)
    assert [row.title for row in clicks] == ["TA", "TC"]
    assert [row[2] for row in judgments] == ["B"]
