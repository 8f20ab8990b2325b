"""Which input files are read, ignored or refused."""

from __future__ import annotations

import gzip
import os
from collections import Counter

import pytest
from apache_beam.io.filesystem import FileMetadata, MatchResult
from apache_beam.io.filesystems import FileSystems

from dssm_tf.common.errors import UserError
from pipelines.sources import find_files

NO_VALIDATION = ("--validation-fraction", "0")
LOG = "query\ttitle\tclicks\nred hat\tRed Hat\t3\n"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("a.tsv", "b.TSV", "_SUCCESS", ".hidden.tsv", "_old.tsv", "c.tsv~"):
        (folder / name).write_text(LOG.replace("red", f"{name[0]} red"), "utf-8")
    (folder / "g.Tsv.GZ").write_bytes(gzip.compress(LOG.encode()))
    (folder / "h.NDJSON").write_text('{"query": "q", "title": "Nd"}\n', "utf-8")
    return folder


def test_files_of_known_formats_are_read_whatever_the_case_of_their_names(run, folder):
    assert [path.name for path in find_files([str(folder)]).paths] == [
        "a.tsv", "b.TSV", "g.Tsv.GZ", "h.NDJSON"
    ]  # fmt: skip
    data = run("--input", str(folder), *NO_VALIDATION)
    assert {record.query for record in data.records()} == {"a red hat", "b red hat", "red hat", "q"}


def test_a_folder_with_other_files_is_refused_unless_they_are_ignored(run, error_of_run, folder):
    for name in ("notes.txt", "part-00000", "a.tsv.bak", "c.tsv.bz2", "i.json"):
        (folder / name).write_text(LOG, "utf-8")
    (folder / "2023").mkdir()
    message = error_of_run("--input", str(folder), *NO_VALIDATION)
    assert "2023/, a.tsv.bak, c.tsv.bz2, i.json, notes.txt, part-00000" in message
    assert "--ignore-other-files" in message
    data = run("--input", str(folder), *NO_VALIDATION, "--ignore-other-files")
    assert len(data.records()) == 4


def test_a_repeated_file_is_read_once_with_a_warning(run, write, tmp_path, monkeypatch, capsys):
    path = write("log.tsv", LOG)
    monkeypatch.chdir(tmp_path)
    os.symlink(path, tmp_path / "link.tsv")
    os.link(path, tmp_path / "hard.tsv")
    names = ["log.tsv", str(path), "./log.tsv", "link.tsv", "hard.tsv"]
    data = run("--input", *names, *NO_VALIDATION)
    assert [record.clicks for record in data.records()] == [3]
    assert capsys.readouterr().err.count("it is read once") == 4


def test_gzip_under_another_name_is_read(run, tmp_path):
    path = tmp_path / "log.tsv"
    path.write_bytes(gzip.compress(LOG.encode()))
    assert [record.clicks for record in run("--input", str(path), *NO_VALIDATION).records()] == [3]


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"BZh91AY&SY\x00\x00", "holds bzip2 data"),
        (b"PAR1\x15\x04", "holds Parquet data"),
        (b"PK\x03\x04\x14\x00", "holds ZIP or Excel data"),
        (b"\x28\xb5\x2f\xfd\x00", "holds zstd data"),
        (LOG.encode("utf-16"), "the text is UTF-16, not UTF-8; give --encoding utf-16"),
    ],
)
def test_the_error_for_data_of_another_format_names_the_format(
    error_of_run, tmp_path, start, message
):
    path = tmp_path / "log.tsv"
    path.write_bytes(start)
    assert message in error_of_run("--input", str(path), *NO_VALIDATION)


def test_lines_that_end_in_carriage_returns_are_read(run, write):
    for name, text in (("log.tsv", LOG), ("log.csv", LOG.replace("\t", ","))):
        path = write(name, text.replace("\n", "\r"))
        assert [
            record.clicks for record in run("--input", str(path), *NO_VALIDATION).records()
        ] == [3]


def test_the_block_list_has_the_encoding_of_the_log(run, error_of_run, write):
    log, blocked = LOG + "café\tCafé\t2\n", write("block.txt", "café\n".encode("cp1252"))
    path = write("cp1252.tsv", log.encode("cp1252"))
    flags = ("--input", str(path), "--block-list", str(blocked), *NO_VALIDATION)
    assert f"--block-list {blocked}:1: the text is not UTF-8" in error_of_run(*flags)
    data = run(*flags, "--encoding", "cp1252")
    assert [record.query for record in data.records()] == ["red hat"]


def test_a_corpus_may_have_other_column_names_than_the_log(run, write, error_of_run):
    log = write("log.tsv", "term\tproduct\nred hat\tRed Hat\n")
    corpus = write("corpus.tsv", "sku\tname\n1\tGreen Tie\n")
    flags = ("--input", str(log), "--corpus", str(corpus), *NO_VALIDATION)
    flags = (*flags, "--columns", "query=term,title=product")
    assert "'sku', 'name'; expected 'product'" in error_of_run(*flags)
    data = run(*flags, "--corpus-columns", "doc_id=sku,title=name")
    assert {*data.titles} == {"Red Hat", "Green Tie"}


