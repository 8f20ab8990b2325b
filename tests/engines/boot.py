"""Starts a Python worker of Beam as its container does: reads its settings from the runner.

Used as the command of `--environment_type=PROCESS`, which needs no container.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy

import grpc
from apache_beam.portability.api import beam_provision_api_pb2 as messages
from apache_beam.portability.api import beam_provision_api_pb2_grpc as services
from google.protobuf import json_format, text_format


def main() -> None:
    """Runs a worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", required=True)
    parser.add_argument("--provision_endpoint", required=True)
    options, _ = parser.parse_known_args()
    with grpc.insecure_channel(options.provision_endpoint) as channel:
        metadata = [("worker_id", options.id)]
        stub = services.ProvisionServiceStub(channel)
        info = stub.GetProvisionInfo(
            messages.GetProvisionInfoRequest(), metadata=metadata, timeout=60
        ).info
    os.environ["WORKER_ID"] = options.id
    os.environ["PIPELINE_OPTIONS"] = json.dumps(json_format.MessageToDict(info.pipeline_options))
    for name in ("control", "logging"):
        endpoint = getattr(info, f"{name}_endpoint")
        os.environ[f"{name.upper()}_API_SERVICE_DESCRIPTOR"] = text_format.MessageToString(endpoint)
    runpy.run_module("apache_beam.runners.worker.sdk_worker_main", run_name="__main__")


if __name__ == "__main__":
    main()
