"""The description of a log in the report of preprocess, and the same by `dssm data check`."""

from __future__ import annotations

import inspect
import json
from collections import Counter, defaultdict
from dataclasses import MISSING, fields
from itertools import permutations

import pyarrow
import pytest
from pyarrow import csv, parquet

from dssm_tf import cli
from dssm_tf.api.preprocessing import PreprocessSettings
from pipelines import check
from pipelines.check_log import check_log
from pipelines.log_sections import log_sections, to_markdown, to_text
from pipelines.log_statistics import LogStatistics, TextExample, merge_statistics
from pipelines.options import PreprocessOptions

HEADER = "query\ttitle\tclicks\tsession_id\ttimestamp\timpressions"


def rows(count: int, query: str, title: str, clicks: int = 1, day: str = "2024-01-01") -> list[str]:
    """Rows of as many sessions."""
    return [f"{query}\t{title}\t{clicks}\t{query}-{n}\t{day} 10:00\t1" for n in range(count)]


@pytest.fixture
def log() -> str:
    """A log with frequent and rare queries, robots, merged titles and unusable rows."""
    lines = [HEADER, *rows(12, "halo", "Halo: Reach"), *rows(3, "HALO!", "halo reach")]
    lines += rows(9, "jane doe diary", "Diary", day="2024-01-03")
    lines += rows(11, "zune", "Halo: Reach", clicks=0)
    lines += rows(9, "seldom unclicked", "Diary", clicks=0)
    lines += rows(2, "halo", "Halo: Reach", clicks=0)
    # Nine clicks of one session, and a robot with four queries.
    lines += ["john doe\tDiary\t1\tone\t2024-01-04\t1"] * 9
    lines += [f"robot {n}\tDiary\t2\trobot\t2024-01-04\t1" for n in range(4)]
    lines += ["???\tDiary\t1\ts\t2024-01-04\t1", "halo\tDiary\tmany\ts\t2024-01-04\t1"]
    lines += ["blocked word\tDiary\t1\ts\tyesterday\t1", "halo\tDiary\t1\t\t\t1"]
    return "\n".join(lines) + "\n"


@pytest.fixture
def options(write, log, tmp_path):
    """Options for the log."""

    def options(text: str = log, **flags) -> PreprocessOptions:
        paths = {
            "input": write("log.tsv", text),
            "corpus": write("corpus.tsv", "title\nHalo: Reach\nTetris\nTETRIS!\n"),
            "block_list": write("blocked.txt", "blocked\n"),
        }
        flags = {
            "input": (str(paths["input"]),),
            "corpus": (str(paths["corpus"]),),
            "block_list": str(paths["block_list"]),
            "max_queries_per_session": 3,
            "max_reject_fraction": 0.5,
            **flags,
        }
        return PreprocessOptions(output=str(tmp_path / "out"), **flags)

    return options


