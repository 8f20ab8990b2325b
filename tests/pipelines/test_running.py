"""Runs: the same output with any number of workers, no partial output, any runner."""

from __future__ import annotations

import re
import sys
import threading

import apache_beam as beam
import grpc
import pytest
from apache_beam.io.filesystem import FileMetadata
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

from dssm_tf.common import progress
from dssm_tf.common.errors import UserError
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import graph, launcher, runners, sources
from pipelines.options import FLAGS, PreprocessOptions
from pipelines.shards import PipelineContext
from pipelines.sources import find_files, plan
from tests.pipelines.loop import run as loop
from tests.progress import write_last_line


@pytest.fixture
def mixed(topics):
    """The log of topics with sessions, malformed rows, and titles displayed without a click."""
    lines = topics.splitlines()
    rows = [lines[0] + "\tsession_id\timpressions"]
    for n, line in enumerate(lines[1:]):
        rows.append(f"{line}\t{'' if n % 3 else f's{n % 8}'}\t{n % 5}")
        rows.append(f"{line.rsplit(chr(9), 1)[0]}\t0\t\t3" if n % 4 else "too few")
    return "\n".join(rows * 2) + "\n"


MIXED_FLAGS = ("--negatives_from", "both", "--max_reject_fraction", "0.5")


@pytest.mark.long
def test_the_output_depends_only_on_log_and_seed_and_progress_is_displayed(
    run, mixed, tmp_path, monkeypatch, capsys
):
    data = run(*MIXED_FLAGS, "--shards", "2", log=mixed)
    expected = data.bytes()
    assert len(data.records()) > 40
    options = PreprocessOptions(
        input=(str(tmp_path / "log.tsv"),), output="out", negatives_from="both"
    )
    for name, content in loop(options, tmp_path / "loop", bits=1)[0].bytes().items():
        assert expected[name] == content, name
    monkeypatch.setattr(sources, "MIN_PIECE_BYTES", 300)
    monkeypatch.setattr(sources, "PIECES", 40)
    monkeypatch.setattr(progress, "_write_lines", write_last_line)
    capsys.readouterr()
    workers = "--shards", "2", "--direct_num_workers=2", "--direct_running_mode=multi_threading"
    assert run(*MIXED_FLAGS, *workers, log=mixed).bytes() == expected
    line = capsys.readouterr().err.splitlines()[0]
    pattern = r"preprocess: .*, (\d+) of (\d+) pieces read, 2 of 2 buckets written"
    read, total = re.fullmatch(pattern, line).groups()
    assert read == total > "1"
    # Small limits of the memory of a worker.
    monkeypatch.setattr("pipelines.parse_log.MAX_PENDING_ROWS", 7)
    monkeypatch.setattr("pipelines.parse_log.MAX_PENDING_BYTES", 60)
    monkeypatch.setattr("pipelines.shards._MAX_PENDING_ROWS", 3)
    monkeypatch.setattr("dssm_tf.tables.lines.BLOCK_BYTES", 100)
    assert run(*MIXED_FLAGS, *workers, log=mixed).bytes() == expected
    assert run(*MIXED_FLAGS, "--seed", "7", log=mixed).records() != data.records()


def test_a_truncated_log_leaves_no_output_and_is_an_error(error_of_run, write, tmp_path, topics):
    header, *rows = topics.splitlines(keepends=True)
    # Long enough that a worker reads its end, not the launcher, which reads the header.
    log = write("log.tsv.gz", "".join([header, *rows * 2000]))
    log.write_bytes(log.read_bytes()[:-200])
    reason = "Compressed file ended before the end-of-stream marker was reached"
    error = error_of_run("--input", str(log))
    assert error == f"dssm preprocess: {log} is not a complete gzip file: {reason}."
    assert list(tmp_path.iterdir()) == [log]


@pytest.mark.parametrize("error", [MemoryError, OSError(28, "No space left on device")])
def test_a_failing_worker_leaves_no_output(run, error_of_run, tmp_path, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("pipelines.aggregate.best_texts", fail)
    log = "query\ttitle\na\tb\nc\td\n"
    if error is MemoryError:
        with pytest.raises((MemoryError, RuntimeError), match="SumQueries"):
            run(log=log)
    else:
        assert error_of_run(log=log) == "dssm preprocess: [Errno 28] No space left on device"
    assert [path.name for path in tmp_path.iterdir()] == ["log.tsv"]


@pytest.fixture
def runner_and_options(monkeypatch):
    """A function that returns the runner and the options of a pipeline without running it."""

    class NotRun(Exception):
        pass

    def pipeline(runner, options):
        raise NotRun(runner, options.get_all_options())

    monkeypatch.setattr("apache_beam.Pipeline", pipeline)

    def runner_and_options(name, flags, size):
        with pytest.raises((NotRun, UserError)) as caught:
            runners.run(lambda _: None, name, flags, FLAGS, size=size)
        return (caught.value.__cause__ or caught.value).args

    return runner_and_options


MANY_BYTES = runners.MAX_THREADED_BYTES + 1


@pytest.mark.parametrize(
    ("name", "flags", "size", "expected"),
    [
        # Never the Prism runner, which Beam would download.
        ("DirectRunner", ["--direct_num_workers=2"], 0, {"direct_num_workers": 2}),
        ("DirectRunner", ["--direct_num_workers=1"], MANY_BYTES, {"direct_num_workers": 1}),
        ("DirectRunner", [], MANY_BYTES - 1, {"direct_num_workers": 1}),
        ("DirectRunner", [], MANY_BYTES, {"direct_num_workers": 0}),  # all cores
        (
            "FlinkRunner",
            ["--flink_master=host:1", "--flag_of_flink=2"],
            MANY_BYTES,
            {"runner": "FlinkRunner", "flink_master": "host:1", "direct_num_workers": 1},
        ),
    ],
)
def test_a_large_local_run_uses_all_cores_and_other_runners_get_their_flags(
    runner_and_options, name, flags, size, expected
):
    runner, options = runner_and_options(name, flags, size)
    assert type(runner).__name__ == {"DirectRunner": "FnApiRunner"}.get(name, name)
    assert options.items() >= expected.items()


@pytest.mark.long
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--runner=nonsense"], "--runner nonsense: Unexpected pipeline runner"),
        (["--runner=os.Runner"], "--runner os.Runner: module 'os' has no attribute 'Runner'"),
        (["--runner", "PortableRunner"], "--runner PortableRunner: You must specify a --job_endp"),
        (["--runner=DataflowRunner"], "Missing required option: project"),
        (["--negative=4"], "has the flag --negative. Did you mean '--negatives'"),
        (["--direct_running_mode=sideways"], "invalid choice: 'sideways'"),
    ],
)
def test_an_unusable_runner_or_flag_is_an_error(error_of_run, topics, flags, message):
    assert message in error_of_run(*flags, log=topics)


