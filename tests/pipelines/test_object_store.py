"""Input, output and temporary files in an object store, here moto's server of S3."""

from __future__ import annotations

import hashlib
import time

import boto3
import pytest
from moto.server import ThreadedMotoServer

from dssm_tf.export.compact import export_compact
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from pipelines import embed, preprocess
from tests.clicks import click_log, write_data
from tests.runs import finished_run

PATHS = ("command", "report", "spec")
pytestmark = pytest.mark.slow


@pytest.fixture
def bucket(monkeypatch):
    """An empty bucket, s3://logs."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "ENDPOINT_URL": f"http://{host}:{port}",
        "ACCESS_KEY_ID": "name",
        "SECRET_ACCESS_KEY": "secret",
        "DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    yield boto3.resource("s3").create_bucket(Bucket="logs")
    server.stop()


def digests(files):
    """Those of files in which no path is written down."""
    named = {name: hashlib.sha256(data).hexdigest() for name, data in files}
    return {name: one for name, one in named.items() if not name.startswith(PATHS)}


def local(output):
    return digests((one.name, one.read_bytes()) for one in output.iterdir())


def stored(bucket, prefix):
    found = bucket.objects.filter(Prefix=f"{prefix}/")
    return digests((one.key.removeprefix(f"{prefix}/"), one.get()["Body"].read()) for one in found)


def test_preprocess_reads_and_writes_an_object_store(bucket, topics, tmp_path, capsys):
    log = tmp_path / "one.tsv"
    log.write_text(topics, "utf-8")
    bucket.upload_file(str(log), "in/one.tsv")
    flags = ["--shards=2", "--temp_location=s3://logs/tmp"]
    workers = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    run = ["--input", "s3://logs/in/*.tsv", "--output", "s3://logs/data", *flags, *workers]
    assert preprocess.run(run) == 0
    assert preprocess.run(["--input", str(log), "--output", str(tmp_path / "data"), *flags]) == 0
    assert stored(bucket, "data") == local(tmp_path / "data")  # and no parts are left
    assert preprocess.run(run) == 1
    assert "s3://logs/data exists already" in capsys.readouterr().err


def test_embed_reads_and_writes_an_object_store(bucket, tmp_path):
    data = write_data(tmp_path / "records", click_log(), validation=())
    run = finished_run(tmp_path / "run", data, {"tower": {"name": "dssm", "widths": [8, 6]}})
    export_compact(run, tmp_path / "export", "model")
    write_corpus(tmp_path / "c.tsv", [CorpusTitle(str(n), f"blue owl {n}") for n in range(20)])
    bucket.upload_file(str(tmp_path / "c.tsv"), "c.tsv")
    model = ["--model", str(tmp_path / "export/model")]
    assert embed.run(["--input", "s3://logs/c.tsv", "--output", "s3://logs/out", *model]) == 0
    places = ["--input", str(tmp_path / "c.tsv"), "--output", str(tmp_path / "out")]
    assert embed.run([*places, *model]) == 0
    assert stored(bucket, "out") == local(tmp_path / "out")


@pytest.mark.parametrize("flag", ["--input", "--output"])
def test_without_credentials_there_is_one_line_at_once(topics, tmp_path, monkeypatch, capfd, flag):
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("SHARED_CREDENTIALS_FILE", "CONFIG_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    log = tmp_path / "log.tsv"
    log.write_text(topics, "utf-8")
    places = {"--input": str(log), "--output": str(tmp_path / "data"), flag: "s3://logs/data.tsv"}
    started = time.monotonic()
    assert preprocess.run([word for pair in places.items() for word in pair]) == 1
    assert time.monotonic() - started < 5  # no retries
    (line,) = capfd.readouterr().err.splitlines()
    assert "s3://logs/data.tsv: there are no credentials for S3; set AWS_ACCESS_KEY_ID" in line


@pytest.mark.parametrize(
    ("flag", "place", "said"),
    [
        ("--input", "s3://none/in.tsv", "--input s3://none/in.tsv matches no file"),
        ("--output", "s3://none/data", "--output s3://none/data cannot be written"),
    ],
)
def test_a_bucket_that_does_not_exist_is_one_line(
    bucket, topics, tmp_path, capsys, flag, place, said
):
    log = tmp_path / "log.tsv"
    log.write_text(topics, "utf-8")
    places = {"--input": str(log), "--output": str(tmp_path / "data"), flag: place}
    assert preprocess.run([word for pair in places.items() for word in pair]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert "bucket" in line.lower()