def test_null_markers_are_not_a_session(run):
    # A session of 150 queries would be dropped as that of a robot.
    markers = [r"\N", "-", "NULL", "null", "None", "NaN", "n/a", "", " "]
    rows = "".join(
        f"query {n} of {number}\tTitle {n}\t{marker}\n"
        for number, marker in enumerate(markers)
        for n in range(150)
    )
    data = run(*NO_VALIDATION, log="query\ttitle\tsession_id\n" + rows)
    by_marker = Counter(record.query.rpartition(" ")[2] for record in data.records())
    assert by_marker == {str(number): 150 for number in range(len(markers))}


def test_a_log_that_is_mostly_of_robots_is_refused_and_the_error_names_the_flags(run, error_of_run):
    header = "query\ttitle\tsession_id\n"
    robot_rows = "".join(f"query {n}\tTitle {n}\tanonymous\n" for n in range(150))
    other_rows = "".join(f"other {n}\tTitle {n}\t{n}\n" for n in range(50))
    message = error_of_run(*NO_VALIDATION, log=header + robot_rows + other_rows)
    assert "75.0% of the rows and 75.0% of the clicks are of sessions that look like" in message
    assert "--max-robot-fraction" in message
    assert "--max-queries-per-session" in message
    data = run(*NO_VALIDATION, "--max-robot-fraction", "0.8", log=header + robot_rows + other_rows)
    assert len(data.records()) == 50


def test_csv_with_quoted_line_ends_is_read_like_csv_without_them(run, write, monkeypatch):
    monkeypatch.setattr("pipelines.sources.MIN_PIECE_BYTES", 100)
    monkeypatch.setattr("pipelines.sources.PIECES", 1000)
    plain = "".join(f"query {n},Title {n},1\n" for n in range(200))
    quoted = plain + 'end,"Cotton shirt\nred, small, 1\nblue, large, 2",1\n'
    for name, text, pairs in (("a.csv", plain, 200), ("b.csv", quoted, 201)):
        path = write(name, "query,title,clicks\n" + text)
        data = run("--input", str(path), *NO_VALIDATION)
        assert len(data.records()) == pairs
    assert "Cotton shirt red, small, 1 blue, large, 2" in data.titles


@pytest.fixture
def bucket(monkeypatch):
    """Makes gs://bucket a store of objects with the given names; patterns are those of Beam."""
    file_system = FileSystems.get_filesystem(".")

    def fill(*names):
        objects = [FileMetadata(f"gs://bucket/{name}", 9) for name in names]

        def match(patterns):
            return [
                MatchResult(pattern, [*file_system.match_files(objects, pattern)])
                for pattern in patterns
            ]

        monkeypatch.setattr(FileSystems, "join", lambda path, name: f"{path.rstrip('/')}/{name}")
        monkeypatch.setattr(FileSystems, "match", match)

    return fill


def names_of(pattern, **options):
    found = find_files([pattern], **options)
    assert not found.notes
    return [file.path.removeprefix("gs://bucket/") for file in found.files]


def test_a_directory_on_a_remote_store_is_listed_as_a_local_one(bucket):
    bucket("log/", "log/a.tsv", "log/_SUCCESS", "log/_tmp/0/c.tsv", "log/b.TSV.gz", "log/notes.txt",
           "logs/c.tsv")  # fmt: skip
    for pattern in ("gs://bucket/log", "gs://bucket/log/"):
        with pytest.raises(UserError, match=r"contains files that are not tables: notes\.txt\."):
            find_files([pattern])
        assert names_of(pattern, ignore_others=True) == ["log/a.tsv", "log/b.TSV.gz"]


def test_a_subdirectory_of_a_remote_directory_is_an_error(bucket):
    days = [f"log/dt=2024-01-{day:02}/{part}.tsv" for day in (1, 2) for part in range(20)]
    bucket("log/a.tsv", *days, "log/deep/er/c.tsv", "log/_temporary/0/d.tsv")
    for pattern in ("gs://bucket/log", "gs://bucket/log/", "gs://bucket/l*g"):
        message = "not tables: deep/, dt=2024-01-01/, dt=2024-01-02/. .* with --ignore-other-files"
        with pytest.raises(UserError, match=message):
            find_files([pattern])
        assert names_of(pattern, ignore_others=True) == ["log/a.tsv"]
    # A glob reads the directories that it matches, and ** crosses directories.
    assert names_of("gs://bucket/log/dt=*") == sorted(days)
    assert names_of("gs://bucket/log/*/*.tsv") == sorted(days)
    assert names_of("gs://bucket/**/*.tsv") == ["log/a.tsv", "log/deep/er/c.tsv", *sorted(days)]


def test_a_glob_reads_the_directories_that_it_matches_but_not_those_in_them(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    for name in ("2024/b.tsv", "_temporary/0/c.tsv"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(LOG, "utf-8")
    tables = ["a.tsv", "b.TSV", "g.Tsv.GZ", "h.NDJSON"]
    for pattern in ("logs/*", "./logs/*", "logs/**", "./logs/**"):
        assert [path.name for path in find_files([pattern]).paths] == ["b.tsv", *tables]
    assert [path.name for path in find_files(["logs/_temporary/*/*.tsv"]).paths] == ["c.tsv"]
    assert [path.name for path in find_files(["logs/20*"]).paths] == ["b.tsv"]
    (folder / "2024" / "05").mkdir()
    with pytest.raises(UserError, match=r"not tables: 05/\. .* with --ignore-other-files"):
        find_files(["logs/*"])
    found = find_files(["logs/*"], ignore_others=True)
    assert [path.name for path in found.paths] == ["b.tsv", *tables]
    assert [path.name for path in find_files(["logs/*.tsv"]).paths] == ["a.tsv"]