def test_the_report_describes_the_log(options):
    log, warnings = check_log(options())
    # 54 rows: 15 halo, 9 diary, 22 unclicked, 9 + 4 of sessions, 4 others; one is malformed.
    assert log["rows"] == 15 + 9 + 22 + 9 + 4 + 4
    assert log["days"]["clicks"] == {"2024-01-01": 15, "2024-01-03": 9, "2024-01-04": 9 + 8 + 1}
    assert (log["days"]["first"], log["days"]["last"]) == ("2024-01-01", "2024-01-04")
    assert log["days"]["without_a_click"] == ["2024-01-02"]
    assert log["days"]["rows_without_a_time"] == log["days"]["rows_with_an_unreadable_time"] == 1
    # halo 12 + 3 + 1, diary 9, john doe once per session.
    assert (log["queries"]["number"], log["queries"]["clicks"]) == (3, 16 + 9 + 1)
    assert log["queries"]["by_clicks"] == [
        {"from": 1, "to": 1, "texts": 1, "clicks": 1},
        {"from": 2, "to": 9, "texts": 1, "clicks": 9},
        {"from": 10, "to": 99, "texts": 1, "clicks": 16},
    ]
    assert log["queries"]["half"] == 1  # 16 of 26 clicks
    assert log["queries"]["with_several_spellings"] == 1
    # 15 sessions and a click without one.
    assert log["queries"]["top"] == [{"query": "halo", "clicks": 16, "sessions": 16}]
    assert log["titles"]["merged"] == [["Halo: Reach", "halo reach"]]
    assert log["unclicked"] == {
        "queries": 2,
        "impressions": 11 + 9,
        "all_impressions_without_a_click": 11 + 9 + 2,
        "top": [{"query": "zune", "impressions": 11, "sessions": 11}],
    }
    assert log["catalog"] == {
        "rows": 3,
        "titles": 2,
        "without_a_click": 1,
        "with_several_spellings": 1,
        "unmatched": {
            "titles": 1,
            "clicks": 11,
            "top": [{"title": "Diary", "clicks": 11}],
        },
    }
    assert log["sessions"]["dropped"] == [
        {
            "reason": "session with many queries", "limit": 3, "largest": 4, "sessions": 1,
            "rows": 4, "clicks": 8,
        }
    ]  # fmt: skip
    dropped = {row["reason"]: (row["rows"], row["examples"]) for row in log["dropped"]}
    assert dropped == {
        "malformed: clicks is not a number": (
            1, ["log.tsv:62: halo Diary many s 2024-01-04 1"]
        ),
        "blocked": (1, []),
        "no click": (22, []),
        "no words": (1, ["query ???"]),
        "repeated in session": (8, []),
        "session with many queries": (4, []),
    }  # fmt: skip
    assert warnings == []


@pytest.mark.parametrize("shards", [1, 4])
def test_preprocess_and_check_describe_a_log_alike(options, log, run, shards):
    settings = options(shards=shards)
    flags = ["--max-queries-per-session", "3", "--max-reject-fraction", "0.5"]
    flags += ["--corpus", *settings.corpus, "--block-list", settings.block_list]
    earlier = run(*flags, "--shards", str(5 - shards), log=log)
    data = run(*flags, "--shards", str(shards), "--previous-report", str(earlier.path), log=log)
    settings = options(shards=shards, previous_report=str(earlier.path))
    assert check_log(settings)[0] == data.report["log"]
    text = (data.path / "report.md").read_text("utf-8")
    assert to_markdown(log_sections(data.report["log"])) in text


def test_rare_queries_are_not_shown(options, run, log, capsys):
    settings = options()
    flags = ["--max-queries-per-session", "3", "--max-reject-fraction", "0.5"]
    data = run(*flags, "--block-list", settings.block_list, log=log)
    files = [data.path / f"report.{ending}" for ending in ("json", "md", "html")]
    capsys.readouterr()
    command = ["data", "check", *settings.input, *flags, "--block-list", settings.block_list]
    assert cli.main(command) == 0
    for text in [*(file.read_text("utf-8") for file in files), capsys.readouterr().out]:
        assert "zune" in text
        for rare in ("jane", "seldom", "john", "robot 1", "blocked word"):
            assert rare not in text, rare
    few = check_log(options(report_min_sessions=9))[0]
    assert [row["query"] for row in few["queries"]["top"]] == ["halo", "jane doe diary"]
    assert [row["query"] for row in few["unclicked"]["top"]] == ["zune", "seldom unclicked"]


def test_of_a_log_without_sessions_clicks_decide_which_queries_are_shown(options):
    text = "query\ttitle\tclicks\nten\tA\t4\nten\tB\t6\nnine\tA\t9\nunseen\tA\t0\n"
    log, _ = check_log(options(text))
    assert log["queries"]["top"] == [{"query": "ten", "clicks": 10, "sessions": 10}]
    assert log["unclicked"]["queries"] == 1
    assert log["unclicked"]["top"] == []