def test_the_output_of_a_worker_in_this_process_is_hidden(monkeypatch, capsys):
    class LostConnection(grpc.RpcError, grpc.Call):
        def details(self):
            return None

    resume = threading.Event()
    worker = threading.Thread(target=lambda: resume.wait() and [].pop())

    def pipeline(runner, options):
        sys.stderr.write("Traceback of a worker\n")
        worker.start()
        threading.Timer(0.1, resume.set).start()
        raise LostConnection

    excepthook = threading.excepthook
    monkeypatch.setattr(LostConnection, "__abstractmethods__", frozenset())
    monkeypatch.setattr("apache_beam.Pipeline", pipeline)
    flags = ["--job_endpoint=host:1"]
    with pytest.raises(
        UserError, match=r"the job server host:1 does not answer; .*job_endpoint\.$"
    ):
        runners.run(lambda _: None, "PortableRunner", flags, FLAGS)
    worker.join()
    assert capsys.readouterr().err == ""
    assert threading.excepthook is excepthook


def test_the_job_graph_translates_for_dataflow_with_keys_that_any_runner_encodes_alike(
    write, topics
):
    assert DataflowRunner  # importable, so that --runner=DataflowRunner resolves
    log = write("log.tsv", topics)
    files = find_files([str(log)])
    flags = [
        "--runner=DataflowRunner", "--project=p", "--region=europe-west1",
        "--temp_location=gs://bucket/tmp", "--setup_file=./worker/setup.py",
    ]  # fmt: skip
    # Building needs no cloud; the extra apache-beam[gcp] is needed to submit.
    pipeline = beam.Pipeline(runner="DirectRunner", options=PipelineOptions(flags))
    options = PreprocessOptions(input=(str(log),), output="gs://bucket/data")
    context = PipelineContext(options, 16, "gs://bucket/data.incomplete")
    graph.build(
        pipeline, plan(files.files, options.layout), context, [], Vocabulary((), options.rules)
    )
    proto, _ = pipeline.to_runner_api(return_context=True)
    # A round trip, as the service makes it.
    again = beam.Pipeline.from_runner_api(proto, "DirectRunner", PipelineOptions())
    assert len(again.to_runner_api().components.transforms) == len(proto.components.transforms)
    transforms, coders = proto.components.transforms.values(), proto.components.coders
    steps = {"ReadPieces", "SumQueries", "SumTitles", "WriteQueriesAndPairs", "Write manifest"}
    assert steps <= {transform.unique_name for transform in transforms}
    groupings = [
        transform
        for transform in transforms
        if transform.spec.urn == "beam:transform:group_by_key:v1"
        and "/Group/" in f"{transform.unique_name}/"
    ]
    assert len(groupings) == 4
    for transform in groupings:
        (pcollection,) = transform.inputs.values()
        coder = coders[proto.components.pcollections[pcollection].coder_id]
        key = coders[coder.component_coder_ids[0]]
        assert key.spec.urn == "beam:coder:varint:v1", transform.unique_name


@pytest.mark.parametrize(("bucket", "shards"), [(1 << 20, 1), (100, 4), (50, 8)])
def test_no_bucket_grows_with_the_log(tmp_path, monkeypatch, bucket, shards):
    log = tmp_path / "log.tsv"
    log.write_text("query\ttitle\n" + "red hat\tRed Hat\n" * 20)
    assert log.stat().st_size == 332
    monkeypatch.setattr(launcher, "BUCKET_BYTES", bucket)
    launcher.preprocess(
        PreprocessOptions(input=(str(log),), output=str(tmp_path / "data"), validation_fraction=0)
    )
    assert len([*(tmp_path / "data").glob("queries-*")]) == shards
    packed, plain = (FileMetadata(name, 10**9) for name in ("log.tsv.gz", "log.tsv"))
    assert graph.unpacked_size([packed, plain]) == 5 * 10**9
