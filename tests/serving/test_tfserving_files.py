"""The configuration files of TensorFlow Serving are valid and consistent."""

from __future__ import annotations

import re

import pytest
import yaml

from serving.client import Client


@pytest.fixture
def folder(checkout):
    return checkout / "serving" / "tfserving"


def test_models_config_is_valid(folder):
    pytest.importorskip("tensorflow_serving", reason="tensorflow-serving-api is not installed")
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    text = (folder / "models.config").read_text("utf-8")
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path) == ("dssm", "/models/dssm")
    assert model.model_platform == "tensorflow"
    assert model.model_version_policy.latest.num_versions == 1


def test_the_client_s_batch_size_is_within_the_server_s_limit(folder):
    text = re.sub("#.*", "", (folder / "batching_parameters.txt").read_text("utf-8"))
    values = dict(re.findall(r"(\w+) \{ value: (\d+) \}", text))
    # The fields of tensorflow.serving.BatchingParameters, and nothing else in the file.
    assert list(values) == [
        "max_batch_size",
        "batch_timeout_micros",
        "num_batch_threads",
        "max_enqueued_batches",
    ]
    assert re.sub(r"\w+ \{ value: \d+ \}", "", text).strip() == ""
    assert int(values["max_batch_size"]) >= Client.__init__.__kwdefaults__["batch_size"]


def test_image_and_manifest_start_the_server_with_the_same_flags(folder):
    deployment, service = yaml.safe_load_all((folder / "kubernetes.yaml").read_text("utf-8"))
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    dockerfile = (folder / "Dockerfile").read_text("utf-8")
    flags = set(re.findall(r'"(--\S+)"', dockerfile))
    assert set(container["args"]) == {"--port=8500", "--rest_api_port=8501", *flags}
    # Every file the flags name is copied into the image from this folder.
    for name in re.findall(r"=/config/(\S+)", " ".join(flags)):
        assert (folder / name).is_file()
        assert f"serving/tfserving/{name} " in dockerfile
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"grpc": 8500, "rest": 8501}
    assert {port["targetPort"] for port in service["spec"]["ports"]} == set(ports)
    scraped = pod["metadata"]["annotations"]["prometheus.io/path"]
    assert f'path: "{scraped}"' in (folder / "monitoring.config").read_text("utf-8")


def test_documents_and_image_use_the_same_version_of_the_server(checkout, folder):
    version = re.search(
        r"^ARG TF_SERVING_VERSION=(\S+)", (folder / "Dockerfile").read_text("utf-8"), re.M
    )[1]
    readme = (checkout / "serving" / "README.md").read_text("utf-8")
    assert set(re.findall(r"tensorflow/serving:(\S+)", readme)) == {version}