def test_a_session_counts_once_however_many_titles_it_has(options):
    lines = [HEADER]
    for title in range(10):
        lines += [f"clicked\tT{title}\t3\ts{n}\t\t1" for n in range(5)]
        lines += [f"seen\tT{title}\t0\ts{n}\t\t1" for n in range(5)]
    text = "\n".join(lines) + "\n"
    log, _ = check_log(options(text, report_min_sessions=5))
    assert log["queries"]["top"] == [{"query": "clicked", "clicks": 150, "sessions": 5}]
    assert log["unclicked"]["top"] == [{"query": "seen", "impressions": 50, "sessions": 5}]
    log, _ = check_log(options(text, report_min_sessions=6))
    assert (log["queries"]["top"], log["unclicked"]["top"]) == ([], [])


@pytest.mark.parametrize("shards", ["1", "4"])
def test_changes_are_measured_against_the_previous_output(options, run, shards):
    before = "query\ttitle\tclicks\nold\tTetris\t6\ngone\tPong\t2\n"
    corpus = options().corpus[0]
    earlier = run("--corpus", corpus, "--shards", shards, log=before)
    now = "query\ttitle\tclicks\nOLD\ttetris\t3\nnew\tZelda\t12\nnew\tpong!\t5\n"
    log, _ = check_log(options(now, previous_report=str(earlier.path), shards=2))
    drift = log["drift"]
    # Titles of the earlier output: Halo: Reach and Tetris of the catalog, and Pong.
    assert drift["new_queries"] == {
        "number": 1, "share": 1 / 2, "share_of_clicks": 17 / 20,
        "top": [{"query": "new", "clicks": 17, "sessions": 17}],
    }  # fmt: skip
    assert drift["new_titles"] == {
        "number": 1, "share": 1 / 4, "share_of_clicks": 12 / 20,
        "top": [{"title": "Zelda", "clicks": 12}],
    }  # fmt: skip
    compared = drift["before_and_now"]
    assert compared["clicks"] == [8, 20]
    assert compared["clicked titles that the catalog lacks"] == [1 / 2, 2 / 3]
    assert compared["clicks on titles that the catalog lacks"] == [2 / 8, 17 / 20]
    text = "\n".join(to_text(log_sections(log)))
    assert "1 new query: 50.0% of the queries, 85.0% of the clicks." in text


def test_an_unusable_previous_output_is_an_error(error_of_run, run, tmp_path):
    log = "query\ttitle\na\tb\n"
    message = error_of_run("--previous-report", str(tmp_path / "missing"), log=log)
    assert "--previous-report: " in message
    assert "report.json cannot be read" in message
    earlier = run("--keep-accents", log=log).path
    message = error_of_run("--previous-report", str(earlier), log=log)
    assert "was written with --keep-accents True, and this log is read with False" in message
    earlier = run(log=log).path
    (earlier / "report.json").write_text('{"log": {"rows": 1}}')
    assert "report.json is damaged" in error_of_run("--previous-report", str(earlier), log=log)


def test_check_reads_every_format_and_writes_nothing(options, log, tmp_path, monkeypatch, capsys):
    text = "\n".join(log.splitlines()[:40]) + "\n"
    source = options(text).input[0]
    table = csv.read_csv(source, parse_options=csv.ParseOptions(delimiter="\t"))
    folder = tmp_path / "formats"
    folder.mkdir()
    parquet.write_table(table, folder / "log.parquet")
    csv.write_csv(table, folder / "log.csv")
    lines = (json.dumps(row, default=str) for row in table.to_pylist())
    (folder / "log.jsonl").write_text("\n".join(lines))
    with pyarrow.output_stream(str(folder / "log.tsv.gz"), compression="gzip") as file:
        file.write(text.encode())
    names = sorted(path.name for path in folder.iterdir())
    monkeypatch.chdir(folder)
    outputs = set()
    for name in names:
        assert cli.main(["data", "check", name, "--title-fields", "title"]) == 0
        outputs.add(capsys.readouterr().out)
    assert len(outputs) == 1
    assert sorted(path.name for path in folder.iterdir()) == names
    assert "\033" not in outputs.pop()


