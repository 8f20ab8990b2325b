"""Training on two devices equals training on one; a directory has one training at a time."""

from __future__ import annotations

import signal
import time
from types import SimpleNamespace

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.training.checks import check_batch_sizes
from dssm_tf.training.devices import Devices
from tests.rounding import rounding_bound
from tests.training.configuration import CONFIG, EPOCHS, RECORDED, assert_near, config


@pytest.mark.long
@pytest.mark.keras
@pytest.mark.numeric
def test_training_on_two_devices_equals_training_on_a_single_device(data, folder, processes):
    # clip_norm is below most gradient norms, so clipping per replica would give other weights.
    optimizer = {"name": "nesterov", "learning_rate": 0.5, "clip_norm": 0.05,
                 "momentum": 0.9}  # fmt: skip
    raw = config(
        negatives=RECORDED,
        tower__dropout=0.0,
        optimizer=optimizer,
        training__epochs=1,
        training__averaging=0.5,
    )
    runs = [
        processes.start(raw, data.path, folder / f"devices-{devices}", devices=devices)
        for devices in (1, 2)
    ]
    histories = [run.wait().result["history"] for run in runs]
    # 6 steps, each of which adds a sum over 8 pairs of 3 candidates to weights of about 1.
    tolerance = rounding_bound(6 * 8 * 3, 1)
    assert_near(*(folder / f"devices-{devices}" for devices in (1, 2)), *histories, tolerance)


def test_a_batch_size_that_cannot_be_divided_among_the_devices_is_refused():
    with pytest.raises(UserError, match=r"training\.batch_size: 7 cannot be divided among 2"):
        check_batch_sizes(parse_config(config(training__batch_size=7)).training, {}, replicas=2)


def test_products_are_sparse_on_cpus_without_xla_only():
    def sparse(xla, gpus):
        return Devices.use_sparse_products(SimpleNamespace(has_gpus=gpus), xla)

    assert sparse(xla=False, gpus=False)
    assert not sparse(xla=True, gpus=False)
    assert not sparse(xla=False, gpus=True)
    assert not sparse(xla=True, gpus=True)


def test_a_step_of_several_cpus_is_not_compiled_by_xla():
    def compiled(xla, replicas, gpus=False, workers=1):
        devices = SimpleNamespace(replicas=replicas, has_gpus=gpus, workers=workers)
        return Devices.use_xla(devices, xla)

    assert not compiled("auto", 1)
    assert compiled("auto", 1, gpus=True)
    assert not compiled("auto", 2, gpus=True)
    assert compiled(True, 1)
    assert compiled(True, 2, gpus=True)
    assert not compiled(True, 2, gpus=True, workers=2)
    assert not compiled(True, 2)


@pytest.mark.long
def test_a_second_training_is_refused_and_the_first_finishes(data, processes, tmp_path):
    out = tmp_path / "run"
    first = processes.start(CONFIG, data.path, out)
    while not (out / "config.yaml").exists():
        time.sleep(0.02)
    first.signal(signal.SIGSTOP)
    second = processes.train(CONFIG, data.path, out)
    first.signal(signal.SIGCONT)
    assert second.error == f"{out} is being written by another process."
    finished = first.wait()
    assert (finished.error, finished.result["epochs"]) == (None, EPOCHS)
