"""Training on two hosts (network namespaces) compared with training on one host."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.clicks import click_log, write_data
from tests.engines.engines import start, succeeds, wait_until
from tests.training.configuration import weights
from tests.training.test_distributed import CONFIG, TOLERANCE

ADDRESSES = ("10.77.0.1", "10.77.0.2")
PORT = 2222
EPOCHS = 12
LINK = ["ip", "link", "add", "dssm-0", "type", "veth", "peer", "name", "dssm-1"]


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[str]]:
    """The names of two connected network namespaces."""
    names = [f"dssm-host-{index}" for index in range(2)]
    with ExitStack() as stack:
        for name in names:
            if os.geteuid() or subprocess.run(["ip", "netns", "add", name]).returncode:
                pytest.skip("needs root and iproute2, for network namespaces")
            stack.callback(subprocess.run, ["ip", "netns", "delete", name], check=True)
        subprocess.run(LINK, check=True)
        for index, name in enumerate(names):
            for command in (
                f"link set dssm-{index} netns {name}",
                f"-n {name} addr add {ADDRESSES[index]}/24 dev dssm-{index}",
                f"-n {name} link set lo up",
                f"-n {name} link set dssm-{index} up",
            ):
                subprocess.run(["ip", *command.split()], check=True)
        yield names


def train(out: Path, config: Path, data: Path, host: str = "", index: int = 0) -> subprocess.Popen:
    """Starts `dssm train`, on a host if one is named."""
    command = ["train", "--config", config, "--data", data, "--out", out]
    if not host:
        return start("dssm_tf.cli", command)
    workers = [f"{address}:{PORT}" for address in ADDRESSES]
    task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
    on_host = ["ip", "netns", "exec", host]
    return start("dssm_tf.cli", command, on_host, TF_CONFIG=json.dumps(task))


@pytest.mark.engines
def test_two_hosts_reach_the_weights_of_one_host_also_after_a_restart(hosts, tmp_path):
    data = write_data(tmp_path / "data", click_log()).path
    config = tmp_path / "config.yaml"
    training = {**CONFIG["training"], "epochs": EPOCHS}
    config.write_text(yaml.safe_dump({**CONFIG, "training": training}), "utf-8")
    succeeds(train(tmp_path / "one", config, data))

    def train_on_both() -> list[subprocess.Popen]:
        return [train(tmp_path / "two", config, data, host, i) for i, host in enumerate(hosts)]

    chief, other = train_on_both()
    assert wait_until(
        500, lambda: chief.poll() is not None or any(tmp_path.glob("two/state/*.npz"))
    )
    assert chief.poll() is None
    for process in (other, chief):  # the chief cannot continue alone; Kubernetes restarts both
        process.kill()
        process.communicate()
    for process in train_on_both():
        succeeds(process)
    expected, actual = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert actual.keys() == expected.keys()
    for name, values in expected.items():
        # six times the steps of test_distributed
        np.testing.assert_allclose(actual[name], values, atol=6 * TOLERANCE, rtol=0, err_msg=name)