def test_check_warns_and_succeeds_where_preprocess_fails(write, capsys):
    log = write("log.csv", 'query,title,clicks\n"a\nb",x,1\nc,d,many\n')
    assert cli.main(["data", "check", str(log)]) == 0
    text = capsys.readouterr().out
    assert "Warning: preprocess refuses this log: 1 of 2 rows are malformed" in text
    assert "malformed: clicks is not a number  log.csv:4: c,d,many" in text
    assert "Warning: No row has a session_id" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("query\ttitle\n", "holds no rows below the header"),
        ("query\tname\na\tb\n", "missing: title"),
        (None, "matches no file that is a table"),
    ],
)
def test_check_of_unreadable_input_is_an_error(write, tmp_path, capsys, content, message):
    path = tmp_path / "missing.tsv" if content is None else write("log.tsv", content)
    assert cli.main(["data", "check", str(path)]) == 1
    assert message in capsys.readouterr().err


def test_a_catalog_alone_is_described(options, capsys):
    assert cli.main(["data", "check", "--corpus", *options().corpus]) == 0
    assert "- 3 rows, 2 distinct titles." in capsys.readouterr().out


def test_check_has_the_flags_and_defaults_of_preprocess():
    defaults = {field.name: field.default for field in fields(PreprocessOptions)}
    parameters = inspect.signature(check.check).parameters
    for name, parameter in parameters.items():
        if name != "file":
            assert parameter.default == defaults[name] is not MISSING, name
    settings = {*PreprocessSettings.__annotations__}  # of dssm_tf.preprocess
    assert settings == {*defaults} - {"output", "input", "corpus"}
    about_logs = {"encoding", "columns", "corpus_columns", "title_fields", "min_clicks"}
    assert about_logs <= {*parameters}


def test_the_appendix_has_the_flags_as_typed(run, write):
    path = write("my clicks.tsv", "query\ttitle\na\tb\n")
    data = run("--input", str(path), "--validation_fraction", "0", "--keep-accents")
    text = (data.path / "report.md").read_text("utf-8")
    body, appendix = text.split("## Appendix: flags")
    typed = f"dssm preprocess --input '{path}' --keep-accents --validation-fraction 0.0"
    assert typed in appendix
    assert "--seed" in appendix
    assert "--seed" not in body
    assert "keep_accents" not in text


def test_merging_statistics_does_not_depend_on_the_order():
    parts = []
    for part in range(3):
        statistics = LogStatistics()
        statistics.count({"rows": part})
        statistics.maxima["clicks"] = part
        statistics.days["2024-01-01"] = part
        statistics.histograms["queries"] = Counter({1: part, part: 1})
        # More than are kept; texts repeat between the parts.
        statistics.add_examples(
            "queries", [TextExample((7 * n + part) % 30, (f"t{n}",)) for n in range(30)]
        )
        parts.append(statistics)
    merged = {json.dumps(merge_statistics(order).to_json()) for order in permutations(parts)}
    assert len(merged) == 1
    nested = merge_statistics([parts[0], merge_statistics(parts[1:])])
    assert json.dumps(nested.to_json()) in merged
    # The 20 largest of the maxima of each text.
    best = defaultdict(int)
    for part in range(3):
        for n in range(30):
            best[f"t{n}"] = max(best[f"t{n}"], (7 * n + part) % 30)
    expected = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:20]
    assert [(text, number) for number, (text,), _ in nested.examples["queries"]] == expected
    assert LogStatistics.from_json(json.loads(merged.pop())) == nested
