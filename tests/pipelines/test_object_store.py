"""Input, output and temporary files in an object store, here moto's server of S3."""

from __future__ import annotations

import time

import boto3
import pytest
from moto.server import ThreadedMotoServer

from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from pipelines import embed

PATHS = ("command", "report", "spec")


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


def pathless(files):
    """The files that contain no path."""
    return {name: data for name, data in files if not name.startswith(PATHS)}


def local(output):
    return pathless((file.name, file.read_bytes()) for file in output.iterdir())


def stored(bucket, prefix):
    objects = bucket.objects.filter(Prefix=f"{prefix}/")
    return pathless(
        (item.key.removeprefix(f"{prefix}/"), item.get()["Body"].read()) for item in objects
    )


@pytest.mark.slow
def test_preprocess_reads_and_writes_an_object_store(bucket, run, error_of_run, topics, tmp_path):
    flags = ["--shards=2", "--temp_location=s3://logs/tmp"]
    expected = local(run(*flags, log=topics).path)
    bucket.upload_file(str(tmp_path / "log.tsv"), "in/one.tsv")
    workers = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    paths = ["--input", "s3://logs/in/*.tsv", "--output", "s3://logs/data"]
    run(*paths, *flags, *workers)
    assert stored(bucket, "data") == expected  # and no parts are left
    assert "s3://logs/data exists already" in error_of_run(*paths, *flags)


@pytest.mark.slow
def test_embed_reads_and_writes_an_object_store(bucket, run_directory, tmp_path):
    corpus, out = tmp_path / "c.tsv", tmp_path / "out"
    write_corpus(corpus, [CorpusTitle(str(n), f"blue owl {n}") for n in range(20)])
    bucket.upload_file(str(corpus), "c.tsv")
    for source, target in (("s3://logs/c.tsv", "s3://logs/out"), (str(corpus), str(out))):
        embed.embed(model=str(run_directory), input=(source,), output=target)
    assert stored(bucket, "out") == local(out)


@pytest.mark.parametrize("flag", ["--input", "--output"])
def test_missing_credentials_are_an_error_without_retries(
    error_of_run, topics, tmp_path, monkeypatch, flag
):
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("SHARED_CREDENTIALS_FILE", "CONFIG_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    started = time.monotonic()
    line = error_of_run(flag, "s3://logs/data.tsv", log=None if flag == "--input" else topics)
    assert time.monotonic() - started < 5  # no retries
    assert "s3://logs/data.tsv: there are no credentials for S3; set AWS_ACCESS_KEY_ID" in line


@pytest.mark.parametrize(
    ("flag", "path", "message"),
    [
        ("--input", "s3://none/in.tsv", "--input s3://none/in.tsv matches no file"),
        ("--output", "s3://none/data", "--output s3://none/data cannot be written"),
    ],
)
def test_a_bucket_that_does_not_exist_is_an_error(
    bucket, error_of_run, topics, flag, path, message
):
    line = error_of_run(flag, path, log=None if flag == "--input" else topics)
    assert message in line
    assert "bucket" in line.lower()
